#include <catch2/catch.hpp>

#include <algorithm>

#include "sim/engine/simulate.h"
#include "tests/literals.h"
#include "tests/random_graphs.h"

using namespace stepcast;
using namespace stepcast::graphs;
using namespace stepcast::literals;

namespace {

constexpr double rounding = 1e-12;

Seconds step_of(const TaskGraph& graph, const Costs& costs) {
    Timeline timeline;
    run_in_order(graph, costs, timeline);
    return timeline.end;
}

Seconds busiest_place(const TaskGraph& graph, const Costs& costs) {
    std::vector<Seconds> busy(static_cast<std::size_t>(graph.place_count()));
    for (TaskId t = 0; t < graph.size(); ++t)
        for (const Place& place : graph.places(t)) busy[place.index] += costs.duration[t];
    return *std::max_element(busy.begin(), busy.end());
}

// The longest sum of durations along predecessors and, where `queues`, also along the queue of each
// place. Ids grow along both (task_graph.h), so one pass finds it.
Seconds longest_path(const TaskGraph& graph, const Costs& costs, bool queues) {
    std::vector<Seconds> finish(graph.size()), free(static_cast<std::size_t>(graph.place_count()));
    Seconds longest;
    for (TaskId t = 0; t < graph.size(); ++t) {
        Seconds ready;
        for (const TaskId earlier : graph.predecessors(t)) ready = std::max(ready, finish[earlier]);
        for (const Place& place : graph.places(t))
            if (queues) ready = std::max(ready, free[place.index]);
        finish[t] = ready + costs.duration[t];
        for (const Place& place : graph.places(t)) free[place.index] = finish[t];
        longest = std::max(longest, finish[t]);
    }
    return longest;
}

Seconds sum_of(const Costs& costs) {
    Seconds sum;
    for (const Seconds duration : costs.duration) sum += duration;
    for (const Seconds issue : costs.issue) sum += issue;
    return sum;
}

template <typename Law>
void for_random_graphs(const Law& law) {
    for (std::uint64_t seed = 1; seed <= 400; ++seed) {
        CAPTURE(seed);
        const TaskGraph graph = random_graph(seed, seed % 2 == 0);
        law(graph, random_costs(graph, seed + 5000, seed % 3 == 0), seed);
    }
}

}  // namespace

TEST_CASE("critical path and busiest place <= step <= sum of all costs") {
    for_random_graphs([](const TaskGraph& graph, const Costs& costs, std::uint64_t) {
        const double step = step_of(graph, costs).si();
        REQUIRE(longest_path(graph, costs, false).si() <= step + rounding);
        REQUIRE(longest_path(graph, costs, true).si() <= step + rounding);
        REQUIRE(busiest_place(graph, costs).si() <= step + rounding);
        REQUIRE(step <= sum_of(costs).si() + rounding);
    });
}

TEST_CASE(
    "where no host holds anything up the step is the longest path over predecessors and places") {
    for (std::uint64_t seed = 1; seed <= 400; ++seed) {
        CAPTURE(seed);
        const TaskGraph graph = random_graph(seed, false);
        const Costs costs = random_costs(graph, seed, false);
        REQUIRE(longest_path(graph, costs, true) == step_of(graph, costs));
    }
}

TEST_CASE("a shorter task never makes the step longer") {
    for_random_graphs([](const TaskGraph& graph, const Costs& costs, std::uint64_t seed) {
        RandomSource random(seed);
        Costs faster = costs;
        faster.duration[static_cast<std::size_t>(random.below(static_cast<int>(graph.size())))] *=
            random.fraction();
        REQUIRE(step_of(graph, faster) <= step_of(graph, costs));
        for (Seconds& issue : faster.issue) issue *= random.fraction();
        REQUIRE(step_of(graph, faster) <= step_of(graph, costs));
    });
}

// Powers of two scale without rounding.
TEST_CASE("doubling every cost doubles the step") {
    for_random_graphs([](const TaskGraph& graph, const Costs& costs, std::uint64_t) {
        Costs twice = costs;
        for (Seconds& duration : twice.duration) duration *= 2;
        for (Seconds& issue : twice.issue) issue *= 2;
        REQUIRE(step_of(graph, twice) == 2 * step_of(graph, costs));
    });
}

TEST_CASE("a blocking launch never makes the step shorter") {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        CAPTURE(seed);
        const TaskGraph graph = random_graph(seed, true);
        TaskGraph blocking(graph.rank_count(), true), free(graph.rank_count(), false);
        for (TaskId t = 0; t < graph.size(); ++t)
            for (TaskGraph* copy : {&blocking, &free})
                copy->add(graph.name(t), graph.phase(t), graph.op(t), graph.places(t),
                          graph.predecessors(t));
        const Costs costs = random_costs(graph, seed, true);
        REQUIRE(step_of(free, costs) <= step_of(blocking, costs));
    }
}
