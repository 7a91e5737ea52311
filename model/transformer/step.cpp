#include "model/transformer/step.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "model/transformer/hops.h"
#include "model/transformer/schedule.h"
#include "model/transformer/stages.h"

namespace stepcast {
namespace {

class StepWriter {
public:
    StepWriter(const Experiment& e, const Routing& routing, bool folded)
        : e_(e),
          p_(e.parallelism),
          graph_(folded ? p_.pp : p_.pp * ranks_of_stage(p_), e.cluster.launch_blocking),
          context_{e, rank_shape(e), rank_groups(p_), routing},
          plans_(layer_plans(graph_, context_)),
          paths_(paths_of(e.workload, p_)),
          stages_(make_stages(graph_, context_, plans_, paths_, folded)),
          hops_(graph_, context_, stages_, paths_) {
        if (folded)
            graph_.set_multiplicity(
                std::vector<int>(static_cast<std::size_t>(p_.pp), ranks_of_stage(p_)));
    }

    TaskGraph write() {
        fetch_updated_parameters();
        run(schedule_orders(p_));
        for (auto& state : stages_) state->data.finish_gradients();
        join_copies(graph_, context_, stages_);
        join_embeddings(graph_, context_, stages_, paths_[0]);
        if (e_.workload.optimizer != Optimizer::none) update_weights(graph_, context_, stages_);
        return std::move(graph_);
    }
    [[nodiscard]] WrittenSlots slots() const {
        WrittenSlots found = written_;
        for (const auto& state : stages_)
            for (std::size_t i = 0; i < state->stage.size(); ++i) {
                const auto rank = static_cast<std::size_t>(state->stage.graph_rank(i));
                if (rank >= found.stage_of_rank.size()) found.stage_of_rank.resize(rank + 1);
                found.stage_of_rank[rank] = state->index;
            }
        return found;
    }

private:
    // zero 1, 2: parameters that the previous step's optimizer updated are gathered during the
    // first forward.
    void fetch_updated_parameters() {
        if (!(p_.zero == 1 || p_.zero == 2) || !p_.overlap_params) return;
        for (auto& state : stages_)
            for (const auto& units : state->chunks)
                for (const Unit& unit : units)
                    fetched_[&unit] = state->data.gather(unit.weights.trained, Phase::forward, {});
    }

    void run(const std::vector<Order>& orders) {
        for (std::size_t s = 0; s < orders.size(); ++s)
            for (const Slot& slot : orders[s])
                if (slot.pass == Pass::backward || slot.pass == Pass::weight_backward)
                    ++stages_[s]->backwards_left[static_cast<std::size_t>(slot.chunk)];
        for (bool moved = true; moved;) {
            moved = false;
            for (std::size_t s = 0; s < orders.size(); ++s)
                while (stages_[s]->next < orders[s].size() && !hops_.holds(*stages_[s])) {
                    const Slot* slot = &orders[s][stages_[s]->next];
                    if (!(slot->paired ? run_pair(s, slot[0], slot[1]) : run_slot(s, *slot))) break;
                    stages_[s]->next += slot->paired ? 2 : 1;
                    moved = true;
                }
            moved = hops_.meet(orders) || moved;
        }
        for (std::size_t s = 0; s < orders.size(); ++s)
            if (stages_[s]->next < orders[s].size())
                throw std::logic_error(
                    "build_transformer_step: the schedule waits for itself on stage " +
                    std::to_string(s));
    }

    [[nodiscard]] At at_of(std::size_t s, const Slot& slot) const {
        const int direction = directions(p_) == 2 ? slot.chunk : 0;
        return {slot.micro_batch, direction,
                stages_[s]->positions[static_cast<std::size_t>(slot.chunk)],
                slot.pass != Pass::forward};
    }
    // Positions where the path of `at` begins and ends.
    [[nodiscard]] int begin_of(const At& at) const { return at.back ? last_of(at) : 0; }
    [[nodiscard]] int end_of(const At& at) const { return at.back ? 0 : last_of(at); }
    [[nodiscard]] int last_of(const At& at) const {
        return static_cast<int>(paths_[static_cast<std::size_t>(at.direction)].size()) - 1;
    }

    // Returns false if the slot needs something from another stage that has not been written yet.
    bool run_slot(std::size_t s, const Slot& slot) {
        const At at = at_of(s, slot);
        StageState& state = *stages_[s];
        const TaskId first = next_task();
        const bool moves = slot.pass != Pass::weight_backward;  // its data moves between stages
        if (moves && at.position != begin_of(at) && !hops_.take_arrived(state, at)) return false;
        write_units(state, slot);
        if (moves && at.position != end_of(at)) hops_.send(state, at);
        written_.slots.push_back({static_cast<int>(s), slot, first, next_task()});
        written_.pieces.push_back(written_.slots.back());
        return true;
    }

    // One of two passes that alternate: its units in execution order, each in parts that end with
    // an all-to-all.
    struct Turns {
        const Slot& slot;
        Phase phase;
        std::vector<const Unit*> units;
        bool last = false;  // makes the last gradients of its chunk
        std::size_t unit = 0, part = 0;
        [[nodiscard]] bool done() const { return unit == units.size(); }
        [[nodiscard]] bool at_end_of_model() const { return !done() && units[unit]->layer < 0; }
    };

    void write_part(std::size_t s, Turns& turns) {
        StageState& state = *stages_[s];
        const Unit& unit = *turns.units[turns.unit];
        const bool back = turns.phase == Phase::backward;
        const Plan& plan = back ? unit.plans->backward : unit.plans->forward;
        const auto [known, fresh] = parts_.try_emplace(&plan);
        if (fresh) known->second = parts_at_exchanges(plan, graph_);
        const TaskId first = next_task();
        stamp(state, known->second[turns.part], turns.phase);
        mark(first, unit);
        written_.pieces.push_back({static_cast<int>(s), turns.slot, first, next_task()});
        if (++turns.part < known->second.size()) return;
        if (back) state.data.add_gradients(unit.weights.trained, turns.last);
        turns.part = 0;
        ++turns.unit;
    }

    // Megatron-Core's combined pass (model_chunk_schedule_plan.py): first the backward's logits and
    // the forward's embedding, then one layer of each in turn. The backward's combine overlaps the
    // forward's attention, the forward's dispatch the experts' backward, the backward's dispatch
    // the forward's experts, and the forward's combine the attention's backward.
    bool run_pair(std::size_t s, const Slot& forward_slot, const Slot& backward_slot) {
        StageState& state = *stages_[s];
        const At ahead = at_of(s, forward_slot), back = at_of(s, backward_slot);
        const auto missing = [&](const At& at) {
            return at.position != begin_of(at) && !hops_.has_arrived(at);
        };
        if (missing(ahead) || missing(back)) return false;
        const TaskId first = next_task();
        Turns forward{forward_slot, Phase::forward, {}},
            backward{backward_slot, Phase::backward, {}};
        for (const Unit& unit : state.chunks[static_cast<std::size_t>(forward_slot.chunk)])
            forward.units.push_back(&unit);
        for (const Unit& unit : state.chunks[static_cast<std::size_t>(backward_slot.chunk)])
            backward.units.insert(backward.units.begin(), &unit);
        backward.last = --state.backwards_left[static_cast<std::size_t>(backward_slot.chunk)] == 0;
        Stage::Chain other = state.stage.chain();  // chain of the pass that is waiting for its turn
        if (ahead.position != begin_of(ahead)) hops_.take_arrived(state, ahead);
        state.stage.swap_chain(other);
        if (back.position != begin_of(back)) hops_.take_arrived(state, back);
        if (backward.at_end_of_model()) write_part(s, backward);
        while (!backward.done() || !forward.done()) {
            if (!backward.done()) write_part(s, backward);
            state.stage.swap_chain(other);
            if (forward.unit == 0 && forward.at_end_of_model()) write_part(s, forward);
            if (!forward.done()) write_part(s, forward);
            state.stage.swap_chain(other);
        }
        if (backward.last) state.data.flush();
        if (back.position != end_of(back)) hops_.send(state, back);
        state.stage.swap_chain(other);
        if (ahead.position != end_of(ahead)) hops_.send(state, ahead);
        state.stage.join(std::move(other));
        const TaskId half = first + (next_task() - first) / 2;
        written_.slots.push_back({static_cast<int>(s), forward_slot, first, half});
        written_.slots.push_back({static_cast<int>(s), backward_slot, half, next_task()});
        return true;
    }

    void stamp(StageState& state, const Plan& plan, Phase phase) {
        state.before_last = state.stage.last();
        state.stage.stamp(plan, phase);
    }

    // Records that the tasks written since `first` belong to this unit's layer.
    void mark(TaskId first, const Unit& unit) {
        if (const auto last = static_cast<TaskId>(graph_.size()); unit.layer >= 0 && last > first)
            written_.layers.push_back({first, last, unit.layer});
    }
    [[nodiscard]] TaskId next_task() const { return static_cast<TaskId>(graph_.size()); }

    // Writes the pass of a slot, unit by unit. Under zero 3 the next unit's weights are gathered
    // while one runs.
    void write_units(StageState& state, const Slot& slot) {
        const std::vector<Unit>& units = state.chunks[static_cast<std::size_t>(slot.chunk)];
        const bool ahead = slot.pass == Pass::forward,
                   makes_gradients =
                       slot.pass == Pass::backward || slot.pass == Pass::weight_backward;
        const bool sharded = p_.zero == 3 && slot.pass != Pass::weight_backward;
        const bool last =
            makes_gradients && --state.backwards_left[static_cast<std::size_t>(slot.chunk)] == 0;
        const Phase phase = ahead ? Phase::forward : Phase::backward;
        const auto unit = [&](std::size_t i) -> const Unit& {
            return units[ahead ? i : units.size() - 1 - i];
        };
        const bool first_forward = ahead && (slot.micro_batch == 0 || directions(p_) == 2);
        TasksByRank gathered;
        if (sharded) gathered = state.data.gather(unit(0).gathered(), phase, state.before_last);
        for (std::size_t i = 0; i < units.size(); ++i) {
            if (!gathered.empty()) state.stage.follow(gathered);
            const auto updated = first_forward ? fetched_.find(&unit(i)) : fetched_.end();
            if (updated != fetched_.end() && !updated->second.empty())
                state.stage.follow(updated->second);
            gathered.clear();
            if (sharded && i + 1 < units.size())
                gathered = state.data.gather(unit(i + 1).gathered(), phase, state.stage.last());
            const TaskId first = next_task();
            write_unit(state, unit(i), slot.pass);
            if (makes_gradients) state.data.add_gradients(unit(i).weights.trained, last);
            mark(first, unit(i));
        }
        if (last) state.data.flush();
    }

    void write_unit(StageState& state, const Unit& unit, Pass pass) {
        const PassPlans& plans = *unit.plans;
        const bool system = unit.system_layer >= 0;
        if (pass == Pass::weight_backward)
            return stamp(state, plans.weight_backward, Phase::backward);
        if (pass == Pass::forward) {
            stamp(state, plans.forward, Phase::forward);
            if (!system) return;
            add_system_experts(graph_, state.stage, context_, unit.system_layer, Phase::forward);
            return stamp(state, plans_.after_experts.forward, Phase::forward);
        }
        if (unit.recomputed) stamp(state, plans.recompute, Phase::backward);
        if (system) {
            stamp(state, plans_.after_experts.backward, Phase::backward);
            add_system_experts(graph_, state.stage, context_, unit.system_layer, Phase::backward);
        }
        stamp(state, pass == Pass::backward ? plans.backward : plans.input_backward,
              Phase::backward);
    }

    const Experiment& e_;
    const Parallelism& p_;
    TaskGraph graph_;
    LayerContext context_;
    LayerPlans plans_;
    std::vector<Path> paths_;
    Stages stages_;
    Hops hops_;
    std::map<const Unit*, TasksByRank> fetched_;
    WrittenSlots written_;
    std::map<const Plan*, std::vector<Plan>> parts_;
};

}  // namespace

bool can_fold(const Experiment& e, const Routing& routing) {
    if (!routing.counts.empty()) return false;
    if (!e.cluster.gpu.rank_rates.empty() && ranks_of_stage(e.parallelism) > 1) return false;
    const RankGroups g = rank_groups(e.parallelism);
    return std::ranges::all_of(
        std::initializer_list<Group>{g.tensor, g.context, g.data, g.data_context, g.expert,
                                     g.expert_data, g.shard, g.shard_replicas, g.expert_shard,
                                     g.expert_shard_replicas, g.pipeline_neighbour},
        [&](const Group& group) { return lies_alike(group, e.cluster.gpus_per_node); });
}

WrittenSlots written_slots(const Experiment& e, const Routing& routing, Folding folding) {
    StepWriter writer(e, routing, folding == Folding::automatic && can_fold(e, routing));
    (void)writer.write();
    return writer.slots();
}

TaskGraph build_transformer_step(const Experiment& e, const Routing& routing, Folding folding) {
    return StepWriter(e, routing, folding == Folding::automatic && can_fold(e, routing)).write();
}

}  // namespace stepcast
