#include "model/transformer/plan.h"

#include "model/base/numbers.h"

namespace stepcast {

std::vector<Plan> parts_at_exchanges(const Plan& plan, const TaskGraph& graph) {
    std::vector<Plan> parts;
    const auto own = [](int task, int begin) {
        return task >= begin ? task - begin : PlannedTask::entry;
    };
    int begin = 0;
    const auto close = [&](int end, const std::array<int, 2>& tail) {
        Plan part{{plan.tasks.begin() + begin, plan.tasks.begin() + end},
                  plan.variants,
                  {own(tail[0], begin), own(tail[1], begin)}};
        for (PlannedTask& task : part.tasks)
            for (int& before : task.after) before = own(before, begin);
        parts.push_back(std::move(part));
        begin = end;
    };
    for (int i = 0; i < as_int(plan.tasks.size()); ++i)
        if (std::holds_alternative<AllToAll>(graph.ops()[plan.tasks[as_index(i)].op]))
            close(i + 1, {i, PlannedTask::entry});
    close(as_int(plan.tasks.size()), plan.tail);
    return parts;
}

int Planner::append(std::string_view name, OpId op, Lane lane, GroupId group, float host_calls) {
    plan_.tasks.push_back({.name = graph_.name_id(name),
                           .op = op,
                           .group = group,
                           .lane = lane,
                           .host_calls = host_calls,
                           .after = plan_.tail});
    return as_int(plan_.tasks.size()) - 1;
}

void Planner::compute(std::string_view name, Op op, float host_calls) {
    if (auto* pass = std::get_if<MemoryPass>(&op); pass && traffic_ != 1)
        *pass = {traffic_ * pass->read, traffic_ * pass->written, pass->access};
    plan_.tail = {append(name, graph_.add_op(std::move(op)), Lane::compute, 0, host_calls),
                  PlannedTask::entry};
}

void Planner::compute_by_expert_rank(std::string_view name, std::vector<Op> ops, float host_calls) {
    std::vector<OpId> ids;
    for (Op& op : ops) ids.push_back(graph_.add_op(std::move(op)));
    plan_.tail = {append(name, ids.front(), Lane::compute, 0, host_calls), PlannedTask::entry};
    if (ids.size() > 1) {
        plan_.tasks.back().op_variants = as_int(plan_.variants.size());
        plan_.variants.push_back(std::move(ids));
    }
}

void Planner::host(std::string_view name, const HostWork& work, bool waits) {
    const int task = append(name, graph_.add_op(work), Lane::host, 0, 0);
    plan_.tasks.back().starts = !waits;
    if (waits) plan_.tail = {task, PlannedTask::entry};
}

void Planner::collective(std::string_view name, Op op, const Group& group) {
    if (group.size() <= 1) return;
    plan_.tail = {
        append(name, graph_.add_op(std::move(op)), Lane::collective, graph_.add_group(group), 1),
        PlannedTask::entry};
}

}  // namespace stepcast
