#include "model/transformer/hops.h"

#include <algorithm>

namespace stepcast {

namespace {

struct Tensors {
    int count = 0;
    Bytes bytes;
};

Tensors tensors_of_cut(const LayerContext& c, const Chunk& chunk) {
    if (chunk.ends_inside) return {3, c.shape.outer() + 2.0 * c.shape.inner(c.shape.ffn)};
    return {1, c.shape.outer()};
}

// Mask [seq, seq], cosine and sine [seq, width of a head]: of all sequences of a micro-batch the same shape.
Tensors shared_tensors(const LayerContext& c) {
    if (c.experiment.parallelism.cut != StageCut::modules) return {};
    const double elements = static_cast<double>(c.shape.seq * c.shape.seq + 2 * c.shape.seq * c.shape.qk_dim);
    return {3, elements * c.shape.element()};
}

}  // namespace

HopLoad hop_load(const LayerContext& c, const Path& path, int position, bool back) {
    const Parallelism& p = c.experiment.parallelism;
    const Tensors cut = tensors_of_cut(c, path[static_cast<std::size_t>(position)]);
    if (back) return {p.gradient_tensors > 0 ? p.gradient_tensors : cut.count, 0, cut.bytes};
    const Tensors first = tensors_of_cut(c, path.front()), shared = shared_tensors(c);
    if (position == 0 || !p.resend_first_stage) return {cut.count + shared.count, 1, cut.bytes + shared.bytes};
    return {cut.count + first.count + shared.count, 2, cut.bytes + first.bytes + shared.bytes};
}

int messages_of(const HopLoad& load, const Parallelism& p) {
    return load.tuples * p.messages_per_tuple + load.tensors * p.messages_per_tensor;
}

Hops::Hops(TaskGraph& graph, const LayerContext& context, const Stages& stages, const std::vector<Path>& paths)
    : graph_(graph),
      context_(context),
      p_(context.experiment.parallelism),
      stages_(stages),
      paths_(paths),
      forward_name_(graph.name_id("send_activations")),
      backward_name_(graph.name_id("send_gradients")) {}

void Hops::send(StageState& state, const At& at) {
    const Path& path = paths_[static_cast<std::size_t>(at.direction)];
    const int step = at.back ? -1 : +1;
    const int target = path[static_cast<std::size_t>(at.position + step)].stage;
    const At arrival{at.micro_batch, at.direction, at.position + step, at.back};
    if (target == state.index) {
        arrived_[arrival] = {};
        return;
    }
    if (p_.blocking_p2p) {
        waiting_.push_back({state.index, target, at, arrival});
        return;
    }
    TasksByRank sent = write(state, *stages_[static_cast<std::size_t>(target)], at);
    if (!p_.overlap_p2p) state.stage.follow(sent);
    arrived_[arrival] = std::move(sent);
}

TasksByRank Hops::write(StageState& from, StageState& to, const At& at) {
    const bool up = at.back == (at.direction == 1);
    const Lane out = up ? Lane::send_up : Lane::send_down, in = up ? Lane::receive_up : Lane::receive_down;
    const GroupId group = graph_.add_group(between_stages(context_, from.index, to.index));
    const OpId op = send_op(at);
    TasksByRank sent;
    for (std::size_t r = 0; r < from.stage.size(); ++r) {
        const Place places[2] = {{from.stage.graph_rank(r), out}, {to.stage.graph_rank(r), in}};
        const TaskId after = from.stage.last()[r];
        sent.push_back(graph_.add(at.back ? backward_name_ : forward_name_, at.back ? Phase::backward : Phase::forward,
                                  op, places, {&after, 1}, 1, group));
    }
    return sent;
}

bool Hops::take_arrived(StageState& state, const At& at) {
    const auto found = arrived_.find(at);
    if (found == arrived_.end()) return false;
    if (!found->second.empty()) state.stage.follow(scatters() ? gathered(state, at, found->second) : found->second);
    arrived_.erase(found);
    return true;
}

// Tensor-parallel ranks hold the same activations: each sends its part, the receivers gather (arXiv 2104.04473, 4.1).
bool Hops::scatters() const { return p_.scatter_p2p && !p_.sequence_parallel && p_.tp > 1; }

TasksByRank Hops::gathered(StageState& state, const At& at, const TasksByRank& parts) {
    if (gather_op_ == 0) gather_op_ = graph_.add_op(AllGather{context_.shape.outer()});
    return state.stage.collective(graph_.name_id("gather_activations"), at.back ? Phase::backward : Phase::forward,
                                gather_op_, graph_.add_group(context_.groups.tensor), Lane::collective, parts);
}

OpId Hops::send_op(const At& at) {
    const auto [known, fresh] = ops_.try_emplace(At{0, at.direction, at.position, at.back});
    if (!fresh) return known->second;
    const int position = at.back ? at.position - 1 : at.position;
    const HopLoad load = hop_load(context_, paths_[static_cast<std::size_t>(at.direction)], position, at.back);
    const Bytes bytes = load.bytes / (scatters() ? static_cast<double>(p_.tp) : 1.0);
    return known->second = graph_.add_op(SendRecv{bytes, messages_of(load, p_), p_.blocking_p2p});
}

bool Hops::holds(const StageState& state) const {
    return std::ranges::any_of(waiting_, [&](const Waiting& w) { return w.from == state.index; });
}

bool Hops::meet(const std::vector<Order>& orders) {
    const auto met = [&](const Waiting& w) {
        StageState& to = *stages_[static_cast<std::size_t>(w.to)];
        const Slot& next = orders[static_cast<std::size_t>(w.to)][to.next];
        if (next.micro_batch != w.arrival.micro_batch || (next.pass != Pass::forward) != w.arrival.back) return false;
        arrived_[w.arrival] = write_blocking(*stages_[static_cast<std::size_t>(w.from)], to, w.at);
        return true;
    };
    return std::erase_if(waiting_, met) > 0;
}

// Nothing overlaps it on either end: it follows what both devices did before.
TasksByRank Hops::write_blocking(StageState& from, StageState& to, const At& at) {
    const GroupId group = graph_.add_group(between_stages(context_, from.index, to.index));
    const OpId op = send_op(at);
    TasksByRank sent;
    for (std::size_t r = 0; r < from.stage.size(); ++r) {
        const Place places[2] = {{from.stage.graph_rank(r), Lane::host}, {to.stage.graph_rank(r), Lane::host}};
        std::vector<TaskId> after{from.stage.last()[r]};
        if (to.stage.last()[r] != no_task) after.push_back(to.stage.last()[r]);
        sent.push_back(graph_.add(at.back ? backward_name_ : forward_name_, at.back ? Phase::backward : Phase::forward,
                                  op, places, after, 0, group));
    }
    return sent;
}

}  // namespace stepcast
