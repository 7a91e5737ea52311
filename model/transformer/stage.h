// The ranks of one pipeline stage while a step is written: stamps plans on all of them. Folded, one rank stands for all
// of the stage and a collective is a task of that rank alone, priced by its group; unfolded, every rank is there and a
// collective is one task over the members of each group.
#pragma once

#include <vector>

#include "model/transformer/plan.h"

namespace stepcast {

// Each group of this shape in a stage of these ranks, as their indices. The lowest rank that belongs to none yet is the first
// of the next.
std::vector<std::vector<std::size_t>> groups_in(const std::vector<int>& ranks, const Group& shape);

class Stage {
public:
    // The stage's ranks, ascending; folded, the one that stands for them. `expert_index` says which expert-parallel rank
    // each is.
    Stage(TaskGraph& graph, std::vector<int> ranks, std::vector<int> expert_index);

    // Writes the plan's tasks; those without a predecessor in the plan follow what each rank did last.
    void stamp(const Plan& plan, Phase phase);

    // A collective of this stage outside plans; follows `after` only.
    TasksByRank collective(NameId name, Phase phase, OpId op, GroupId group, Lane lane, const TasksByRank& after);

    // The last task of each rank; of a plan that ends in two the one that is not a collective.
    [[nodiscard]] const TasksByRank& last() const { return chain_.last; }
    // What comes next on each rank follows these as well.
    void follow(const TasksByRank& tasks) { chain_.followed.push_back(tasks); }

    // What comes next on each rank follows this; for passes that go by turns each has its own.
    struct Chain {
        TasksByRank last;
        std::vector<TasksByRank> followed;  // to be waited for by the next plan: the other end of the last one, tasks outside plans
    };
    void swap_chain(Chain& other) { std::swap(chain_, other); }
    [[nodiscard]] const Chain& chain() const { return chain_; }
    // What comes next follows the other chain as well.
    void join(Chain other);

    // Tasks written next to plans: what comes next on each rank follows its own of these instead of last().
    void resume(TasksByRank last) { chain_ = {std::move(last), {}}; }

    [[nodiscard]] std::size_t size() const { return ranks_.size(); }
    [[nodiscard]] int graph_rank(std::size_t i) const { return ranks_[i]; }

private:
    const std::vector<std::vector<std::size_t>>& groups_of(GroupId group);
    void collect(std::size_t rank, const PlannedTask& task);

    TaskGraph& graph_;
    std::vector<int> ranks_, expert_index_;
    Chain chain_;
    std::vector<TaskId> stamped_;        // of the plan being stamped, [task][rank]
    std::vector<TaskId> after_;
    std::vector<Place> places_;
    std::vector<std::vector<std::vector<std::size_t>>> groups_;  // by id, once they are known
};

}  // namespace stepcast
