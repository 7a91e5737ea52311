// Which tasks of a graph cost the same on any cluster, so that one graph is priced on many clusters for the price of its
// distinct ops.
#pragma once

#include <span>
#include <vector>

#include "model/cluster.h"
#include "model/task_graph.h"
#include "sim/costs.h"

namespace stepcast {

// Tasks of one class share op and phase, and the group or, where none is stated, the ranks that take part.
class PriceClasses {
public:
    explicit PriceClasses(const TaskGraph& graph);  // which it refers to

    [[nodiscard]] std::size_t size() const { return examples_.size(); }
    [[nodiscard]] std::uint32_t of(TaskId t) const { return class_of_[t]; }
    [[nodiscard]] std::size_t tasks_of(std::uint32_t of_class) const { return tasks_[of_class]; }

    [[nodiscard]] std::vector<Seconds> price(const Cluster& cluster) const;  // by class
    // Every task at the price of its class, and what the hosts take to issue it.
    void fill(Costs& costs, std::span<const Seconds> prices, const Cluster& cluster) const;

private:
    const TaskGraph& graph_;
    std::vector<std::uint32_t> class_of_;
    std::vector<TaskId> examples_;      // a task of each class
    std::vector<std::uint32_t> tasks_;  // of each class, how many
};

}  // namespace stepcast
