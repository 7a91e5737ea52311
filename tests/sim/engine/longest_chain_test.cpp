// The step is the longest chain of tasks that wait for each other: the engine against Boost.Graph.
#include <catch2/catch.hpp>

#include <algorithm>
#include <vector>

#include <boost/graph/dag_shortest_paths.hpp>
#include <boost/property_map/function_property_map.hpp>

#include "model/graph/dependencies.h"
#include "sim/engine/simulate.h"
#include "sim/explain/critical_path.h"
#include "tests/random_graphs.h"

using namespace stepcast;
using namespace stepcast::graphs;

namespace {

// The same tasks, each also after the one before it on each of its places, and a last one after
// all.
TaskGraph with_places_as_dependencies(const TaskGraph& graph) {
    TaskGraph chained(graph.rank_count());
    std::vector<TaskId> last(static_cast<std::size_t>(graph.place_count()), no_task), all;
    for (TaskId t = 0; t < graph.size(); ++t) {
        std::vector<TaskId> after(graph.predecessors(t).begin(), graph.predecessors(t).end());
        for (const Place& place : graph.places(t))
            if (const TaskId before = std::exchange(last[place.index], t); before != no_task)
                after.push_back(before);
        all.push_back(
            chained.add(graph.name(t), graph.phase(t), graph.op(t), graph.places(t), after));
    }
    chained.add("end", Phase::optimizer, small_pass(), std::vector{compute(0)}, all);
    return chained;
}

// Edges weigh what they wait for, negatively, so the shortest path is the longest chain.
Seconds longest_chain(const TaskGraph& graph, const Costs& costs) {
    const TaskGraph chained = with_places_as_dependencies(graph);
    const DependencyGraph g(chained);
    const auto weights = boost::make_function_property_map<Dependency>(
        [&](const Dependency& e) { return -costs.duration[e.waits_for].si(); });
    std::vector<double> distances(chained.size());
    boost::dag_shortest_paths(
        g, static_cast<TaskId>(graph.size()),
        boost::weight_map(weights).distance_map(
            boost::make_iterator_property_map(distances.begin(), get(boost::vertex_index, g))));
    return Seconds(-*std::ranges::min_element(distances));
}

}  // namespace

TEST_CASE(
    "a step is as long as the longest chain that Boost.Graph finds, and so its critical path") {
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        CAPTURE(seed);
        const TaskGraph graph = random_graph(seed, false);
        const Costs costs = random_costs(graph, seed, false);
        Timeline timeline;
        run_in_order(graph, costs, timeline, Record::waits);
        REQUIRE(longest_chain(graph, costs).si() == Approx(timeline.end.si()).epsilon(1e-12));
        Seconds sum;
        for (const PathSegment& segment : critical_path(graph, costs, timeline))
            sum += segment.time;
        REQUIRE(sum.si() == Approx(timeline.end.si()).epsilon(1e-12));
    }
}
