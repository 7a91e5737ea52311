// Which tasks of a graph cost the same on any cluster, so that pricing it on many clusters only
// takes the pricing of its distinct ops.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "model/cluster.h"
#include "model/graph/task_graph.h"
#include "sim/costs/costs.h"
#include "sim/network/ring_path.h"

namespace stepcast {

// Tasks of one class share op and phase, and the group; without a stated group, they share the
// ranks that take part.
class PriceClasses {
public:
    explicit PriceClasses(const TaskGraph& graph);  // must outlive this object

    [[nodiscard]] std::size_t size() const { return examples_.size(); }
    [[nodiscard]] std::uint32_t of(TaskId t) const { return class_of_[t]; }

    // The paths of all groups that take part in a class.
    using Paths = std::map<GroupId, RingPath>;
    [[nodiscard]] Paths paths(const Cluster& cluster) const;

    // The price of class c, with the sizes that its task has in `sizes`: this graph or one of the
    // same tasks.
    [[nodiscard]] Seconds price(std::uint32_t c, const TaskGraph& sizes, const Cluster& cluster,
                                const Paths& paths) const;
    // The price of each class. `paths` must be of a cluster with the same_paths().
    [[nodiscard]] std::vector<Seconds> price(const Cluster& cluster, const Paths& paths) const;
    // Gives every task the price of its class. Kernels of each rank run at the rank's own rate
    // (cluster.gpu.rank_rates; empty = all alike), and issuing a task takes `call` for each host
    // call. Sets no links.
    void fill(Costs& costs, std::span<const Seconds> prices, Seconds call,
              std::span<const double> rank_rates) const;
    // Sets all costs of the tasks on the cluster.
    void fill(Costs& costs, std::span<const Seconds> prices, const Paths& paths,
              const Cluster& cluster) const;

private:
    // Empty unless cluster.interference.shared_links is set and some rank has two lanes whose
    // collectives want the same link.
    [[nodiscard]] LinkUses links(std::span<const Seconds> prices, const Paths& paths,
                                 const Cluster& cluster) const;

    const TaskGraph& graph_;
    std::vector<std::uint32_t> class_of_;
    std::vector<TaskId> examples_;  // a task of each class
};

}  // namespace stepcast
