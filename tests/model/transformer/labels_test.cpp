// What the tasks of a step were written for, as the graph says it.
#include <catch2/catch.hpp>

#include <map>
#include <set>
#include <vector>

#include "model/step.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

Experiment two_stages() {
    Experiment e = small_gpt();
    e.cluster.gpus_per_node = 2;
    e.parallelism.pp = 2;
    e.parallelism.global_batch = 3;
    return e;
}

}  // namespace

// 1F1B of three micro-batches on two stages: F0 F1 B0 F2 B1 B2 and F0 B0 F1 B1 F2 B2. Four layers,
// two a stage. What follows the slots is of none of them.
TEST_CASE("tasks are labelled with the stage, the slot and the layer that they were written for") {
    const TaskGraph graph = build_step(two_stages(), {});
    REQUIRE(graph.has_labels());
    std::map<std::pair<int, int>, std::set<std::pair<int, Pass>>> slots;
    std::map<int, std::set<int>> layers;  // of a stage
    std::vector<int> of_layers(4), of_slots(3);
    for (TaskId t = 0; t < graph.size(); ++t) {
        const TaskLabel& label = graph.label(t);
        if (label.slot < 0) {
            CHECK(label == TaskLabel{});
            CHECK((graph.phase(t) == Phase::gradient_sync || graph.phase(t) == Phase::optimizer));
            continue;
        }
        CHECK(graph.phase(t) != Phase::optimizer);
        CHECK(graph.places(t).front().rank() == label.stage);
        CHECK((graph.phase(t) == Phase::forward) == (label.pass == Pass::forward));
        slots[{label.stage, label.slot}].emplace(label.micro_batch, label.pass);
        ++of_slots[static_cast<std::size_t>(label.micro_batch)];
        if (label.layer < 0) continue;
        layers[label.stage].insert(label.layer);
        ++of_layers[static_cast<std::size_t>(label.layer)];
    }
    const auto only = [](int micro_batch, Pass pass) {
        return std::set<std::pair<int, Pass>>{{micro_batch, pass}};
    };
    const auto f = Pass::forward, b = Pass::backward;
    const std::vector<std::pair<int, Pass>> first{{0, f}, {1, f}, {0, b}, {2, f}, {1, b}, {2, b}},
        second{{0, f}, {0, b}, {1, f}, {1, b}, {2, f}, {2, b}};
    REQUIRE(slots.size() == 12);
    for (int i = 0; i < 6; ++i) {
        const auto at = static_cast<std::size_t>(i);
        CHECK(slots[{0, i}] == only(first[at].first, first[at].second));
        CHECK(slots[{1, i}] == only(second[at].first, second[at].second));
    }
    CHECK(layers == std::map<int, std::set<int>>{{0, {0, 1}}, {1, {2, 3}}});
    CHECK(of_layers == std::vector<int>(4, of_layers[0]));  // all layers are alike
    CHECK(of_slots == std::vector<int>(3, of_slots[0]));
}

// Two micro-batches whose middle passes take turns: F0, [F1 B0], B1. Every task of a slot names it,
// what it sends and gathers as well.
TEST_CASE("tasks of passes that take turns are labelled with their own slot and turn") {
    Experiment e = small_moe();
    e.workload.layers = 1;
    e.parallelism.global_batch = 2 * e.parallelism.dp * e.parallelism.micro_batch;
    e.parallelism.overlap_experts = true;
    const TaskGraph graph = build_step(e, {});
    std::map<int, int> turns;  // by slot
    int changes = 0, last = -1;
    for (TaskId t = 0; t < graph.size(); ++t) {
        const TaskLabel& label = graph.label(t);
        if (label.slot < 0) continue;
        CHECK(label.micro_batch == std::vector{0, 1, 0, 1}[static_cast<std::size_t>(label.slot)]);
        CHECK((graph.phase(t) == Phase::forward) == (label.slot < 2));
        turns[label.slot] = std::max(turns[label.slot], label.turn);
        changes += label.slot != last;
        last = label.slot;
    }
    CHECK((turns[0] == 0 && turns[3] == 0));
    // attention, dispatch, experts, combine: at least one turn for each exchange
    CHECK((turns[1] >= 2 && turns[2] >= 2));
    CHECK(changes > 6);
}

TEST_CASE("a label holds from the next task on, until another one") {
    TaskGraph graph;
    const auto add = [&] {
        return graph.add("pass", Phase::forward, MemoryPass{Bytes(8), Bytes(8)},
                         {Place(0, Lane::compute)}, {});
    };
    const TaskId plain = add();
    CHECK_FALSE(graph.has_labels());
    graph.set_label({.layer = 3});
    graph.set_label({.layer = 4});  // of no task
    graph.set_label({.micro_batch = 1, .layer = 5});
    const TaskId fifth = add(), same = add();
    graph.set_label({});
    const TaskId after = add();
    CHECK(graph.label(plain) == TaskLabel{});
    CHECK(graph.label(fifth) == TaskLabel{.micro_batch = 1, .layer = 5});
    CHECK(graph.label(same) == graph.label(fifth));
    CHECK(graph.label(after) == TaskLabel{});
    CHECK(graph.has_labels());
}
