// Sends activations and their gradients between stages; what a hop carries says
// model/recorded/opt_prime/messages.h. pipeline.blocking: it is one task that blocks the hosts of
// both ends, written when the receiver has reached it.
#pragma once

#include <algorithm>
#include <map>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/recorded/opt_prime/messages.h"
#include "model/transformer/stages.h"

namespace stepcast {

class Hops {
public:
    Hops(TaskGraph& graph, const LayerContext& context, const Stages& stages, const DataFlow& flow)
        : graph_(graph), context_(context), stages_(stages), flow_(flow) {}

    // Sends from the micro-batch's chunk to the one where it arrives.
    void send(StageState& state, const At& at, const At& arrival) {
        const int target = flow_.stage(arrival);
        if (target == state.index) {
            arrived_[arrival] = {};
            return;
        }
        if (messages().blocking) {
            waiting_.push_back({state.index, target, at, arrival});
            return;
        }
        TasksByRank sent = write(state, *stages_[as_index(target)], at);
        if (!context_.experiment.runtime.exchanges.sends) state.stage.follow(sent);
        arrived_[arrival] = std::move(sent);
    }

    [[nodiscard]] bool has_arrived(const At& at) const { return arrived_.contains(at); }
    // Makes the stage's next task follow the arrival. Returns false if the arrival has not been
    // written yet.
    bool take_arrived(StageState& state, const At& at) {
        const auto found = arrived_.find(at);
        if (found == arrived_.end()) return false;
        if (!found->second.empty())
            state.stage.follow(sends_parts(context_.experiment) ? gathered(state, at, found->second)
                                                                : found->second);
        arrived_.erase(found);
        return true;
    }

    // pipeline.blocking. holds(): whether the stage waits in a send. meet(): writes the sends whose
    // receivers have reached the slot that takes them, and returns whether there were any.
    [[nodiscard]] bool holds(const StageState& state) const {
        return std::ranges::any_of(waiting_,
                                   [&](const Waiting& w) { return w.from == state.index; });
    }
    bool meet(const std::vector<Order>& orders, const std::vector<std::size_t>& positions) {
        const auto met = [&](const Waiting& w) {
            const auto to = as_index(w.to);
            const Slot& next = orders[to][positions[to]];
            if (next.micro_batch != w.arrival.micro_batch ||
                (next.pass != Pass::forward) != w.arrival.back)
                return false;
            arrived_[w.arrival] = write(*stages_[as_index(w.from)], *stages_[to], w.at);
            return true;
        };
        return std::erase_if(waiting_, met) > 0;
    }

private:
    struct Waiting {
        int from, to;
        At at, arrival;
    };

    // A blocking hop overlaps with nothing on either end: it occupies both hosts and follows the
    // earlier work of both devices.
    TasksByRank write(StageState& from, StageState& to, const At& at) {
        const bool up = flow_.goes_up(at), blocking = messages().blocking;
        const Lane out = blocking ? Lane::host : up ? Lane::send_up : Lane::send_down;
        const Lane in = blocking ? Lane::host : up ? Lane::receive_up : Lane::receive_down;
        const GroupId group = graph_.add_group(between_stages(context_, from.index, to.index));
        const NewTask task{at.back ? backward_name_ : forward_name_,
                           at.back ? Phase::backward : Phase::forward, send_op(at),
                           blocking ? 0.0F : 1.0F, group};
        TasksByRank sent;
        for (const std::size_t r : indices_of(from.stage)) {
            const Place places[2] = {{from.stage.graph_rank(r), out}, {to.stage.graph_rank(r), in}};
            const TaskId after[2] = {from.stage.last()[r], to.stage.last()[r]};
            const std::size_t waits = blocking && after[1] != no_task ? 2 : 1;
            sent.push_back(graph_.add(task, places, {after, waits}));
        }
        return sent;
    }

    TasksByRank gathered(StageState& state, const At& at, const TasksByRank& parts) {
        if (gather_op_ == 0) gather_op_ = graph_.add_op(AllGather{context_.shape.outer()});
        const NewTask task{graph_.name_id("gather_activations"),
                           at.back ? Phase::backward : Phase::forward, gather_op_, 1,
                           graph_.add_group(context_.groups.tensor)};
        return state.stage.collective(task, Lane::collective, parts);
    }

    OpId send_op(const At& at) {
        const auto [known, fresh] = ops_.try_emplace(At{0, at.direction, at.position, at.back});
        if (!fresh) return known->second;
        const HopLoad load = hop_load(context_, flow_.path(at), DataFlow::hop(at), at.back);
        return known->second =
                   graph_.add_op(SendRecv{sent_by_rank(context_.experiment, load.bytes),
                                          messages_of(load, messages()), messages().blocking});
    }

    TaskGraph& graph_;
    const LayerContext& context_;
    [[nodiscard]] const StageMessages& messages() const {
        return context_.experiment.runtime.pipeline;
    }
    const Parallelism& p_ = context_.experiment.parallelism;
    const Stages& stages_;
    const DataFlow& flow_;
    std::map<At, TasksByRank> arrived_;
    NameId forward_name_ = graph_.name_id("send_activations"),
           backward_name_ = graph_.name_id("send_gradients");
    std::vector<Waiting> waiting_;
    std::map<At, OpId> ops_;  // by direction, position and forward or back
    OpId gather_op_ = 0;
};

}  // namespace stepcast
