// The task graph as Boost.Graph sees it: its arrays, by the concepts of that library. A vertex is a
// task; an edge leads from a task to one that it waits for. So a search goes back in time, and a
// topological sort begins with what waits for nothing.
#pragma once

#include <iterator>
#include <utility>

#include <boost/graph/graph_traits.hpp>
#include <boost/graph/properties.hpp>
#include <boost/iterator/counting_iterator.hpp>
#include <boost/property_map/property_map.hpp>

#include "model/base/numbers.h"
#include "model/graph/task_graph.h"

namespace stepcast {

struct Dependency {
    TaskId task = 0, waits_for = 0;
    friend bool operator==(const Dependency&, const Dependency&) = default;
};

// Models VertexListGraph, EdgeListGraph and IncidenceGraph. The graph must outlive it.
class DependencyGraph {
public:
    using vertex_descriptor = TaskId;
    using edge_descriptor = Dependency;
    using directed_category = boost::directed_tag;
    using edge_parallel_category = boost::allow_parallel_edge_tag;
    struct traversal_category : boost::incidence_graph_tag,
                                boost::vertex_list_graph_tag,
                                boost::edge_list_graph_tag {};
    using vertices_size_type = std::size_t;
    using edges_size_type = std::size_t;
    using degree_size_type = std::size_t;
    using vertex_iterator = boost::counting_iterator<TaskId>;

    // Goes through the predecessors of all tasks, which lie behind each other.
    class out_edge_iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = Dependency;
        using difference_type = std::ptrdiff_t;
        using pointer = const Dependency*;
        using reference = Dependency;

        out_edge_iterator() = default;
        out_edge_iterator(const TaskGraph& graph, TaskId task, const TaskId* entry)
            : graph_(&graph), task_(task), entry_(entry) {
            skip();
        }
        Dependency operator*() const { return {task_, *entry_}; }
        out_edge_iterator& operator++() {
            ++entry_;
            skip();
            return *this;
        }
        out_edge_iterator operator++(int) { return std::exchange(*this, std::next(*this)); }
        friend bool operator==(const out_edge_iterator& a, const out_edge_iterator& b) {
            return a.entry_ == b.entry_;
        }

    private:
        // to the task whose entry it is
        void skip() {
            while (task_ < graph_->size() && entry_ == end_of(*graph_, task_)) ++task_;
        }
        const TaskGraph* graph_ = nullptr;
        TaskId task_ = 0;
        const TaskId* entry_ = nullptr;
    };
    using edge_iterator = out_edge_iterator;

    explicit DependencyGraph(const TaskGraph& graph) : graph_(&graph) {}
    static TaskId null_vertex() { return no_task; }
    [[nodiscard]] const TaskGraph& tasks() const { return *graph_; }

    friend std::size_t num_vertices(const DependencyGraph& g) { return g.graph_->size(); }
    friend std::pair<vertex_iterator, vertex_iterator> vertices(const DependencyGraph& g) {
        return {vertex_iterator(0), vertex_iterator(static_cast<TaskId>(g.graph_->size()))};
    }
    friend TaskId source(const Dependency& e, const DependencyGraph&) { return e.task; }
    friend TaskId target(const Dependency& e, const DependencyGraph&) { return e.waits_for; }
    friend std::size_t out_degree(TaskId t, const DependencyGraph& g) {
        return g.graph_->predecessors(t).size();
    }
    friend std::pair<out_edge_iterator, out_edge_iterator> out_edges(TaskId t,
                                                                     const DependencyGraph& g) {
        return g.edges_of(t, t + 1);
    }
    friend std::pair<edge_iterator, edge_iterator> edges(const DependencyGraph& g) {
        return g.edges_of(0, static_cast<TaskId>(g.graph_->size()));
    }
    friend std::size_t num_edges(const DependencyGraph& g) {
        const auto tasks = static_cast<TaskId>(g.graph_->size());
        return tasks == 0
                   ? 0
                   : as_index(end_of(*g.graph_, tasks - 1) - g.graph_->predecessors(0).data());
    }
    friend boost::typed_identity_property_map<TaskId> get(boost::vertex_index_t,
                                                          const DependencyGraph&) {
        return {};
    }

private:
    static const TaskId* end_of(const TaskGraph& graph, TaskId t) {
        const auto all = graph.predecessors(t);
        return all.data() + all.size();
    }
    // Of the tasks [first, last).
    [[nodiscard]] std::pair<out_edge_iterator, out_edge_iterator> edges_of(TaskId first,
                                                                           TaskId last) const {
        if (first == last) return {};
        return {out_edge_iterator(*graph_, first, graph_->predecessors(first).data()),
                out_edge_iterator(*graph_, last - 1, end_of(*graph_, last - 1))};
    }

    const TaskGraph* graph_;
};

}  // namespace stepcast

template <>
struct boost::property_map<stepcast::DependencyGraph, boost::vertex_index_t> {
    using type = boost::typed_identity_property_map<stepcast::TaskId>;
    using const_type = type;
};
