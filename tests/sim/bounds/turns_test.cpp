// What two passes that go by turns count, by hand.

#include <map>

#include <catch2/catch.hpp>

#include "sim/bounds/turns.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

constexpr auto turn_forward = Pass::forward, turn_backward = Pass::backward;
constexpr std::size_t unit_of(UnitKind kind, Pass pass) { return feature::unit(kind, pass); }

FeatureCounts counts_of(const std::map<std::size_t, double>& values) {
    FeatureCounts f{};
    for (const auto& [at, value] : values) f[at] = value;
    return f;
}

// Twelve layers, all with experts.
Workload experts() {
    Workload w = small_gpt().workload;
    w.layers = 12;
    w.moe.experts = 8;
    w.moe.top_k = 2;
    return w;
}
Chunk chunk(int first, int last, bool embedding = false, bool head = false) {
    Chunk c;
    c.first = first;
    c.last = last;
    c.embedding = embedding;
    c.head = head;
    return c;
}

constexpr std::size_t layer_ahead = unit_of(UnitKind::experts, turn_forward),
                      layer_back = unit_of(UnitKind::experts, turn_backward),
                      head_ahead = unit_of(UnitKind::head, turn_forward),
                      head_back = unit_of(UnitKind::head, turn_backward);

}  // namespace

// Three turns: two cycles between their waits. The backward's result leaves before the forward's
// last part; behind the forward's input the backward's first part is done.
TEST_CASE("as many layers of both passes are turns, and nothing else") {
    const Workload w = experts();
    const Pair pair{chunk(0, 3), chunk(6, 9)};
    std::map<std::size_t, double> both{{layer_ahead, 3},
                                       {layer_back, 3},
                                       {by_turns::cycle, 2},
                                       {by_turns::pair, 1},
                                       {by_turns::apart, -1}};
    CHECK(pair_counts(w, pair, turn_forward, false).turns == counts_of(both));
    CHECK(pair_counts(w, pair, turn_forward, false).alone == FeatureCounts{});
    both[by_turns::enters] = -1;
    CHECK(pair_counts(w, pair, turn_forward, true).turns == counts_of(both));
    both[by_turns::leaves] = -1;
    CHECK(pair_counts(w, pair, turn_backward, true).turns == counts_of(both));
}

// Five layers forward and two backward: two turns, then three layers alone, two of which follow
// another; the backward is done before these.
TEST_CASE("layers that one pass has more follow alone") {
    const Workload w = experts();
    const Pair pair{chunk(0, 5), chunk(6, 8)};
    const SlotCounts last = pair_counts(w, pair, turn_forward, false);
    CHECK(last.turns == counts_of({{layer_ahead, 2},
                                   {layer_back, 2},
                                   {by_turns::cycle, 1},
                                   {by_turns::pair, 1},
                                   {by_turns::apart, -1},
                                   {by_turns::forward_alone, 1}}));
    CHECK(last.alone == counts_of({{layer_ahead, 3}, {feature::stall(turn_forward), 2}}));
    CHECK(pair_counts(w, pair, turn_backward, false).alone == FeatureCounts{});
}

// The forward ends with the logits, while the backward goes on: they come between the parts of its
// next layer, so that the kernels of both add up.
TEST_CASE("the logits of a forward come between the backward's layers") {
    const Workload w = experts();
    const SlotCounts last =
        pair_counts(w, {chunk(10, 12, false, true), chunk(0, 4)}, turn_backward, false);
    CHECK(last.turns == counts_of({{layer_ahead, 2},
                                   {layer_back, 3},
                                   {head_ahead, 1},
                                   {by_turns::cycle, 1},
                                   {by_turns::pair, 1},
                                   {by_turns::apart, -1}}));
    CHECK(last.alone == counts_of({{layer_back, 1}}));
}

// The logits alone, forward of one micro-batch and backward of another: the backward's come first.
TEST_CASE("chunks without layers are one behind the other") {
    const Workload w = experts();
    const Pair ends{chunk(12, 12, false, true), chunk(12, 12, false, true)};
    CHECK(pair_counts(w, ends, turn_backward, false).turns == counts_of({{head_back, 1}}));
    CHECK(pair_counts(w, ends, turn_forward, false).turns ==
          counts_of({{head_back, 1}, {head_ahead, 1}}));
    CHECK(pair_counts(w, ends, turn_forward, true).turns == counts_of({{head_ahead, 1}}));
    CHECK_FALSE(awaits_both(w, ends, turn_backward));
    // beside layers of the other pass: of the first of these the kernels, the others whole
    const Pair back{chunk(12, 12, false, true), chunk(0, 3)};
    CHECK(pair_counts(w, back, turn_backward, false).turns ==
          counts_of({{head_ahead, 1}, {layer_back, 1}}));
    CHECK(pair_counts(w, back, turn_backward, false).alone == counts_of({{layer_back, 2}}));
}

TEST_CASE("a stage goes on behind a pair as that pair ended") {
    const Workload w = experts();
    const Pair equal{chunk(0, 2), chunk(4, 6)}, ahead{chunk(0, 3), chunk(4, 6)},
        back{chunk(0, 2), chunk(4, 7)}, far_back{chunk(0, 2), chunk(4, 8)},
        logits{chunk(10, 12, false, true), chunk(0, 2)};
    CHECK(behind(w, equal, equal) == by_turns::behind);
    CHECK(behind(w, ahead, equal) == by_turns::behind_forward);
    CHECK(behind(w, back, equal) == by_turns::behind_backward);
    CHECK(behind(w, far_back, equal) == feature::none);
    CHECK(behind(w, logits, equal) == feature::none);
    CHECK(behind(w, equal, logits) == by_turns::behind);
    Workload dense = w;
    dense.moe.dense_layers = 1;
    CHECK(behind(dense, equal, equal) == feature::none);
}
