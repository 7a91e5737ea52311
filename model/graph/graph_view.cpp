#include "model/graph/graph_view.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/graphviz.hpp>
#include <boost/graph/topological_sort.hpp>

namespace stepcast {
namespace {

constexpr TaskId none = std::numeric_limits<TaskId>::max();

using View = boost::compressed_sparse_row_graph<boost::directedS>;

View view_of(std::size_t task_count, std::span<const Dependency> dependencies) {
    std::vector<std::pair<std::size_t, std::size_t>> edges;
    edges.reserve(dependencies.size());
    for (const Dependency& d : dependencies) {
        if (d.before >= task_count || d.after >= task_count)
            throw std::logic_error(
                fmt::format("graph_view: task {} before {}, but there are {} tasks", d.before, d.after, task_count));
        edges.emplace_back(d.before, d.after);
    }
    return {boost::edges_are_unsorted_multi_pass, edges.begin(), edges.end(), task_count};
}

std::vector<TaskId> order_of(const View& view) {
    std::vector<View::vertex_descriptor> reversed;
    reversed.reserve(num_vertices(view));
    try {
        boost::topological_sort(view, std::back_inserter(reversed));
    } catch (const boost::not_a_dag&) {
        throw std::logic_error("graph_view: the tasks wait for each other in a cycle");
    }
    std::vector<TaskId> order(reversed.size());
    std::transform(reversed.rbegin(), reversed.rend(), order.begin(), [](auto v) { return static_cast<TaskId>(v); });
    return order;
}

std::vector<Dependency> place_queues(const TaskGraph& graph) {
    std::vector<Dependency> edges;
    std::vector<TaskId> last(static_cast<std::size_t>(graph.place_count()), none);
    for (TaskId t = 0; t < graph.size(); ++t)
        for (const Place& place : graph.places(t)) {
            TaskId& before = last[place.index];
            if (before != none) edges.push_back({before, t});
            before = t;
        }
    return edges;
}

std::string label_of(const TaskGraph& graph, TaskId t) {
    std::string label = fmt::format("{} {}\n{}", t, graph.name(t), kind_name(graph.op(t)));
    for (const Place& place : graph.places(t))
        label += fmt::format("\nrank {} {}", place.rank(), to_string(place.lane()));
    return label;
}

}  // namespace

std::vector<Dependency> dependencies(const TaskGraph& graph, Waits waits) {
    std::vector<Dependency> edges;
    for (TaskId t = 0; t < graph.size(); ++t)
        for (const TaskId earlier : graph.predecessors(t)) edges.push_back({earlier, t});
    if (waits == Waits::predecessors) return edges;
    const std::vector<Dependency> queues = place_queues(graph);
    edges.insert(edges.end(), queues.begin(), queues.end());
    return edges;
}

std::vector<TaskId> topological_order(std::size_t task_count, std::span<const Dependency> dependencies) {
    return order_of(view_of(task_count, dependencies));
}

CriticalPath critical_path(const TaskGraph& graph, std::span<const Seconds> durations, Waits waits) {
    if (durations.size() != graph.size())
        throw std::logic_error(fmt::format("critical_path: {} durations for {} tasks", durations.size(), graph.size()));
    const View view = view_of(graph.size(), dependencies(graph, waits));
    std::vector<Seconds> ready(graph.size());
    std::vector<TaskId> held_up_by(graph.size(), none);
    CriticalPath path;
    TaskId last = none;
    for (const TaskId t : order_of(view)) {
        const Seconds finish = ready[t] + durations[t];
        if (last == none || finish > path.length) {
            path.length = finish;
            last = t;
        }
        for (const auto after : boost::make_iterator_range(adjacent_vertices(View::vertex_descriptor{t}, view)))
            if (held_up_by[after] == none || finish > ready[after]) {
                ready[after] = finish;
                held_up_by[after] = t;
            }
    }
    for (; last != none; last = held_up_by[last]) path.tasks.push_back(last);
    std::reverse(path.tasks.begin(), path.tasks.end());
    return path;
}

std::string to_dot(const TaskGraph& graph) {
    std::vector<Dependency> edges = dependencies(graph, Waits::predecessors);
    const std::size_t solid = edges.size();
    // A predecessor on the same place is drawn once, as what it is.
    for (const Dependency& queued : place_queues(graph))
        if (std::ranges::find(graph.predecessors(queued.after), queued.before) ==
            graph.predecessors(queued.after).end())
            edges.push_back(queued);
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    std::vector<char> dotted;
    for (std::size_t e = 0; e < edges.size(); ++e) {
        pairs.emplace_back(edges[e].before, edges[e].after);
        dotted.push_back(e >= solid);
    }
    const boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, char> view(
        boost::edges_are_unsorted_multi_pass, pairs.begin(), pairs.end(), dotted.begin(), graph.size());
    std::ostringstream out;
    boost::write_graphviz(
        out, view,
        [&](std::ostream& text, auto v) {
            text << "[shape=box, label=" << boost::escape_dot_string(label_of(graph, static_cast<TaskId>(v))) << "]";
        },
        [&](std::ostream& text, auto e) {
            if (view[e]) text << "[style=dotted]";
        });
    return out.str();
}

}  // namespace stepcast
