#include "sim/bounds/chains.h"

#include <algorithm>

#include <catch2/catch.hpp>

#include "model/transformer/schedule.h"
#include "model/transformer/slot_gathers.h"

using namespace stepcast;

// Layers take 1 s forward, 1 s for the gradients of inputs, 1 s for those of weights, and 1 s to
// be computed again; embedding and logits nothing.
static FeatureTimes a_second_each() {
    FeatureTimes times;
    times[feature::unit(UnitKind::dense, Pass::forward)] = 1;
    times[feature::unit(UnitKind::dense, Pass::backward)] = 2;
    times[feature::unit(UnitKind::dense, Pass::input_backward)] = 1;
    times[feature::unit(UnitKind::dense, Pass::weight_backward)] = 1;
    times[feature::again(UnitKind::dense)] = 1;
    return times;
}

static double longest(const PipelineKey& key, int rounds = 0,
                      const FeatureTimes& times = a_second_each()) {
    Workload w;
    w.layers = key.pp * key.chunks;
    double longest = 0;
    for (const StageChain& chain : find_pipeline(key, w).chains)
        longest = std::max(longest, length_of(chain, rounds, times, false));
    return longest;
}

// 1F1B: (m + p - 1)(f + b) = (8 + 3) 3 = 33 s, by way of the last stage. Interleaved on two chunks
// of one layer: (v m + p - 1)(f + b) = (16 + 3) 3 = 57 s. ZB-H1: the last stage begins after p - 1
// forwards and works on until it has ended, 3 + 8 x 3 = 27 s. ZB-V: 3 + 8 x 2 x 3 = 51 s likewise.
// dualpipe: each stage holds a layer of both copies and sees half of the micro-batches in each, so
// that the middle ones, p / 2 - 1 or p / 2 chunks deep, have 24 s of work behind at least one
// forward.
TEST_CASE("the chain of a stage has what comes before it, all of its work, and what comes after") {
    PipelineKey key{
        .schedule = Schedule::one_f_one_b, .pp = 4, .micro_batches = 8, .stage_layers = {}};
    CHECK(longest(key) == 33);
    key.chunks = 2;
    CHECK(longest(key) == 57);
    key.schedule = Schedule::zb_v;
    CHECK(longest(key) == 51);
    key = {.schedule = Schedule::zb_h1, .pp = 4, .micro_batches = 8, .stage_layers = {}};
    CHECK(longest(key) == 27);
    key = {.schedule = Schedule::dualpipe,
           .pp = 4,
           .chunks = 1,
           .micro_batches = 8,
           .stage_layers = {}};
    CHECK(longest(key) >= 25);
}

// One stage: three layers computed again of the four that it has, 8 (4 x 3 + 3) = 120 s.
TEST_CASE("a chain counts the layers that are computed again, if any are") {
    Workload w;
    w.layers = 4;
    const PipelineKey key{.micro_batches = 8, .recompute_layers = 3, .stage_layers = {}};
    const std::vector<StageChain> chains = find_pipeline(key, w).chains;
    REQUIRE(chains.size() == 1);
    CHECK(length_of(chains[0], 0, a_second_each(), true) == 120);
    CHECK(length_of(chains[0], 0, a_second_each(), false) == 96);
}

// (m + p - 1)(f + b) with m = 12 + 5 x 4.
TEST_CASE("a round adds what a stage does for its micro-batches") {
    const PipelineKey key{
        .schedule = Schedule::one_f_one_b, .pp = 4, .micro_batches = 12, .stage_layers = {}};
    CHECK(longest(key, 5) == (32 + 3) * 3);
}

// With weight gradients of 1.5 s a split backward takes longer than a whole one, which dualpipe has
// in its middle alone: rounds are of the middle.
TEST_CASE("rounds add what the orders of more micro-batches have more") {
    FeatureTimes times = a_second_each();
    times[feature::unit(UnitKind::dense, Pass::weight_backward)] = 1.5;
    for (const Schedule schedule :
         {Schedule::one_f_one_b, Schedule::zb_h1, Schedule::zb_v, Schedule::dualpipe})
        for (const int pp : {2, 4, 6}) {
            const int chunks = schedule == Schedule::zb_v ? 2 : 1;
            const Rounds rounds = rounds_of(schedule, pp, 32 * pp);
            REQUIRE(rounds.count > 3);
            const PipelineKey key{.schedule = schedule,
                                  .pp = pp,
                                  .chunks = chunks,
                                  .micro_batches = rounds.least,
                                  .stage_layers = {}};
            PipelineKey all = key;
            all.micro_batches = 32 * pp;
            CAPTURE(schedule, pp);
            CHECK(longest(key, rounds.count, times) == Approx(longest(all, 0, times)));
        }
}

// Four stages of one layer, gathered in 1 s, and 8 micro-batches of 1F1B. The first stage's order
// is F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7: four forwards gather before the first
// backward, and the five backwards behind a forward do, but no forward behind a backward; two slots
// may gather ahead. Without a pipeline each pass gathers.
TEST_CASE("a stage gathers for what does not follow a backward of its chunk") {
    Workload w;
    w.layers = 4;
    const std::array<double, unit_kinds> layer{1};
    PipelineKey key{
        .schedule = Schedule::one_f_one_b, .pp = 4, .micro_batches = 8, .stage_layers = {}};
    for (const StageChain& chain : find_pipeline(key, w).chains) {
        CHECK(gather_times(chain, 0, layer).all == 4 + 5);
        CHECK(gather_times(chain, 0, layer).inside == 2 + 5);
    }
    key.pp = 1;
    const auto alone = find_pipeline(key, w).chains;
    REQUIRE(alone.size() == 1);
    CHECK(gather_times(alone[0], 0, layer).all == 4 * 2 * 8);
}

// Brute force over all slots of a step with more rounds.
TEST_CASE("a round adds the gathers of its micro-batches") {
    Workload w;
    w.layers = 48;
    const std::array<double, unit_kinds> layer{1};
    for (const Schedule schedule :
         {Schedule::one_f_one_b, Schedule::zb_h1, Schedule::zb_v, Schedule::dualpipe})
        for (const int pp : {2, 4, 8})
            for (const int chunks : {1, 2, 3})
                for (const int more : {1, 3}) {
                    if (chunks > 1 && schedule != Schedule::one_f_one_b) continue;
                    Parallelism p;
                    p.schedule = schedule;
                    p.pp = pp;
                    p.vp = chunks;
                    p.global_batch = 16 * pp;
                    const Rounds rounds = rounds_of(p);
                    const int count = chunks_per_stage(p);
                    const PipelineKey key{.schedule = schedule,
                                          .pp = pp,
                                          .chunks = count,
                                          .micro_batches = rounds.least,
                                          .stage_layers = {}};
                    p.global_batch = rounds.least + more * rounds.round;
                    std::vector<double> by_stage;
                    for (const Order& order : schedule_orders(p)) {
                        SlotGathers gathers(pp, as_index(count));
                        by_stage.push_back(0);
                        for (const Slot& slot : order)
                            by_stage.back() += gathers.next(slot) ? 48.0 / model_chunks(p) : 0;
                    }
                    CAPTURE(traits(schedule).name, pp, chunks, more, by_stage);
                    for (const StageChain& chain : find_pipeline(key, w).chains)
                        CHECK(std::ranges::find(by_stage, gather_times(chain, more, layer).all) !=
                              by_stage.end());
                }
}

TEST_CASE("passes that go by turns have no chain") {
    Workload w;
    w.layers = 4;
    w.moe.experts = 4;
    const PipelineKey key{.pp = 4, .micro_batches = 8, .overlap_experts = true, .stage_layers = {}};
    CHECK(find_pipeline(key, w).chains.empty());
}
