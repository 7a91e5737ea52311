#include "model/transformer/step.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "model/pipeline/schedule.h"
#include "model/transformer/counts.h"
#include "model/transformer/data_parallel.h"
#include "model/transformer/layer_plans.h"
#include "model/transformer/pieces.h"

namespace stepcast {
namespace {

int ranks_of_stage(const Parallelism& p) { return p.tp * p.cp * p.dp; }

// Of the stage, ascending.
std::vector<int> real_ranks(const Parallelism& p, int stage) {
    std::vector<int> ranks;
    for (int dp = 0; dp < p.dp; ++dp)
        for (int cp = 0; cp < p.cp; ++cp)
            for (int tp = 0; tp < p.tp; ++tp) ranks.push_back(rank_of(p, tp, cp, dp, stage));
    std::ranges::sort(ranks);
    return ranks;
}

// The expert-parallel rank of each of them: its position in its group, the lowest rank without one beginning the next.
std::vector<int> expert_indices(const Group& expert, const std::vector<int>& ranks) {
    std::vector<int> indices(ranks.size(), -1);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        if (indices[r] >= 0) continue;
        const std::vector<int> group = members(expert, ranks[r]);
        for (std::size_t i = 0; i < group.size(); ++i)
            indices[static_cast<std::size_t>(std::ranges::lower_bound(ranks, group[i]) - ranks.begin())] =
                static_cast<int>(i);
    }
    return indices;
}

// A unit of a piece: an end of the model or a layer.
struct Unit {
    const PassPlans* plans;
    RankWeights weights;
    bool recomputed = false;
};

struct StageState {
    Stage stage;
    DataParallel data;
    std::vector<std::vector<Unit>> pieces;  // by the stage's piece index, in forward order
    std::vector<int> backwards_left;        // by piece: slots until its gradients are complete
    TasksByRank before_last;                // what was last when the unit before began
    std::size_t next = 0;                   // slot of its order
    StageState(TaskGraph& graph, const LayerContext& context, Stage s)
        : stage(std::move(s)), data(graph, context, stage) {}
};

// A micro-batch at a position of its path, on its way forward or back.
struct At {
    int micro_batch, direction, position;
    bool back;
    friend auto operator<=>(const At&, const At&) = default;
};

class StepWriter {
public:
    StepWriter(const Experiment& e, const Routing& routing, bool folded)
        : e_(e),
          p_(e.parallelism),
          graph_(folded ? p_.pp : p_.pp * ranks_of_stage(p_), e.cluster.launch_blocking),
          context_{e, rank_shape(e), rank_groups(p_), routing},
          plans_(layer_plans(graph_, context_)),
          folded_(folded) {
        for (int d = 0; d < directions(p_); ++d) paths_.push_back(pieces_of(e.workload, p_, d));
        for (int s = 0; s < p_.pp; ++s) add_stage(s);
        if (folded) graph_.set_multiplicity(std::vector<int>(static_cast<std::size_t>(p_.pp), ranks_of_stage(p_)));
    }

    TaskGraph write() {
        fetch_updated_parameters();
        run(schedule_orders(p_.schedule, p_.pp, pieces_per_stage(p_), micro_batches(p_)));
        for (auto& state : stages_) state->data.finish_gradients();
        join_copies();
        join_embeddings();
        if (e_.workload.optimizer != Optimizer::none) update();
        return std::move(graph_);
    }

private:
    void add_stage(int s) {
        const std::vector<int> ranks = folded_ ? std::vector<int>{s} : real_ranks(p_, s);
        std::vector<int> indices(1);
        if (!folded_) indices = expert_indices(context_.groups.expert, ranks);
        stages_.push_back(std::make_unique<StageState>(graph_, context_, Stage(graph_, ranks, std::move(indices))));
        StageState& state = *stages_.back();
        int layers = 0;  // of this stage so far: full recompute may cover only the first of them
        for (const auto& path : paths_) {
            for (const Piece& piece : path) {
                if (piece.stage != s) continue;
                const auto index = static_cast<std::size_t>(piece.index);
                if (state.pieces.size() <= index) state.pieces.resize(index + 1);
                state.pieces[index] = units_of(piece, layers);
                for (const Unit& unit : state.pieces[index]) state.data.count(unit.weights);
            }
        }
        state.backwards_left.assign(state.pieces.size(), 0);
    }

    std::vector<Unit> units_of(const Piece& piece, int& layers) const {
        std::vector<Unit> units;
        if (piece.embedding) units.push_back({&plans_.embedding, embedding_weights(context_)});
        for (int l = piece.first; l < piece.last; ++l, ++layers) {
            const bool recomputed =
                p_.recompute == Recompute::full && (p_.recompute_layers == 0 || layers < p_.recompute_layers);
            units.push_back({has_experts(e_.workload, l) ? &plans_.experts : &plans_.dense, layer_weights(context_, l),
                             recomputed});
        }
        if (piece.head) units.push_back({&plans_.head, head_weights(context_)});
        return units;
    }

    // zero 1, 2: what the optimizer of the step before updated is gathered beside the first forward.
    void fetch_updated_parameters() {
        if (!(p_.zero == 1 || p_.zero == 2) || !p_.overlap_params) return;
        for (auto& state : stages_)
            for (const auto& units : state->pieces)
                for (const Unit& unit : units) fetched_[&unit] = state->data.fetch_updated(unit.weights);
    }

    void run(const std::vector<Order>& orders) {
        for (std::size_t s = 0; s < orders.size(); ++s)
            for (const Slot& slot : orders[s])
                if (slot.pass == Pass::backward || slot.pass == Pass::weight_backward)
                    ++stages_[s]->backwards_left[static_cast<std::size_t>(slot.piece)];
        for (bool moved = true; moved;) {
            moved = false;
            for (std::size_t s = 0; s < orders.size(); ++s)
                while (stages_[s]->next < orders[s].size() && run_slot(s, orders[s][stages_[s]->next])) {
                    ++stages_[s]->next;
                    moved = true;
                }
        }
        for (std::size_t s = 0; s < orders.size(); ++s)
            if (stages_[s]->next < orders[s].size())
                throw std::logic_error("build_transformer_step: the schedule waits for itself on stage " +
                                       std::to_string(s));
    }

    [[nodiscard]] int position_of(std::size_t s, int piece, int direction) const {
        const auto& path = paths_[static_cast<std::size_t>(direction)];
        for (std::size_t i = 0; i < path.size(); ++i)
            if (path[i].stage == static_cast<int>(s) && path[i].index == piece) return static_cast<int>(i);
        throw std::logic_error("build_transformer_step: stage without its piece");
    }

    // False while what the slot needs from another stage is not written yet.
    bool run_slot(std::size_t s, const Slot& slot) {
        const int direction = directions(p_) == 2 ? slot.piece : 0;
        const At at{slot.micro_batch, direction, position_of(s, slot.piece, direction), slot.pass != Pass::forward};
        StageState& state = *stages_[s];
        const int end = static_cast<int>(paths_[static_cast<std::size_t>(direction)].size()) - 1;
        const auto& units = state.pieces[static_cast<std::size_t>(slot.piece)];
        if (slot.pass == Pass::forward) {
            if (at.position > 0 && !take_arrived(state, at)) return false;
            forward(state, units, slot.micro_batch == 0 || directions(p_) == 2);
            if (at.position < end) send(state, at, +1);
        } else if (slot.pass == Pass::weight_backward) {
            const bool last = --state.backwards_left[static_cast<std::size_t>(slot.piece)] == 0;
            for (std::size_t i = units.size(); i-- > 0;) {
                stamp(state, units[i].plans->weight_backward, Phase::backward);
                state.data.add_gradients(units[i].weights, last);
            }
            if (last) state.data.flush();
        } else {
            if (at.position < end && !take_arrived(state, at)) return false;
            backward(state, units, slot);
            if (at.position > 0) send(state, at, -1);
        }
        return true;
    }

    void stamp(StageState& state, const Plan& plan, Phase phase) {
        TasksByRank before = state.stage.last();
        state.stage.stamp(plan, phase);
        state.before_last = std::move(before);
    }

    void forward(StageState& state, const std::vector<Unit>& units, bool first_micro_batch) {
        const bool sharded = p_.zero == 3;
        TasksByRank gathered;
        if (sharded) gathered = state.data.gather(units.front().weights, Phase::forward, state.before_last);
        for (std::size_t i = 0; i < units.size(); ++i) {
            if (!gathered.empty()) state.stage.follow(gathered);
            if (first_micro_batch)
                if (const auto found = fetched_.find(&units[i]); found != fetched_.end() && !found->second.empty())
                    state.stage.follow(found->second);
            gathered.clear();
            if (sharded && i + 1 < units.size())
                gathered = state.data.gather(units[i + 1].weights, Phase::forward, state.stage.last());
            stamp(state, units[i].plans->forward, Phase::forward);
        }
    }

    void backward(StageState& state, const std::vector<Unit>& units, const Slot& slot) {
        const bool sharded = p_.zero == 3, whole = slot.pass == Pass::backward;
        const bool last = whole && --state.backwards_left[static_cast<std::size_t>(slot.piece)] == 0;
        TasksByRank gathered;
        if (sharded) gathered = state.data.gather(units.back().weights, Phase::backward, state.before_last);
        for (std::size_t i = units.size(); i-- > 0;) {
            if (!gathered.empty()) state.stage.follow(gathered);
            gathered.clear();
            if (sharded && i > 0)
                gathered = state.data.gather(units[i - 1].weights, Phase::backward, state.stage.last());
            if (units[i].recomputed) stamp(state, units[i].plans->recompute, Phase::backward);
            stamp(state, whole ? units[i].plans->backward : units[i].plans->input_backward, Phase::backward);
            if (whole) state.data.add_gradients(units[i].weights, last);
        }
        if (last) state.data.flush();
    }

    // A rank and the one with its other coordinates on another stage, wherever the rank order puts stages.
    [[nodiscard]] Group between(int a, int b) const {
        return {.ranks = 2,
                .stride = std::abs(b - a) * context_.groups.pipeline_neighbour.stride,
                .first = rank_of(p_, 0, 0, 0, std::min(a, b))};
    }

    // The activations (or their gradients) go to the next piece of the path, forward (+1) or back.
    void send(StageState& state, const At& at, int step) {
        const auto& path = paths_[static_cast<std::size_t>(at.direction)];
        const Piece& from = path[static_cast<std::size_t>(at.position)];
        const Piece& to = path[static_cast<std::size_t>(at.position + step)];
        const At arrival{at.micro_batch, at.direction, at.position + step, at.back};
        if (from.stage == to.stage) {
            arrived_[arrival] = {};
            return;
        }
        const bool up = (step > 0) == (at.direction == 0);
        const Lane out = up ? Lane::send_up : Lane::send_down, in = up ? Lane::receive_up : Lane::receive_down;
        const GroupId group = graph_.add_group(between(from.stage, to.stage));
        const OpId op = send_op(step);
        StageState& target = *stages_[static_cast<std::size_t>(to.stage)];
        TasksByRank sent;
        for (std::size_t r = 0; r < state.stage.size(); ++r) {
            const Place places[2] = {{state.stage.graph_rank(r), out}, {target.stage.graph_rank(r), in}};
            const TaskId after = state.stage.last()[r];
            sent.push_back(graph_.add(step > 0 ? send_forward_ : send_backward_,
                                      step > 0 ? Phase::forward : Phase::backward, op, places, {&after, 1}, 1, group));
        }
        if (!p_.overlap_p2p) state.stage.follow(sent);
        arrived_[arrival] = std::move(sent);
    }

    // Tensor-parallel ranks hold the same activations: each sends its part, the receivers gather (arXiv 2104.04473, 4.1).
    [[nodiscard]] bool scatters() const { return p_.scatter_p2p && !p_.sequence_parallel && p_.tp > 1; }

    TasksByRank gathered(StageState& state, const At& at, const TasksByRank& parts) {
        if (gather_op_ == 0) gather_op_ = graph_.add_op(AllGather{context_.shape.outer()});
        return state.stage.exchange(graph_.name_id("gather_activations"), at.back ? Phase::backward : Phase::forward,
                                    gather_op_, graph_.add_group(context_.groups.tensor), Lane::collective, parts);
    }

    OpId send_op(int step) {
        auto& known = step > 0 ? send_forward_op_ : send_backward_op_;
        const Bytes bytes = context_.shape.outer() / (scatters() ? static_cast<double>(p_.tp) : 1.0);
        if (known == 0) known = graph_.add_op(SendRecv{bytes, p_.messages_per_tensor});
        return known;
    }

    bool take_arrived(StageState& state, const At& at) {
        const auto found = arrived_.find(at);
        if (found == arrived_.end()) return false;
        if (!found->second.empty()) state.stage.follow(scatters() ? gathered(state, at, found->second) : found->second);
        arrived_.erase(found);
        return true;
    }

    // dualpipe: the two copies of a layer live on mirrored stages; their gradients are summed.
    void join_copies() {
        for (int s = 0; directions(p_) == 2 && s < p_.pp / 2; ++s) {
            const int mirror = p_.pp - 1 - s;
            const RankWeights& weights = stages_[static_cast<std::size_t>(s)]->data.total();
            across({static_cast<std::size_t>(s), static_cast<std::size_t>(mirror)}, "copy_all_reduce",
                   (weights.dense + weights.experts) * size_of(p_.gradient_dtype), between(s, mirror),
                   Phase::gradient_sync);
        }
    }

    // Tied embeddings live on the first and the last stage: their gradients are summed.
    void join_embeddings() {
        if (!e_.workload.tied || p_.pp == 1) return;
        const int first = paths_[0].front().stage, last = paths_[0].back().stage;
        if (first == last) return;
        const Bytes bytes = static_cast<double>(context_.shape.vocab) * static_cast<double>(context_.shape.hidden) *
                            size_of(p_.gradient_dtype);
        across({static_cast<std::size_t>(first), static_cast<std::size_t>(last)}, "embedding_all_reduce", bytes,
               context_.groups.embedding, Phase::gradient_sync);
    }

    // One all-reduce for each rank of the stages, or (group of everybody) one over all of them.
    void across(const std::vector<std::size_t>& stages, std::string_view name, Bytes bytes, const Group& group,
                Phase phase) {
        const NameId id = graph_.name_id(name);
        const OpId op = graph_.add_op(AllReduce{bytes});
        const GroupId group_id = graph_.add_group(group);
        const std::size_t ranks = stages_.front()->stage.size();
        const bool everybody = group.size() == p_.pp * ranks_of_stage(p_);
        std::vector<TasksByRank> done(stages.size(), TasksByRank(ranks, no_task));
        for (std::size_t r = 0; r < ranks; r += everybody ? ranks : 1) {
            std::vector<Place> places;
            std::vector<TaskId> after;
            for (const std::size_t s : stages)
                for (std::size_t i = r; i < (everybody ? ranks : r + 1); ++i) {
                    places.emplace_back(stages_[s]->stage.graph_rank(i), Lane::collective);
                    if (const TaskId last = stages_[s]->stage.last()[i]; last != no_task) after.push_back(last);
                }
            const TaskId task = graph_.add(id, phase, op, places, after, 1, group_id);
            for (auto& tasks : done)
                for (std::size_t i = r; i < (everybody ? ranks : r + 1); ++i) tasks[i] = task;
        }
        for (std::size_t i = 0; i < stages.size(); ++i) stages_[stages[i]]->stage.follow(done[i]);
    }

    void update() {
        const int everybody = p_.pp * ranks_of_stage(p_);
        for (auto& state : stages_) state->data.add_norm();
        std::vector<std::size_t> all;
        for (std::size_t s = 0; s < stages_.size(); ++s) all.push_back(s);
        if (everybody > 1) across(all, "norm_all_reduce", Bytes(8), Group{everybody, 1}, Phase::optimizer);
        for (auto& state : stages_) state->data.add_optimizer();
    }

    const Experiment& e_;
    const Parallelism& p_;
    TaskGraph graph_;
    LayerContext context_;
    LayerPlans plans_;
    bool folded_;
    std::vector<std::vector<Piece>> paths_;
    std::vector<std::unique_ptr<StageState>> stages_;
    std::map<const Unit*, TasksByRank> fetched_;
    std::map<At, TasksByRank> arrived_;
    NameId send_forward_ = graph_.name_id("send_activations"), send_backward_ = graph_.name_id("send_gradients");
    OpId send_forward_op_ = 0, send_backward_op_ = 0, gather_op_ = 0;
};

}  // namespace

bool can_fold(const Experiment& e, const Routing& routing) {
    if (!routing.counts.empty()) return false;
    const RankGroups g = rank_groups(e.parallelism);
    return std::ranges::all_of(
        std::initializer_list<Group>{g.tensor, g.context, g.data, g.data_context, g.expert, g.expert_data, g.shard,
                                     g.shard_replicas, g.pipeline_neighbour},
        [&](const Group& group) { return lies_alike(group, e.cluster.gpus_per_node); });
}

TaskGraph build_transformer_step(const Experiment& e, const Routing& routing, Folding folding) {
    return StepWriter(e, routing, folding == Folding::automatic && can_fold(e, routing)).write();
}

}  // namespace stepcast
