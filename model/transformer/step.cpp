#include "model/transformer/step.h"

#include <algorithm>
#include <map>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/transformer/hops.h"
#include "model/transformer/joins.h"
#include "model/transformer/layer_memory.h"
#include "model/transformer/rank_shape.h"
#include "model/transformer/schedule.h"
#include "model/transformer/stages.h"
#include "model/transformer/walk.h"

namespace stepcast {
namespace {

class StepWriter {
public:
    StepWriter(const Experiment& e, const Routing& routing, StageRanks written)
        : e_(e),
          p_(e.parallelism),
          graph_(p_.pp * count_of(p_, written), e.cluster.launch_blocking),
          context_{e, rank_shape(e), rank_groups(e), routing},
          plans_(layer_plans(graph_, context_)),
          reference_(reference_plans(graph_, context_)),
          flow_(e.workload, p_),
          stages_(make_stages(graph_, context_, plans_, flow_, written)),
          hops_(graph_, context_, stages_, flow_) {
        graph_.set_multiplicity(std::vector<int>(as_index(graph_.rank_count()),
                                                 ranks_of_stage(p_) / count_of(p_, written)));
    }

    TaskGraph write() {
        fetch_updated_parameters();
        run(schedule_orders(p_));
        for (auto& state : stages_) state->data.finish_gradients();
        join_copies(graph_, context_, stages_);
        join_embeddings(graph_, context_, stages_, flow_.paths().front());
        if (e_.workload.optimizer != Optimizer::none) update_weights(graph_, context_, stages_);
        return std::move(graph_);
    }

private:
    // zero 1, 2: parameters that the previous step's optimizer updated are gathered during the
    // first forward.
    void fetch_updated_parameters() {
        if (!(p_.zero == 1 || p_.zero == 2) || !context_.experiment.runtime.exchanges.parameters)
            return;
        for (auto& state : stages_)
            for (const auto& units : state->chunks)
                for (const Unit& unit : units)
                    fetched_[&unit] = state->data.gather(unit.weights.trained, Phase::forward, {});
    }

    void run(const std::vector<Order>& orders) {
        for (const std::size_t s : indices_of(orders))
            for (const Slot& slot : orders[s])
                if (slot.pass == Pass::backward || slot.pass == Pass::weight_backward)
                    ++stages_[s]->backwards_left[as_index(slot.chunk)];
        if (p_.zero == 3)
            for (auto& state : stages_) state->gathers.emplace(p_.pp, state->chunks.size());
        walk_schedule(
            orders,
            [&](std::size_t s, std::size_t position) -> std::size_t {
                if (hops_.holds(*stages_[s])) return 0;
                const Slot* slot = &orders[s][position];
                if (!slot->paired) return run_slot(*stages_[s], *slot, position) ? 1 : 0;
                return run_pair(*stages_[s], slot[0], slot[1], position) ? 2 : 0;
            },
            [&](const std::vector<std::size_t>& positions) {
                return hops_.meet(orders, positions);
            });
    }

    [[nodiscard]] static TaskLabel label_of(const StageState& state, const Slot& slot,
                                            std::size_t position) {
        return {.stage = state.index,
                .slot = as_int(position),
                .micro_batch = slot.micro_batch,
                .pass = slot.pass};
    }

    // Returns false if the slot needs something from another stage that has not been written yet.
    bool run_slot(StageState& state, const Slot& slot, std::size_t position) {
        const At at = flow_.at(as_index(state.index), slot);
        label_ = label_of(state, slot, position);
        graph_.set_label(label_);
        const bool arrived = !flow_.source(slot, at) || hops_.take_arrived(state, at);
        if (arrived) {
            write_units(state, slot);
            for (int i = 0; slot.pass == Pass::forward && i < forwards_of_reference(); ++i)
                write_reference(state, state.chunks[as_index(slot.chunk)]);
            if (const auto target = flow_.target(slot, at)) hops_.send(state, at, *target);
        }
        graph_.set_label({});
        return arrived;
    }

    // One of two passes that alternate: its units in execution order, each in parts that end with
    // an all-to-all.
    struct Turns {
        TaskLabel label;
        Phase phase;
        std::vector<const Unit*> units;
        bool last = false;  // makes the last gradients of its chunk
        std::size_t unit = 0, part = 0;
        [[nodiscard]] bool done() const { return unit == units.size(); }
        [[nodiscard]] bool at_end_of_model() const { return !done() && units[unit]->layer < 0; }
    };

    void write_part(StageState& state, Turns& turns) {
        const Unit& unit = *turns.units[turns.unit];
        const bool back = turns.phase == Phase::backward;
        const Plan& plan = back ? unit.plans->backward : unit.plans->forward;
        const auto [known, fresh] = parts_.try_emplace(&plan);
        if (fresh) known->second = parts_at_exchanges(plan, graph_);
        label_ = turns.label;
        mark(unit.layer);
        stamp(state, known->second[turns.part], turns.phase);
        mark(-1);
        ++turns.label.turn;
        if (++turns.part < known->second.size()) return;
        if (back) state.data.add_gradients(unit.weights.trained, turns.last);
        turns.part = 0;
        ++turns.unit;
    }

    // `other`: the chain of the pass that is waiting for its turn.
    void write_in_turns(StageState& state, Turns& forward, Turns& backward, Stage::Chain& other) {
        if (backward.at_end_of_model()) write_part(state, backward);
        while (!backward.done() || !forward.done()) {
            if (!backward.done()) write_part(state, backward);
            state.stage.swap_chain(other);
            if (forward.unit == 0 && forward.at_end_of_model()) write_part(state, forward);
            if (!forward.done()) write_part(state, forward);
            state.stage.swap_chain(other);
        }
    }

    // Megatron-Core's combined pass (model_chunk_schedule_plan.py): first the backward's logits and
    // the forward's embedding, then one layer of each in turn. The backward's combine overlaps the
    // forward's attention, the forward's dispatch the experts' backward, the backward's dispatch
    // the forward's experts, and the forward's combine the attention's backward.
    bool run_pair(StageState& state, const Slot& forward_slot, const Slot& backward_slot,
                  std::size_t position) {
        const auto stage = as_index(state.index);
        const At ahead = flow_.at(stage, forward_slot), back = flow_.at(stage, backward_slot);
        const bool takes = flow_.source(forward_slot, ahead).has_value(),
                   takes_back = flow_.source(backward_slot, back).has_value();
        if ((takes && !hops_.has_arrived(ahead)) || (takes_back && !hops_.has_arrived(back)))
            return false;
        Turns forward{label_of(state, forward_slot, position), Phase::forward, {}},
            backward{label_of(state, backward_slot, position + 1), Phase::backward, {}};
        for (const Unit& unit : state.chunks[as_index(forward_slot.chunk)])
            forward.units.push_back(&unit);
        for (const Unit& unit : state.chunks[as_index(backward_slot.chunk)])
            backward.units.insert(backward.units.begin(), &unit);
        backward.last = --state.backwards_left[as_index(backward_slot.chunk)] == 0;
        Stage::Chain other = state.stage.chain();  // chain of the pass that is waiting for its turn
        graph_.set_label(forward.label);
        if (takes) hops_.take_arrived(state, ahead);
        state.stage.swap_chain(other);
        graph_.set_label(backward.label);
        if (takes_back) hops_.take_arrived(state, back);
        write_in_turns(state, forward, backward, other);
        graph_.set_label(backward.label);
        if (backward.last) state.data.flush();
        if (const auto target = flow_.target(backward_slot, back)) hops_.send(state, back, *target);
        state.stage.swap_chain(other);
        graph_.set_label(forward.label);
        if (const auto target = flow_.target(forward_slot, ahead))
            hops_.send(state, ahead, *target);
        state.stage.join(std::move(other));
        graph_.set_label({});
        return true;
    }

    void stamp(StageState& state, const Plan& plan, Phase phase) {
        state.before_last = state.stage.last();
        state.stage.stamp(plan, phase);
    }

    // The tasks that follow are of this layer (-1: of none) in the slot that is being written.
    void mark(int layer) {
        label_.layer = layer;
        graph_.set_label(label_);
    }

    // A unit's first forward waits for its weights that the step before has updated.
    void follow_update(StageState& state, const Unit& unit) {
        const auto updated = value_in(fetched_, &unit);
        if (updated) follow(state, *updated);
    }

    // Writes the pass of a slot, unit by unit. Under zero 3 the next unit's weights are gathered
    // while one runs.
    void write_units(StageState& state, const Slot& slot) {
        const std::vector<Unit>& units = state.chunks[as_index(slot.chunk)];
        const bool ahead = slot.pass == Pass::forward,
                   makes_gradients = makes_weight_gradients(slot.pass),
                   sharded = state.gathers && state.gathers->next(slot),
                   first_forward = is_first_forward(slot);
        const bool last = makes_gradients && --state.backwards_left[as_index(slot.chunk)] == 0;
        const Phase phase = ahead ? Phase::forward : Phase::backward;
        const auto unit = [&](std::size_t i) -> const Unit& {
            return units[ahead ? i : units.size() - 1 - i];
        };
        TasksByRank gathered;
        // of what layers keep, to the host or back; empty where nothing is moved
        std::vector<TasksByRank> copies(moves_beside(slot.pass) ? units.size() : 0);
        if (sharded) gathered = state.data.gather(unit(0).gathered(), phase, state.before_last);
        if (!ahead && !copies.empty())
            copies[0] = move_kept(state, unit(0), phase, state.before_last);
        for (const std::size_t i : indices_of(units)) {
            const Unit* next = i + 1 < units.size() ? &unit(i + 1) : nullptr;
            follow(state, gathered);
            if (ahead)
                follow_kept(state, copies, i);
            else
                fetch_kept(state, copies, i, next);
            if (first_forward) follow_update(state, unit(i));
            gathered.clear();
            if (sharded && next)
                gathered = state.data.gather(next->gathered(), phase, state.stage.last());
            mark(unit(i).layer);
            write_unit(state, unit(i), slot.pass);
            if (ahead && !copies.empty())
                copies[i] = move_kept(state, unit(i), phase, state.stage.last());
            if (makes_gradients) state.data.add_gradients(unit(i).weights.trained, last);
            mark(-1);
        }
        if (last) state.data.flush();
        if (makes_gradients && e_.runtime.loss.read)
            hold(state, "loss_read", HostWork{HostWork::Kind::read, 1}, true, Phase::backward);
    }

    [[nodiscard]] int forwards_of_reference() const {
        return e_.workload.reference == Reference::none ? 0 : e_.workload.reference_forwards;
    }
    static LayerPlans reference_plans(TaskGraph& graph, const LayerContext& context) {
        if (context.experiment.workload.reference == Reference::none) return {};
        LayerContext bare = context;
        bare.shape.adapters = false;
        return layer_plans(graph, bare);
    }
    [[nodiscard]] const Plan& reference_plan(const Unit& unit) const {
        if (unit.layer >= 0) return reference_.of_layer(e_.workload, unit.layer).forward;
        return unit.plans == &plans_.embedding ? reference_.embedding.forward
                                               : reference_.head.forward;
    }
    // A forward that nothing is kept of, behind the one that is trained, as trl 1.16 has it
    // (trainer/dpo_trainer.py: _compute_loss). Zero 3 shares a copy out like the model.
    void write_reference(StageState& state, const std::vector<Unit>& units) {
        TasksByRank gathered;
        if (p_.zero == 3)
            gathered =
                state.data.gather(units.front().gathered(), Phase::forward, state.before_last);
        for (const std::size_t i : indices_of(units)) {
            follow(state, gathered);
            gathered.clear();
            if (p_.zero == 3 && i + 1 < units.size())
                gathered =
                    state.data.gather(units[i + 1].gathered(), Phase::forward, state.stage.last());
            mark(units[i].layer);
            stamp(state, reference_plan(units[i]), Phase::forward);
        }
        mark(-1);
    }

    void hold(StageState& state, std::string_view name, const HostWork& work, bool waits,
              Phase phase) {
        Planner planner(graph_);
        planner.host(name, work, waits);
        state.stage.stamp(planner.take(), phase);
    }
    // What checkpointing keeps before a layer runs without it, and restores before it runs again
    // (torch.utils.checkpoint: hooks on saved tensors, states of generators, of autocast).
    void checkpoint(StageState& state, const Unit& unit, Phase phase) {
        if (unit.recomputed && e_.cluster.host.recompute > Seconds(0))
            hold(state, "checkpoint", HostWork{HostWork::Kind::recompute, 1}, false, phase);
    }

    [[nodiscard]] bool is_first_forward(const Slot& slot) const {
        return slot.pass == Pass::forward && (slot.micro_batch == 0 || directions(p_) == 2);
    }

    // Whether what layers keep crosses beside the pass: where it leaves and is read.
    [[nodiscard]] bool moves_beside(Pass pass) const {
        return e_.run.offload_activations == ActivationOffload::overlapped &&
               pass != Pass::weight_backward;
    }
    // What two layers keep is on the device: one that runs and one that is moved.
    static void follow_kept(StageState& state, const std::vector<TasksByRank>& copies,
                            std::size_t i) {
        if (i > 1 && !copies.empty()) follow(state, copies[i - 2]);
    }
    void fetch_kept(StageState& state, std::vector<TasksByRank>& copies, std::size_t i,
                    const Unit* next) {
        if (copies.empty()) return;
        follow(state, copies[i]);
        if (next) copies[i + 1] = move_kept(state, *next, Phase::backward, state.stage.last());
    }

    static void follow(StageState& state, const TasksByRank& tasks) {
        if (!tasks.empty()) state.stage.follow(tasks);
    }

    // What a layer keeps goes to the host, and comes back before its backward.
    [[nodiscard]] bool moves(const Unit& unit, ActivationOffload how) const {
        return e_.run.offload_activations == how && unit.layer >= 0;
    }
    Bytes kept(const Unit& unit) {
        const auto [found, fresh] = kept_.try_emplace({unit.plans, unit.recomputed});
        if (fresh) {
            const LayerMemory memory = layer_memory(context_, unit.layer);
            found->second = unit.recomputed ? memory.rerun : memory.kept();
        }
        return found->second;
    }
    MemoryPass move(const Unit& unit, Phase phase) {
        const Bytes moved = kept(unit), none(0);
        const bool leaves = phase == Phase::forward;
        return {leaves ? none : moved, leaves ? moved : none, MemoryPass::Access::host_link};
    }
    static std::string_view move_name(Phase phase) {
        return phase == Phase::forward ? "activations_to_host" : "activations_from_host";
    }
    // Beside the passes; empty if there is none.
    TasksByRank move_kept(StageState& state, const Unit& unit, Phase phase,
                          const TasksByRank& after) {
        if (!moves(unit, ActivationOffload::overlapped)) return {};
        return state.stage.collective(graph_.task_of(move_name(phase), phase, move(unit, phase)),
                                      Lane::copy, after);
    }
    // The device has nothing else to do, and the host waits.
    void stop_to_move(StageState& state, const Unit& unit, Phase phase) {
        if (!moves(unit, ActivationOffload::blocking)) return;
        Planner planner(graph_);
        planner.compute(move_name(phase), move(unit, phase));
        planner.host("activations_there", HostWork{HostWork::Kind::read, 0}, true);
        state.stage.stamp(planner.take(), phase);
    }

    void write_unit(StageState& state, const Unit& unit, Pass pass) {
        const PassPlans& plans = *unit.plans;
        const bool system = unit.system_layer >= 0;
        if (pass == Pass::weight_backward)
            return stamp(state, plans.weight_backward, Phase::backward);
        if (pass == Pass::forward) {
            checkpoint(state, unit, Phase::forward);
            stamp(state, plans.forward, Phase::forward);
            stop_to_move(state, unit, Phase::forward);
            if (!system) return;
            add_system_experts(graph_, state.stage, context_, unit.system_layer, Phase::forward);
            return stamp(state, plans_.after_experts.forward, Phase::forward);
        }
        stop_to_move(state, unit, Phase::backward);
        checkpoint(state, unit, Phase::backward);
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
    LayerPlans plans_, reference_;
    DataFlow flow_;
    Stages stages_;
    Hops hops_;
    std::map<const Unit*, TasksByRank> fetched_;
    TaskLabel label_;
    std::map<const Plan*, std::vector<Plan>> parts_;
    std::map<std::pair<const PassPlans*, bool>, Bytes> kept_;  // by layers alike, recomputed or not
};

}  // namespace

StageRanks representatives(const Experiment& e, const Routing& routing) {
    if (!e.cluster.gpu.rank_rates.empty()) return StageRanks::all;
    const RankGroups g = rank_groups(e);
    const bool alike = std::ranges::all_of(
        std::initializer_list<Group>{g.tensor, g.context, g.data, g.data_context, g.expert,
                                     g.expert_data, g.shard, g.shard_replicas, g.expert_shard,
                                     g.expert_shard_replicas, g.pipeline_neighbour},
        [&](const Group& group) { return lies_alike(group, e.cluster.gpus_per_node); });
    if (!alike) return StageRanks::all;
    if (routing.counts.empty()) return StageRanks::one;
    // with jitter of its own no rank does the same as another, and all wait for the slowest
    const bool jitters = e.routing.draws > 1 && e.cluster.noise.op > 0;
    return jitters ? StageRanks::all : StageRanks::expert_group;
}

TaskGraph build_transformer_step(const Experiment& e, const Routing& routing, Folding folding) {
    return StepWriter(e, routing,
                      folding == Folding::automatic ? representatives(e, routing) : StageRanks::all)
        .write();
}

}  // namespace stepcast
