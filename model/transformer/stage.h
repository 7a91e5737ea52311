// The ranks of one pipeline stage while a step is written; stamps plans on all of them. Folded,
// some ranks represent the stage. A collective is one task over those of a group's members that are
// written, priced by the group.
#pragma once

#include <vector>

#include "model/transformer/plan.h"

namespace stepcast {

// All groups of this shape among `ranks`, as indices; of members that are not there, none. Each
// group starts at the lowest rank that is in no group yet.
std::vector<std::vector<std::size_t>> groups_in(const std::vector<int>& ranks, const Group& shape);

class Stage {
public:
    // The stage's ranks, ascending; folded, those that represent them. `expert_index` has the
    // expert-parallel rank of each, `graph_ranks` its number in the graph: by default its own.
    Stage(TaskGraph& graph, std::vector<int> ranks, std::vector<int> expert_index);
    Stage(TaskGraph& graph, std::vector<int> ranks, std::vector<int> expert_index,
          std::vector<int> graph_ranks);

    // Writes the plan's tasks. Tasks without a predecessor in the plan follow the last task of each
    // rank.
    void stamp(const Plan& plan, Phase phase);

    // A collective of this stage outside plans, over `task.group`; it follows only `after`.
    TasksByRank collective(const NewTask& task, Lane lane, const TasksByRank& after);

    // The last task of each rank. If a plan ends in two tasks, it is the one that is not a
    // collective.
    [[nodiscard]] const TasksByRank& last() const { return chain_.last; }
    // Makes the next task of each rank also follow these.
    void follow(const TasksByRank& tasks) { chain_.followed.push_back(tasks); }

    // What the next task of each rank follows. Passes that alternate have one chain each.
    struct Chain {
        TasksByRank last;
        // what the next plan also waits for: the other end of the last plan, tasks outside plans
        std::vector<TasksByRank> followed;
    };
    void swap_chain(Chain& other) { std::swap(chain_, other); }
    [[nodiscard]] const Chain& chain() const { return chain_; }
    // Makes the next tasks also follow the other chain.
    void join(Chain other);

    // Continues after tasks written outside plans: the next task of each rank follows these instead
    // of last().
    void resume(TasksByRank last) { chain_ = {std::move(last), {}}; }

    [[nodiscard]] std::size_t size() const { return ranks_.size(); }
    [[nodiscard]] int graph_rank(std::size_t i) const { return graph_ranks_[i]; }

private:
    const std::vector<std::vector<std::size_t>>& groups_of(GroupId group);
    void collect(std::size_t rank, const PlannedTask& task);

    TaskGraph& graph_;
    std::vector<int> ranks_, expert_index_, graph_ranks_;
    Chain chain_;
    std::vector<TaskId> stamped_;  // for the plan being stamped, [task][rank]
    std::vector<TaskId> after_;
    std::vector<Place> places_;
    std::vector<std::vector<std::vector<std::size_t>>> groups_;  // by group id, filled on first use
};

}  // namespace stepcast
