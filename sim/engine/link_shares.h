// The links of each rank while collectives run: how much longer each takes because it shares them.
#pragma once

#include <vector>

#include "model/graph/task_graph.h"
#include "sim/network/link_use.h"

namespace stepcast {

// Collectives meet on the links of the ranks that they have in common; on each of those every one gets its max-min fair
// part (sim/network/link_use.h), and the rank that leaves a collective least decides. What a collective does not need
// elsewhere is not handed on from rank to rank.
class LinkShares {
public:
    // `graph` and `links`, which are not empty, must outlive the run.
    void reset(const TaskGraph& graph, const LinkUses& links);

    void start(TaskId t) { change(t, true); }
    void finish(TaskId t) { change(t, false); }
    // After all that starts or ends at one moment; adds the first places of tasks whose factor may be another now.
    void settle(std::vector<std::uint32_t>& touched);
    // Time of a running task per its time alone.
    [[nodiscard]] double factor(TaskId t) const;

private:
    struct Holder {
        TaskId task = no_task;
        double factor = 1;
    };
    void change(TaskId t, bool starts);
    void settle_rank(std::uint32_t rank, std::vector<std::uint32_t>& touched);
    // Of a link that the task needs at this place.
    [[nodiscard]] double demand(TaskId t, std::uint32_t place, std::size_t link) const;

    const TaskGraph* graph_ = nullptr;
    const LinkUses* links_ = nullptr;
    std::vector<Holder> holders_;           // by place
    std::vector<std::uint8_t> is_changed_;  // by rank
    std::vector<std::uint32_t> changed_;    // ranks
};

}  // namespace stepcast
