// A plan: the tasks of one layer (or of an end of the model) on one rank. It is written once and
// stamped into the graph for every micro-batch, every layer of its kind and every rank.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "model/graph/task_graph.h"

namespace stepcast {

// `after` has indices into the plan; `entry` represents the tasks before the plan on its rank.
struct PlannedTask {
    static constexpr int entry = -1;
    NameId name = 0;
    OpId op = 0;
    // index into Plan::variants, which has one op per expert-parallel rank; replaces `op`
    int op_variants = -1;
    GroupId group = 0;  // of a collective
    Lane lane = Lane::compute;
    float host_calls = 1;
    bool starts = false;  // follows no device task: the host runs ahead of the device
    std::array<int, 2> after{entry, entry};
    friend bool operator==(const PlannedTask&, const PlannedTask&) = default;
};

struct Plan {
    std::vector<PlannedTask> tasks;
    std::vector<std::vector<OpId>> variants;
    // the tasks that work after the plan waits for
    std::array<int, 2> tail{PlannedTask::entry, PlannedTask::entry};
    friend bool operator==(const Plan&, const Plan&) = default;
};

// Splits the plan after each all-to-all of experts' slots, into parts that are stamped one after
// the other.
std::vector<Plan> parts_at_exchanges(const Plan& plan, const TaskGraph& graph);

// Writes a plan. Each task follows the tail and becomes the new tail.
class Planner {
public:
    // Element-wise passes move `traffic` times their bytes: 2 if a framework runs them operation by
    // operation, with casts to fp32 and back around norms and rotary positions, and a tensor stored
    // between gate and product.
    explicit Planner(TaskGraph& graph, double traffic = 1) : graph_(graph), traffic_(traffic) {}

    void compute(std::string_view name, Op op, float host_calls = 1);
    void compute_by_expert_rank(std::string_view name, std::vector<Op> ops, float host_calls = 1);
    // Work of the host. `waits`: the host first waits for the device (a synchronisation), and the
    // device then waits for the host.
    void host(std::string_view name, const HostWork& work, bool waits);
    // Adds nothing for a group of one rank.
    void collective(std::string_view name, Op op, const Group& group);

    // Writes the tasks of `work`. If `overlapped`, they overlap the collective, and the next task
    // waits for both.
    template <typename Work>
    void overlap(bool overlapped, std::string_view name, Op op, const Group& group, Work work) {
        const bool beside = overlapped && group.size() > 1;
        const int task = beside ? append(name, graph_.add_op(std::move(op)), Lane::collective,
                                         graph_.add_group(group), 1)
                                : PlannedTask::entry;
        work();
        if (beside) plan_.tail[1] = task;
    }

    [[nodiscard]] Plan take() { return std::move(plan_); }

private:
    int append(std::string_view name, OpId op, Lane lane, GroupId group, float host_calls);

    TaskGraph& graph_;
    double traffic_;
    Plan plan_;
};

}  // namespace stepcast
