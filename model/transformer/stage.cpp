#include "model/transformer/stage.h"

#include <algorithm>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/rank_groups.h"

namespace stepcast {
namespace {

void add_once(std::vector<TaskId>& tasks, TaskId task) {
    if (task != no_task && !contains(tasks, task)) tasks.push_back(task);
}

}  // namespace

std::vector<std::vector<std::size_t>> groups_in(const std::vector<int>& ranks, const Group& shape) {
    if (ranks.size() == 1) return {{0}};
    std::vector<std::vector<std::size_t>> groups;
    std::vector<bool> taken(ranks.size());
    for (const std::size_t r : indices_of(ranks)) {
        if (taken[r]) continue;
        auto& group = groups.emplace_back();
        for (const int member : members(shape, ranks[r])) {
            const auto at = std::ranges::lower_bound(ranks, member);
            if (at == ranks.end() || *at != member) continue;
            group.push_back(as_index(at - ranks.begin()));
            taken[group.back()] = true;
        }
    }
    return groups;
}

Stage::Stage(TaskGraph& graph, std::vector<int> ranks, std::vector<int> expert_index)
    : Stage(graph, ranks, std::move(expert_index), ranks) {}

Stage::Stage(TaskGraph& graph, std::vector<int> ranks, std::vector<int> expert_index,
             std::vector<int> graph_ranks)
    : graph_(graph),
      ranks_(std::move(ranks)),
      expert_index_(std::move(expert_index)),
      graph_ranks_(std::move(graph_ranks)),
      chain_{TasksByRank(ranks_.size(), no_task), {}} {}

const std::vector<std::vector<std::size_t>>& Stage::groups_of(GroupId id) {
    if (groups_.size() <= id) groups_.resize(id + std::size_t{1});
    if (groups_[id].empty()) groups_[id] = groups_in(ranks_, graph_.group(id));
    return groups_[id];
}

void Stage::collect(std::size_t rank, const PlannedTask& task) {
    if (task.starts) return;
    bool enters = true;
    for (const int before : task.after) {
        if (before == PlannedTask::entry) continue;
        add_once(after_, stamped_[as_index(before) * ranks_.size() + rank]);
        enters = false;
    }
    if (!enters) return;
    add_once(after_, chain_.last[rank]);
    for (const TasksByRank& tasks : chain_.followed) add_once(after_, tasks[rank]);
}

// Tasks that are not collectives have group 0, in which every rank is alone.
void Stage::stamp(const Plan& plan, Phase phase) {
    if (plan.tasks.empty()) return;
    stamped_.resize(plan.tasks.size() * ranks_.size());
    GroupId known = 0;
    const auto* groups = &groups_of(known);
    for (const std::size_t i : indices_of(plan.tasks)) {
        const PlannedTask& task = plan.tasks[i];
        if (task.group != known) groups = &groups_of(known = task.group);
        for (const auto& group : *groups) {
            after_.clear();
            places_.clear();
            for (const std::size_t r : group) {
                collect(r, task);
                places_.emplace_back(graph_ranks_[r], task.lane);
            }
            const auto variant = [&] { return as_index(expert_index_[group.front()]); };
            const OpId op = task.op_variants < 0
                                ? task.op
                                : plan.variants[as_index(task.op_variants)][variant()];
            const TaskId id =
                graph_.add({task.name, phase, op, task.host_calls, task.group}, places_, after_);
            for (const std::size_t r : group) stamped_[i * ranks_.size() + r] = id;
        }
    }
    const auto end = [&](int task, std::size_t r) {
        return task == PlannedTask::entry ? no_task : stamped_[as_index(task) * ranks_.size() + r];
    };
    for (const std::size_t r : indices_of(ranks_)) chain_.last[r] = end(plan.tail[0], r);
    chain_.followed.clear();
    if (plan.tail[1] == PlannedTask::entry) return;
    TasksByRank& other = chain_.followed.emplace_back(ranks_.size());
    for (const std::size_t r : indices_of(ranks_)) {
        other[r] = end(plan.tail[1], r);
        if (chain_.last[r] == no_task) std::swap(chain_.last[r], other[r]);
    }
}

TasksByRank Stage::collective(const NewTask& task, Lane lane, const TasksByRank& after) {
    TasksByRank result(ranks_.size(), no_task);
    for (const auto& members : groups_of(task.group)) {
        after_.clear();
        places_.clear();
        for (const std::size_t r : members) {
            if (!after.empty()) add_once(after_, after[r]);
            places_.emplace_back(graph_ranks_[r], lane);
        }
        const TaskId id = graph_.add(task, places_, after_);
        for (const std::size_t r : members) result[r] = id;
    }
    return result;
}

void Stage::join(Chain other) {
    chain_.followed.push_back(std::move(other.last));
    for (TasksByRank& tasks : other.followed) chain_.followed.push_back(std::move(tasks));
}

}  // namespace stepcast
