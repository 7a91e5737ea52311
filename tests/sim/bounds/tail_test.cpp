#include "sim/bounds/tail.h"

#include <catch2/catch.hpp>

using namespace stepcast;

namespace {

using feature::unit;
constexpr double slowing = 0.25;   // slowdown
constexpr double lost_part = 0.2;  // s / (1 + s): share of a collective that kernels beside it lose

void set_passes(FeatureTimes& f, UnitKind kind, double forward, double backward, double inputs,
                double weights) {
    f[unit(kind, Pass::forward)] = forward;
    f[unit(kind, Pass::backward)] = backward;
    f[unit(kind, Pass::input_backward)] = inputs;
    f[unit(kind, Pass::weight_backward)] = weights;
}

// Forward, and backward + recomputation: a dense layer takes 3 and 7 + 2, with experts 5 and 11 +
// 1; an embedding 1 and 2, a head 4 and 8.
FeatureTimes tail_times() {
    FeatureTimes f{};
    set_passes(f, UnitKind::dense, 3, 7, 4, 3);
    set_passes(f, UnitKind::experts, 5, 11, 6, 5);
    set_passes(f, UnitKind::embedding, 1, 2, 0, 2);
    set_passes(f, UnitKind::head, 4, 8, 5, 3);
    f[feature::again(UnitKind::dense)] = 2;
    f[feature::again(UnitKind::experts)] = 1;
    f[feature::send_near] = 0.25;
    f[feature::send_far] = 0.5;
    f[feature::entry] = 0.125;
    return f;
}

// A stage of three dense layers, two with experts and an embedding: forward 3 x 3 + 2 x 5 + 1 = 20,
// backward 3 x 9 + 2 x 12 + 2 = 53; a layer on average 3.8 and 10.2. Four stages of two chunks, six
// micro-batches.
struct TailStage {
    ParallelPlan plan;
    Parallelism& p = plan.parallelism;
    Exchanges& x = plan.exchanges;
    FeatureTimes f = tail_times();
    StageGroup group;
    DataTimes data;
    int chunks = 2;

    TailStage() {
        p.pp = 4;
        group.most = {3, 2, 1, 0};
        data.gradients = 34;
        data.last_bucket = 5;
        data.first_layers = 2;
        data.parameters = 46;
        data.gathered = {13, 17, 19, 23};
    }
    [[nodiscard]] Tail tail(double end = 300) const {
        return tail_of({plan, f, group, data, chunks, 6, slowing}, end);
    }
};

void check_tail(const Tail& found, double delay, double exposed) {
    CHECK(found.delay == Approx(delay));
    CHECK(found.exposed == Approx(exposed));
}

}  // namespace

// Work of 7 s loses a fifth of 5 s of communication beside it; beside 50 s it loses a quarter of
// itself.
TEST_CASE("what is lost beside a collective is bounded by both") {
    CHECK(lost_to_overlap(7, 5, slowing) == Approx(1));
    CHECK(lost_to_overlap(7, 50, slowing) == Approx(7 * slowing));
}

// The last backward of a chunk takes 26.5 s; its first bucket is full after two layers. The
// remaining 6.1 s, a quarter longer, run beside 17 s of gradients. Each of two chunks and each of
// three later stages delays the slots by that quarter, and 17 - 7.625 s are left after the last
// chunk. With 400 s the gradients of both chunks count, less the time since the chunk before, 4
// slots of 26.5 s earlier.
TEST_CASE("without sharding gradients go beside the last backwards") {
    TailStage stage;
    const double lost = slowing * 6.1;
    check_tail(stage.tail(), 5 * lost, 17 - 6.1 - lost);
    stage.data.last_bucket = 11;
    check_tail(stage.tail(), 5 * lost, 11);
    stage.data.gradients = 400;
    check_tail(stage.tail(), 5 * lost, 400 - 6.1 - lost - 4 * 26.5);
    stage.p.zero = 1;
    stage.x.parameters = false;
    check_tail(stage.tail(), 5 * lost, 400 - 6.1 - lost - 4 * 26.5);
    // all gradients after the backward
    stage.x.gradients = GradientOverlap::never;
    check_tail(stage.tail(), 0, 400);
    stage.p.zero = 2;  // in every micro-batch, without a pipeline
    check_tail(stage.tail(), 0, 6 * 400);
}

// A chunk's forward takes 10 s, half of the stage's, or 12.5 s slowed. Gathering its layers'
// parameters takes 23 s, and the last layer, of 3.8 s, waits for them. While the pipeline fills, in
// 40 s, kernels lose a fifth of 46 s. With 146 s the second chunk, four slots of 10 s later, waits
// for its parameters as well.
TEST_CASE("parameters that are gathered beside the first forwards delay them") {
    TailStage stage;
    stage.p.zero = 1;
    stage.x.parameters = true;
    const double before = 5 * slowing * 6.1;
    check_tail(stage.tail(), before + lost_part * 46 + 23 + 3.8 - 12.5, 17 - 6.1 * (1 + slowing));
    stage.data.parameters = 146;
    check_tail(stage.tail(), before + slowing * 40 + 146 + 3.8 - 12.5 - 4 * 10,
               17 - 6.1 * (1 + slowing));
    stage.data.parameters = 2;
    check_tail(stage.tail(), before + lost_part * 2, 17 - 6.1 * (1 + slowing));
}

// zb-h1, one chunk: slots of weight gradients take 3 x 3 + 2 x 5 + 2 = 21; two layers, 3.8 each on
// average, fill the first bucket after 7.6. Other stages do not wait for these slots.
TEST_CASE("split backwards fill buckets in slots of their own") {
    TailStage stage;
    stage.p.schedule = Schedule::zb_h1;
    stage.chunks = 1;
    const double window = 21 - 2 * 3.8, lost = lost_part * 15;
    stage.data.gradients = 15;
    check_tail(stage.tail(), lost, 5);
    stage.data.gradients = 115;
    check_tail(stage.tail(), slowing * window, 115 - window * (1 + slowing));
}

// zero 2, which shards in every pass without a pipeline alone. Six backwards of 53 s, each after a
// forward of 20, exchange 34 s of gradients. Five lose a fifth of that wherever it lies; the last
// one the same, as its first bucket leaves 32.6 s, or 40.75 slowed. The first bucket is full
// at 40.4 s, and from then on 204 s are exchanged: with slots of 150 s and 40.8 s of delay
// until 53.6 s after them.
TEST_CASE("under zero 2 gradients go beside every backward") {
    TailStage stage;
    stage.p.pp = 1;
    stage.p.zero = 2;
    stage.x.parameters = false;
    stage.chunks = 1;
    const double delay = 6 * lost_part * 34, full = 20 + 2 * 10.2, window = 53 - 2 * 10.2;
    check_tail(stage.tail(150), delay, full + 6 * 34 - 150 - delay);
    check_tail(stage.tail(400), delay, 5);
    stage.data.last_bucket = 12;
    check_tail(stage.tail(400), delay, 12);
    // gradients that take longer than backwards slow them throughout and leave a rest
    stage.data.gradients = 100;
    const double kept = slowing * 5 * 73 + slowing * window;
    check_tail(stage.tail(1000), kept, 100 - window * (1 + slowing));
    // parameters of 46 s beside the first forward, slowed to 25 s
    stage.x.parameters = true;
    CHECK(stage.tail(1000).delay == Approx(kept + slowing * 20 + 46 + 3.8 - 25));
}

TEST_CASE("under zero 3 the first gather and the last collective are waited for") {
    TailStage stage;
    stage.p.zero = 3;
    check_tail(stage.tail(), 19, 5);
    stage.group.most[at(UnitKind::embedding)] = 0;
    check_tail(stage.tail(), 13, 5);
}

// Kernels take 0.8 of a dense layer's forward and half of its backward, and all of the embedding's
// time. For three dense layers and one embedding: (3 x (2.4 + 3.5) + 1 x 3) of (3 x 10 + 3).
TEST_CASE("a stage is slowed by its kernels' share") {
    FeatureTimes computing = tail_times();
    computing[unit(UnitKind::dense, Pass::forward)] = 2.4;
    computing[unit(UnitKind::dense, Pass::backward)] = 3.5;
    CHECK(slowdown_of(tail_times(), {computing, slowing}, {3, 0, 1, 0}) ==
          Approx(slowing * (3 * 5.9 + 3) / 33));
    CHECK(slowdown_of(tail_times(), {computing, slowing}, {0, 2, 0, 1}) == Approx(slowing));
    CHECK(slowdown_of(tail_times(), {computing, slowing}, {}) == slowing);
}

// A dense layer's forward of 3, of which kernels are 0.8, runs beside a gather of 1. Its backward
// of 7 and recomputation of 2 run beside a gather of 1 and a scatter of 4; kernels are half of 7
// and all of 2: 5.5 / 9 of the slowdown.
TEST_CASE("under zero 3 a layer lasts as long as what is gathered beside it, or loses by it") {
    FeatureTimes computing = tail_times();
    computing[unit(UnitKind::dense, Pass::forward)] = 2.4;
    computing[unit(UnitKind::dense, Pass::backward)] = 3.5;
    Parallelism p;
    Exchanges x;
    p.zero = 3;
    DataTimes data;
    data.gathered = {1, 2, 0.5, 40};
    data.exchanged = {4, 3, 0.25, 6};
    const auto lost = [](double slowdown) { return slowdown / (1 + slowdown); };
    const double forward = slowing * 0.8, backward = slowing * 5.5 / 9;
    FeatureTimes f = with_sharding(tail_times(), {computing, slowing}, {p, x}, data, {3, 2, 1, 1});
    CHECK(f[unit(UnitKind::dense, Pass::forward)] == Approx(3 + lost(forward) * 1));
    CHECK(f[unit(UnitKind::dense, Pass::backward)] == Approx(7 + lost(backward) * 5));
    CHECK(f[unit(UnitKind::dense, Pass::input_backward)] == Approx(4 + lost_part * 1));
    CHECK(f[unit(UnitKind::embedding, Pass::backward)] == Approx(2 + lost_part * 0.75));
    CHECK(f[unit(UnitKind::head, Pass::forward)] == 40);
    CHECK(f[unit(UnitKind::head, Pass::backward)] == 46);
    CHECK(f[unit(UnitKind::experts, Pass::backward)] == Approx(11 + lost_part * 5));
    // Between slots the dense layers count, which are more: a slot ends with its last layer's
    // scatter and begins with a gather that overlaps nothing.
    const double first = 9 + lost(backward) * 1, middle = 9 + lost(backward) * 5,
                 last = 9 + lost(backward) * 4;
    CHECK(f[feature::filling] == Approx(first + last - 2 * middle));
    CHECK(f[feature::filling_single] == Approx(9 - middle));
    CHECK(f[feature::filled] == Approx(1 + 4));
    CHECK(f[feature::filled_single] == Approx(1 + 4));
    CHECK(f[feature::opened] == Approx(0).margin(1e-12));
    // more layers with experts
    f = with_sharding(tail_times(), {tail_times(), slowing}, {p, x}, data, {2, 3, 1, 1});
    CHECK(f[feature::filled] == Approx(2 + 3));
    CHECK(f[feature::filling_single] == Approx(12 - (12 + lost_part * 5)));
}

// A gather of 13 s outlasts the forward of 3: a slot that waits for it counts the rest once, but
// not what the gather slows. A scatter of 30 s outlasts the backward, 9 s slowed by a quarter, and
// the next slot waits for the remainder.
TEST_CASE("collectives that outlast a layer keep what follows it waiting") {
    Parallelism p;
    Exchanges x;
    p.zero = 3;
    DataTimes data;
    data.gathered.fill(13);
    data.exchanged.fill(30);
    const FeatureTimes f =
        with_sharding(tail_times(), {tail_times(), slowing}, {p, x}, data, {1, 0, 0, 0});
    const double slowed = 9 * (1 + slowing);
    CHECK(f[unit(UnitKind::dense, Pass::forward)] == 13);
    CHECK(f[unit(UnitKind::dense, Pass::backward)] == Approx(43 - 2));
    CHECK(f[feature::opened] == Approx(13 - 3 * (1 + slowing)));
    // the first has a gather of 13 beside it
    CHECK(f[feature::filling] == Approx(13 + slowed - 2 * 43));
    CHECK(f[feature::filled] == Approx(13 + 30 + 30 - slowed));
    // Without overlap the gather for the next layer begins with the backward's own 7 s.
    x.gradients = GradientOverlap::never;
    const FeatureTimes after =
        with_sharding(tail_times(), {tail_times(), slowing}, {p, x}, data, {1, 0, 0, 0});
    CHECK(after[unit(UnitKind::dense, Pass::backward)] == Approx(13 - 2));
    CHECK(after[feature::filling] == Approx(9 - 7 + 7 * (1 + slowing) - 13));
    CHECK(after[feature::filling_single] == after[feature::filling]);
    CHECK(after[feature::filled] == Approx(13 - 7 * (1 + slowing)));
    CHECK(after[feature::filled_single] == after[feature::filled]);
    p.zero = 2;
    CHECK(with_sharding(tail_times(), {tail_times(), slowing}, {p, x}, data, {1, 0, 0, 0}) ==
          tail_times());
}

// A gather of 1 s takes a fifth of itself from a forward of 3 and from a backward of 7 and 2. Of 5
// micro-batches on 4 stages the longest path has 8 forwards and 8 backwards; 4 forwards, the first
// of each stage, and 5 backwards, those of the last stage, come behind a forward. GPipe: all
// forwards and the first of 5 backwards. Two chunks in rounds of 4: 3 of 4 forwards, 1 of 4
// backwards.
TEST_CASE("under zero 3 a pipeline gathers for passes that follow a forward") {
    Parallelism p;
    Exchanges x;
    p.zero = 3;
    p.pp = 4;
    p.global_batch = 5;
    DataTimes data;
    data.gathered.fill(1);
    data.exchanged.fill(2);
    const auto check = [&](double forwards, double backwards) {
        const FeatureTimes f =
            with_sharding(tail_times(), {tail_times(), slowing}, {p, x}, data, {1, 0, 0, 0});
        CHECK(f[unit(UnitKind::dense, Pass::forward)] == Approx(3 + forwards * lost_part));
        CHECK(f[unit(UnitKind::dense, Pass::backward)] == Approx(7 + backwards * lost_part));
        CHECK(f[feature::filled] == 0);
    };
    check(4 / 8.0, 5 / 8.0);
    p.schedule = Schedule::gpipe;
    check(1, 1 / 5.0);
    p.schedule = Schedule::one_f_one_b;
    p.vp = 2;
    check(3 / 4.0, 1 / 4.0);
}
