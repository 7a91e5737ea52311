#include "sim/bounds/chains.h"

#include <catch2/catch.hpp>

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

static double longest(const PipelineKey& key, int rounds = 0) {
    Workload w;
    w.layers = key.pp * key.chunks;
    double longest = 0;
    for (const StageChain& chain : find_pipeline(key, w).chains)
        longest = std::max(longest, length_of(chain, rounds, a_second_each(), false));
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

TEST_CASE("passes that go by turns have no chain") {
    Workload w;
    w.layers = 4;
    w.moe.experts = 4;
    const PipelineKey key{.pp = 4, .micro_batches = 8, .overlap_experts = true, .stage_layers = {}};
    CHECK(find_pipeline(key, w).chains.empty());
}
