// A plan: the tasks of one layer (or of the ends of the model) on one rank, written once and stamped into the graph for
// every micro-batch, layer of its kind and rank.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "model/graph/task_graph.h"

namespace stepcast {

// `after` are indices into the plan; entry stands for whatever comes before the plan on its rank.
struct PlannedTask {
    static constexpr int entry = -1;
    NameId name = 0;
    OpId op = 0;
    int op_variants = -1;  // index into Plan::variants: an op for each expert-parallel rank instead of `op`
    GroupId group = 0;     // of a collective
    Lane lane = Lane::compute;
    float host_calls = 1;
    bool starts = false;  // follows nothing: the host runs ahead of the device
    std::array<int, 2> after{entry, entry};
    friend bool operator==(const PlannedTask&, const PlannedTask&) = default;
};

struct Plan {
    std::vector<PlannedTask> tasks;
    std::vector<std::vector<OpId>> variants;
    std::array<int, 2> tail{PlannedTask::entry, PlannedTask::entry};  // what follows the plan waits for these
    friend bool operator==(const Plan&, const Plan&) = default;
};

// The plan in parts, each but the last up to and with an all-to-all of experts' slots, to be stamped one after the other.
std::vector<Plan> parts_at_exchanges(const Plan& plan, const TaskGraph& graph);

// Writes a plan; each task follows the tail, which it becomes.
class Planner {
public:
    // Element-wise passes take `traffic` times their bytes: 2 where a framework runs them operation by operation, with
    // casts to fp32 and back around norms and rotary positions and a tensor written between gate and product.
    explicit Planner(TaskGraph& graph, double traffic = 1) : graph_(graph), traffic_(traffic) {}

    void compute(std::string_view name, Op op, float host_calls = 1);
    void compute_by_expert_rank(std::string_view name, std::vector<Op> ops, float host_calls = 1);
    // Work of the host. `waits`: it first waits for the device (a synchronisation), and the device for it.
    void host(std::string_view name, const HostWork& work, bool waits);
    // Nothing is written for a group of one rank.
    void collective(std::string_view name, Op op, const Group& group);

    // What is written between the two overlaps the collective that `fork` starts; `join` waits for both.
    void fork(std::string_view name, Op op, const Group& group);
    void join();

    [[nodiscard]] Plan take() { return std::move(plan_); }

private:
    int append(std::string_view name, OpId op, Lane lane, GroupId group, float host_calls);

    TaskGraph& graph_;
    double traffic_;
    Plan plan_;
    int forked_ = PlannedTask::entry;
};

}  // namespace stepcast
