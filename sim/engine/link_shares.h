// How much longer running collectives take because they share the links of their ranks.
#pragma once

#include <vector>

#include "model/graph/task_graph.h"
#include "sim/network/link_use.h"

namespace stepcast {

// Collectives compete for the links of the ranks that they have in common. On each of these ranks
// every collective gets its max-min fair part (sim/network/link_use.h), and the rank that leaves a
// collective the least decides. What a collective cannot use on a rank, because another rank limits
// it, is not passed on to the other collectives.
class LinkShares {
public:
    // `graph` and `links`, which are not empty, must outlive the run.
    void reset(const TaskGraph& graph, const LinkUses& links);

    void start(TaskId t) { change(t, true); }
    void finish(TaskId t) { change(t, false); }
    // Call after all starts and ends of one moment. Adds the first places of tasks whose factor may
    // have changed.
    void settle(std::vector<std::uint32_t>& touched);
    // The time of a running task over its time alone.
    [[nodiscard]] double factor(TaskId t) const;

private:
    struct Holder {
        TaskId task = no_task;
        double factor = 1;
    };
    void change(TaskId t, bool starts);
    void settle_rank(std::uint32_t rank, std::vector<std::uint32_t>& touched);
    // The share of a link that the task needs at this place.
    [[nodiscard]] double demand(TaskId t, std::uint32_t place, std::size_t link) const;

    const TaskGraph* graph_ = nullptr;
    const LinkUses* links_ = nullptr;
    std::vector<Holder> holders_;           // by place
    std::vector<std::uint8_t> is_changed_;  // by rank
    std::vector<std::uint32_t> changed_;    // ranks
};

}  // namespace stepcast
