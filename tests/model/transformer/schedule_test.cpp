#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include <catch2/catch.hpp>

#include "model/base/errors.h"
#include "model/transformer/schedule.h"

using namespace stepcast;

namespace {

// Durations of the passes; a whole backward takes input + weight.
struct Times {
    double forward = 1, input = 1, weight = 1;
};

struct Walk {
    bool complete = true;  // no deadlock, nothing twice, nothing missing
    double span = 0;       // of the whole step
    // per stage: in the whole step; between its first and last slot
    std::vector<double> idle, inner_idle;
};

// Runs the orders with communication that takes no time: a slot starts when its stage is free and
// its inputs are there. `paired`: a forward beside a backward of the other direction is one unit,
// as in dualpipe.
class Walker {
public:
    Walker(Schedule schedule, int stages, int chunks, int micro_batches, Times times, bool paired)
        : schedule_(schedule),
          stages_(stages),
          chunks_(chunks),
          micro_batches_(micro_batches),
          times_(times),
          paired_(paired),
          orders_(schedule_orders(schedule, stages, chunks, micro_batches)) {}

    Walk run() {
        const auto stages = static_cast<std::size_t>(stages_);
        std::vector<std::size_t> next(stages);
        std::vector<double> free(stages), busy(stages), first(stages, -1);
        for (bool progress = true; progress;) {
            progress = false;
            for (std::size_t s = 0; s < stages; ++s)
                for (; next[s] < orders_[s].size(); progress = true) {
                    const std::size_t count = unit(orders_[s], next[s]);
                    const auto ready = ready_at(s, next[s], count);
                    if (!ready) break;
                    const double start = std::max(*ready, free[s]);
                    if (first[s] < 0) first[s] = start;
                    const double took = finish(s, next[s], count, start);
                    busy[s] += took;
                    free[s] = start + took;
                    next[s] += count;
                }
        }
        Walk walk;
        walk.span = *std::max_element(free.begin(), free.end());
        for (std::size_t s = 0; s < stages; ++s) {
            walk.complete = walk.complete && next[s] == orders_[s].size();
            walk.idle.push_back(walk.span - busy[s]);
            walk.inner_idle.push_back(free[s] - first[s] - busy[s]);
        }
        const auto expected = 3 * micro_batches_ * model_chunks(schedule_, stages_, chunks_);
        walk.complete = walk.complete && !twice_ && static_cast<int>(done_.size()) == expected;
        return walk;
    }

private:
    enum Work { forward, input, weight };

    [[nodiscard]] std::size_t unit(const Order& order, std::size_t at) const {
        return paired_ && at + 1 < order.size() && order[at].pass == Pass::forward &&
                       order[at + 1].pass == Pass::backward &&
                       order[at].chunk != order[at + 1].chunk
                   ? 2
                   : 1;
    }
    [[nodiscard]] int global(std::size_t stage, const Slot& slot) const {
        int g = 0;
        while (stage_of(schedule_, stages_, g) != static_cast<int>(stage) ||
               g / stages_ != slot.chunk)
            ++g;
        return g;
    }
    // The chunks that a slot's micro-batch goes through; each copy of dualpipe has its own path.
    [[nodiscard]] std::pair<int, int> path(const Slot& slot) const {
        const int length = model_chunks(schedule_, stages_, chunks_);
        const int first = schedule_ == Schedule::dualpipe ? slot.chunk * stages_ : 0;
        return {first, first + length - 1};
    }
    [[nodiscard]] std::optional<double> ready_at(std::size_t stage, std::size_t at,
                                                 std::size_t count) const {
        double ready = 0;
        for (std::size_t i = at; i < at + count; ++i) {
            const Slot& slot = orders_[stage][i];
            const int g = global(stage, slot);
            const auto [entry, end] = path(slot);
            std::vector<std::pair<int, Work>> inputs;
            if (slot.pass == Pass::weight_backward)
                inputs = {{g, input}};
            else if (slot.pass != Pass::forward) {
                inputs = {{g, forward}};
                if (g < end) inputs.emplace_back(g + 1, input);
            } else if (g > entry)
                inputs = {{g - 1, forward}};
            for (const auto& [chunk, work] : inputs) {
                const auto found = done_.find({slot.micro_batch, chunk, work});
                if (found == done_.end()) return std::nullopt;
                ready = std::max(ready, found->second);
            }
        }
        return ready;
    }
    double finish(std::size_t stage, std::size_t at, std::size_t count, double start) {
        double took = 0;
        for (std::size_t i = at; i < at + count; ++i) {
            const Pass pass = orders_[stage][i].pass;
            if (pass == Pass::forward) took += times_.forward;
            if (pass == Pass::backward || pass == Pass::input_backward) took += times_.input;
            if (pass == Pass::backward || pass == Pass::weight_backward) took += times_.weight;
        }
        for (std::size_t i = at; i < at + count; ++i) {
            const Slot& slot = orders_[stage][i];
            const auto mark = [&](Work work) {
                twice_ = !done_
                              .emplace(std::tuple(slot.micro_batch, global(stage, slot), work),
                                       start + took)
                              .second ||
                         twice_;
            };
            if (slot.pass == Pass::forward) mark(forward);
            if (slot.pass == Pass::backward || slot.pass == Pass::input_backward) mark(input);
            if (slot.pass == Pass::backward || slot.pass == Pass::weight_backward) mark(weight);
        }
        return took;
    }

    Schedule schedule_;
    int stages_, chunks_, micro_batches_;
    Times times_;
    bool paired_, twice_ = false;
    std::vector<Order> orders_;
    std::map<std::tuple<int, int, Work>, double> done_;
};

Walk walk(Schedule schedule, int stages, int chunks, int micro_batches, Times times = {},
          bool paired = false) {
    return Walker(schedule, stages, chunks, micro_batches, times, paired).run();
}

double bubble(const Walk& walk) { return *std::max_element(walk.idle.begin(), walk.idle.end()); }

// Peak number of (micro-batch, chunk) pairs whose activations a stage keeps: from the forward until
// the backward, or until weight_backward where it is split (the part that input_backward could free
// is not counted as free).
int in_flight(const Order& order) {
    int now = 0, peak = 0;
    for (const Slot& slot : order) {
        if (slot.pass == Pass::forward) peak = std::max(peak, ++now);
        if (slot.pass == Pass::backward || slot.pass == Pass::weight_backward) --now;
    }
    return peak;
}

std::vector<int> in_flight_per_stage(Schedule schedule, int stages, int chunks, int micro_batches) {
    std::vector<int> counts;
    for (const Order& order : schedule_orders(schedule, stages, chunks, micro_batches))
        counts.push_back(in_flight(order));
    return counts;
}

constexpr Slot f(int m, int chunk = 0) { return {m, chunk, Pass::forward}; }
constexpr Slot b(int m, int chunk = 0) { return {m, chunk, Pass::backward}; }
constexpr Slot bi(int m, int chunk = 0) { return {m, chunk, Pass::input_backward}; }
constexpr Slot bw(int m, int chunk = 0) { return {m, chunk, Pass::weight_backward}; }

}  // namespace

TEST_CASE("every schedule runs every micro-batch once through every chunk without deadlock") {
    for (const int stages : {1, 2, 3, 4, 6, 8})
        for (const int micro_batches : {1, 2, 3, 5, 7, 8, 15, 16, 24, 33}) {
            CAPTURE(stages, micro_batches);
            CHECK(walk(Schedule::gpipe, stages, 1, micro_batches).complete);
            CHECK(walk(Schedule::one_f_one_b, stages, 1, micro_batches).complete);
            CHECK(walk(Schedule::zb_h1, stages, 1, micro_batches).complete);
            CHECK(walk(Schedule::zb_v, stages, 2, micro_batches).complete);
            if (stages % 2 == 0) {
                CHECK(walk(Schedule::dualpipe, stages, 2, micro_batches).complete);
                CHECK(walk(Schedule::dualpipe, stages, 2, micro_batches, {}, true).complete);
            }
            for (const int chunks : {2, 3, 5})
                if (micro_batches % stages == 0)
                    CHECK(walk(Schedule::one_f_one_b, stages, chunks, micro_batches).complete);
        }
}

// Stage s of 3 runs 2 - s forwards ahead.
TEST_CASE("1F1B of three stages and three micro-batches, slot by slot") {
    CHECK(schedule_orders(Schedule::one_f_one_b, 3, 1, 3) ==
          std::vector<Order>{{f(0), f(1), f(2), b(0), b(1), b(2)},
                             {f(0), f(1), b(0), f(2), b(1), b(2)},
                             {f(0), b(0), f(1), b(1), f(2), b(2)}});
}

// Two stages of two chunks run rounds of two micro-batches. Stage 0 runs 2 * 1 + 1 * 2 = 4 forwards
// ahead, stage 1 two.
TEST_CASE("interleaved 1F1B of two stages with two chunks and two micro-batches, slot by slot") {
    CHECK(schedule_orders(Schedule::one_f_one_b, 2, 2, 2) ==
          std::vector<Order>{
              {f(0, 0), f(1, 0), f(0, 1), f(1, 1), b(0, 1), b(1, 1), b(0, 0), b(1, 0)},
              {f(0, 0), f(1, 0), f(0, 1), b(0, 1), f(1, 1), b(1, 1), b(0, 0), b(1, 0)}});
}

// Stage 1 delays each weight gradient by one micro-batch.
TEST_CASE("ZB-H1 of two stages and three micro-batches, slot by slot") {
    CHECK(schedule_orders(Schedule::zb_h1, 2, 1, 3) ==
          std::vector<Order>{{f(0), f(1), bi(0), bw(0), f(2), bi(1), bw(1), bi(2), bw(2)},
                             {f(0), bi(0), f(1), bi(1), bw(0), f(2), bi(2), bw(1), bw(2)}});
}

// The last stage starts after p - 1 forwards, the first ends p - 1 backwards after it: (p - 1)(F +
// B) on every stage. As a share of the work m (F + B) that is (p - 1) / m.
TEST_CASE("the bubble of GPipe and of 1F1B is (p - 1) / m of the work") {
    const Times times{1, 1, 1};  // F + B = 3
    for (const int p : {1, 2, 4, 8})
        for (const int m : {8, 24, 31}) {
            CAPTURE(p, m);
            CHECK(bubble(walk(Schedule::gpipe, p, 1, m, times)) / (3 * m) ==
                  Approx((p - 1) / double(m)));
            CHECK(bubble(walk(Schedule::one_f_one_b, p, 1, m, times)) / (3 * m) ==
                  Approx((p - 1) / double(m)));
        }
}

// Filling and draining cost slots of one chunk, each 1/v of the stage: in units of a chunk's F + B
// = 3 still (p - 1) * 3, while there are v times as many slots of work.
TEST_CASE("interleaving divides the bubble by the chunks of a stage") {
    for (const int p : {2, 4, 8})
        for (const int v : {2, 3, 4}) {
            const int m = 2 * p;
            CAPTURE(p, v);
            CHECK(bubble(walk(Schedule::one_f_one_b, p, v, m)) / (3 * m * v) ==
                  Approx((p - 1) / double(m) / v));
        }
}

// arXiv 2401.10241, table 1: (p - 1)(F + B - W). With F = B = W it is p - 1 against 1F1B's 3 (p -
// 1).
TEST_CASE("the bubble of ZB-H1 is (p - 1)(F + B - W), a third of 1F1B's for equal passes") {
    for (const int p : {2, 4, 8})
        for (const Times times : {Times{1, 1, 1}, Times{5, 6, 4}, Times{2, 3, 1}}) {
            CAPTURE(p, times.input);
            CHECK(bubble(walk(Schedule::zb_h1, p, 1, 32, times)) ==
                  Approx((p - 1) * (times.forward + times.input - times.weight)));
        }
    CHECK(3 * bubble(walk(Schedule::zb_h1, 8, 1, 32)) ==
          Approx(bubble(walk(Schedule::one_f_one_b, 8, 1, 32))));
}

// Stage s begins s slots late, with the first micro-batch, and then never waits. The step exceeds
// the work 6 m only by the p - 1 slots before the last stage starts.
TEST_CASE("no stage of ZB-V waits between its first and last slot from 2p - 1 micro-batches on") {
    for (const int p : {1, 2, 4, 8})
        for (const int m : {2 * p - 1, 2 * p, 5 * p}) {
            CAPTURE(p, m);
            const Walk run = walk(Schedule::zb_v, p, 2, m);
            CHECK(run.inner_idle == std::vector<double>(static_cast<std::size_t>(p), 0.0));
            CHECK(run.span == 6 * m + p - 1);
        }
}

// 1F1B on one stage is F0 B0 F1 B1 F2 B2. A forward that follows a backward moves before it and
// forms a pair: F0 [F1 B0] [F2 B1] B2, with two in flight instead of one. With two stages of two
// chunks and two micro-batches the last stage begins with F0 F1 of its first chunk and F0 of its
// second; the first stage runs all four forwards before its first backward, so it has no pair. Nor
// has a single micro-batch.
TEST_CASE("passes that go by turns are pairs of a forward and the backward that stood before it") {
    Parallelism p;
    p.global_batch = 3;
    p.overlap_experts = true;
    const auto f = [](int m, int chunk = 0) { return Slot{m, chunk, Pass::forward}; };
    const auto b = [](int m, int chunk = 0) { return Slot{m, chunk, Pass::backward}; };
    const auto paired = [](int m, int chunk = 0) { return Slot{m, chunk, Pass::forward, true}; };
    CHECK(schedule_orders(p) == std::vector<Order>{{f(0), paired(1), b(0), paired(2), b(1), b(2)}});
    CHECK(in_flight(schedule_orders(p)[0]) == 2);
    p.global_batch = 1;
    CHECK(schedule_orders(p) == std::vector<Order>{{f(0), b(0)}});
    p.pp = p.vp = p.global_batch = 2;
    CHECK(schedule_orders(p) ==
          std::vector<Order>{{f(0), f(1), f(0, 1), f(1, 1), b(0, 1), b(1, 1), b(0), b(1)},
                             {f(0), f(1), f(0, 1), paired(1, 1), b(0, 1), b(1, 1), b(0), b(1)}});
    p.overlap_experts = false;
    CHECK(schedule_orders(p)[1] ==
          Order{f(0), f(1), f(0, 1), b(0, 1), f(1, 1), b(1, 1), b(0), b(1)});
}

// arXiv 2412.19437, table 2, with F&B = F + B, as the two do not overlap, and B = input + weight.
TEST_CASE("the bubble of DualPipe is (p/2 - 1)(F&B + B - 3W)") {
    for (const int p : {2, 4, 8})
        for (const Times times : {Times{1, 1, 1}, Times{5, 6, 4}, Times{2, 2, 1}}) {
            CAPTURE(p, times.input, times.weight);
            const double backward = times.input + times.weight;
            CHECK(bubble(walk(Schedule::dualpipe, p, 2, 4 * p, times, true)) ==
                  Approx((p / 2 - 1) * (times.forward + backward + backward - 3 * times.weight)));
        }
}

// The steps of DeepSeek's program (github.com/deepseek-ai/DualPipe, dualpipe.py) for four ranks and
// eight micro-batches. Rank 0: nF0 2, nF0F1 1, nB1W1F1 1, nF0B1F1B0 1, nB1F1B0 1, nB1B0 1 (from its
// second backward on weights wait), nWB0 1, nW 1. Rank 1: nF0F1 2, nF0B1F1B0 2, nB1B0 2 (from the
// second pair on), nW 2. The other half mirrors them.
TEST_CASE("DualPipe of four ranks and eight micro-batches, slot by slot") {
    const Order rank_0{f(0, 0), f(1, 0),  f(2, 0),  f(4, 1),  bi(4, 1), bw(4, 1), f(5, 1),
                       f(3, 0), b(5, 1),  f(6, 1),  b(0, 0),  b(6, 1),  f(7, 1),  b(1, 0),
                       b(7, 1), bi(2, 0), bw(2, 0), bi(3, 0), bw(3, 0)};
    const Order rank_1{f(0, 0), f(4, 1), f(1, 0),  f(5, 1),  f(2, 0),  b(4, 1),
                       f(6, 1), b(0, 0), f(3, 0),  b(5, 1),  f(7, 1),  b(1, 0),
                       b(6, 1), b(2, 0), bi(7, 1), bi(3, 0), bw(7, 1), bw(3, 0)};
    const auto mirrored = [](Order order) {
        for (Slot& slot : order) {
            slot.chunk = 1 - slot.chunk;
            slot.micro_batch = (slot.micro_batch + 4) % 8;
        }
        return order;
    };
    CHECK(schedule_orders(Schedule::dualpipe, 4, 2, 8) ==
          std::vector<Order>{rank_0, rank_1, mirrored(rank_1), mirrored(rank_0)});
}

// GPipe: m. 1F1B: min(m, p - s). Interleaved: 2 (p - s - 1) + (v - 1) p + 1 chunks of 1/v stage
// (arXiv 2205.05198, section 4.2.3: 1 + (p - 1) / (p v) of 1F1B's on the first stage; 11 / 8 for p
// 4, v 2). ZB-H1: p on every stage, 1F1B's peak. ZB-V: 2p half-size chunks, the same. DualPipe: p +
// 1 (arXiv 2412.19437, table 2).
TEST_CASE("activations in flight are those of the papers") {
    using Counts = std::vector<int>;
    CHECK(in_flight_per_stage(Schedule::gpipe, 4, 1, 12) == Counts{12, 12, 12, 12});
    CHECK(in_flight_per_stage(Schedule::one_f_one_b, 4, 1, 12) == Counts{4, 3, 2, 1});
    CHECK(in_flight_per_stage(Schedule::one_f_one_b, 4, 1, 2) == Counts{2, 2, 2, 1});
    CHECK(in_flight_per_stage(Schedule::one_f_one_b, 4, 2, 12) == Counts{11, 9, 7, 5});
    CHECK(in_flight_per_stage(Schedule::one_f_one_b, 4, 2, 4) == Counts{8, 8, 7, 5});
    CHECK(in_flight_per_stage(Schedule::zb_h1, 4, 1, 12) == Counts{4, 4, 4, 4});
    CHECK(in_flight_per_stage(Schedule::zb_h1, 4, 1, 2) == Counts{2, 2, 2, 2});
    CHECK(in_flight_per_stage(Schedule::zb_v, 4, 2, 12) == Counts{8, 8, 8, 8});
    CHECK(in_flight_per_stage(Schedule::dualpipe, 4, 2, 12) == Counts{5, 5, 5, 5});
}

TEST_CASE("chunks lie on the stages as each schedule says") {
    const auto stages_of_chunks = [](Schedule schedule, int stages, int chunks) {
        std::vector<int> found;
        for (int g = 0; g < stages * chunks; ++g) found.push_back(stage_of(schedule, stages, g));
        return found;
    };
    CHECK(stages_of_chunks(Schedule::one_f_one_b, 3, 2) == std::vector<int>{0, 1, 2, 0, 1, 2});
    CHECK(stages_of_chunks(Schedule::zb_v, 3, 2) == std::vector<int>{0, 1, 2, 2, 1, 0});
    CHECK(stages_of_chunks(Schedule::dualpipe, 4, 2) == std::vector<int>{0, 1, 2, 3, 3, 2, 1, 0});
    CHECK(model_chunks(Schedule::zb_v, 4, 2) == 8);
    CHECK(model_chunks(Schedule::dualpipe, 4, 2) == 4);
}

// Nine micro-batches over two ranks: 0 .. 4 enter at the first rank (its chunk 0), 5 .. 8 at the
// last.
TEST_CASE("half of the micro-batches of DualPipe take the other copy, an odd one the first") {
    for (const Order& order : schedule_orders(Schedule::dualpipe, 2, 2, 9))
        for (const Slot& slot : order) CHECK(slot.chunk == (slot.micro_batch < 5 ? 0 : 1));
}

TEST_CASE("chunks of a stage are vp, two where the schedule fixes them") {
    Parallelism p;
    p.vp = 3;
    CHECK(chunks_per_stage(p) == 3);
    p.schedule = Schedule::zb_v;
    CHECK(chunks_per_stage(p) == 3);  // and check_schedule() refuses it
    p.vp = 1;
    CHECK(chunks_per_stage(p) == 2);
}

TEST_CASE("a schedule that cannot run says which key to change") {
    using Catch::Equals;
    CHECK_THROWS_WITH(check_schedule(Schedule::zb_h1, 4, 2, 8),
                      Equals("parallelism.schedule: zb-h1 has one chunk a stage, but "
                             "parallelism.vp is 2; expected 1f1b "
                             "or parallelism.vp = 1"));
    CHECK_THROWS_WITH(
        check_schedule(Schedule::zb_v, 4, 3, 8),
        Equals(
            "parallelism.schedule: zb-v has two chunks a stage, but parallelism.vp is 3; expected "
            "parallelism.vp = 1 or 2"));
    CHECK_THROWS_WITH(check_schedule(Schedule::dualpipe, 3, 2, 8),
                      Equals("parallelism.schedule: dualpipe pairs the stages, but parallelism.pp "
                             "is 3; expected an even "
                             "number"));
    CHECK_THROWS_WITH(check_schedule(Schedule::one_f_one_b, 4, 2, 6),
                      Equals("parallelism.global_batch: makes 6 micro-batches, but interleaved "
                             "1f1b (parallelism.vp = 2) "
                             "runs them in rounds of parallelism.pp = 4; expected a multiple"));
    CHECK_THROWS_WITH(check_schedule(Schedule::gpipe, 4, 1, 0),
                      Equals("parallelism.global_batch: makes 0 micro-batches; expected at least "
                             "one for each replica"));
    CHECK_THROWS_AS(schedule_orders(Schedule::dualpipe, 3, 2, 8), ConfigError);
}
