#include "model/transformer/hops.h"

namespace stepcast {

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
    TasksByRank sent = write(state, *stages_[static_cast<std::size_t>(target)], at);
    if (!p_.overlap_p2p) state.stage.follow(sent);
    arrived_[arrival] = std::move(sent);
}

TasksByRank Hops::write(StageState& from, StageState& to, const At& at) {
    const bool up = at.back == (at.direction == 1);
    const Lane out = up ? Lane::send_up : Lane::send_down, in = up ? Lane::receive_up : Lane::receive_down;
    const GroupId group = graph_.add_group(between_stages(context_, from.index, to.index));
    const OpId op = send_op(at.back);
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
    return state.stage.exchange(graph_.name_id("gather_activations"), at.back ? Phase::backward : Phase::forward,
                                gather_op_, graph_.add_group(context_.groups.tensor), Lane::collective, parts);
}

OpId Hops::send_op(bool back) {
    OpId& known = back ? backward_op_ : forward_op_;
    const Bytes bytes = context_.shape.outer() / (scatters() ? static_cast<double>(p_.tp) : 1.0);
    if (known == 0) known = graph_.add_op(SendRecv{bytes, p_.messages_per_tensor});
    return known;
}

}  // namespace stepcast
