// lower <= the event engine, because both follow the same graph:
// - Each path that find_paths() found is a chain of tasks of the graph, in which each waits for
// the one before. Plans of a stage run
//   one after another, a slot waits for the send of the slot that it continues, sends of a lane go
//   one by one, and hosts issue in order. A round that repeats is a part of such a path that
//   returns to its start some micro-batches later, where all stages' orders are the same again.
// - No task is faster than alone and uncontended, in either engine. Times are sums and maxima (a
// rate below one only lengthens them), so
//   nothing ends earlier when something else takes longer.
// - sim/bounds/least.cpp derives what kernels lose during collectives from how much of both a rank
// runs between two moments, and from
//   collectives in flight from a known moment on. Links that collectives share only keep them
//   longer in flight.
// - In a slot of L expert layers whose host waits in each, the host goes on from the first wait,
// and issues all that a layer needs, H seconds, before it waits again. So the slot takes no less
// than (L - 1) H more than one layer takes on the device, D, as well as no less than L D: the wait
// cuts a layer, and what comes before the first wait and after the last is a layer. What plans
// behind a wait lose until they are issued is counted between a recompute and its backward (in
// place of the former, if it is more) and between a forward and the backward behind it.
// - Passes that go by turns: sim/bounds/turns.h.
// - After the slots, the last bucket holds at least the last unit. Norm, update and collectives
// that join stages run one after another,
//   and all collectives of a stage's data lane go one by one.

#include <algorithm>
#include <limits>

#include "sim/bounds/bounds.h"
#include "sim/bounds/chains.h"

namespace stepcast {

bool StepBounds::loses_to_collectives() const {
    const Parallelism& p = now_.parallelism;
    return shape_->routing.counts.empty() && ranks_of_weights(p) > 1 && !p.overlap_experts;
}

void StepBounds::bind_least_collectives() {
    const Parallelism& p = now_.parallelism;
    least_collectives_.reset();
    if (!loses_to_collectives()) return;
    const double send = std::max(
        {lower_[feature::send_near], lower_[feature::send_far], lower_[feature::send_wrap]});
    const bool some = recomputes_layers(p) && p.recompute_layers > 0;
    least_collectives_.emplace(
        LeastInputs{lower_, alone_, p.schedule, some, pipeline_->model, pipeline_->shortest_chunk,
                    send + lower_[feature::arrival], base_.cluster.interference.compute_slowdown});
}

// The longest paths, with the least delay by collectives. What a collective slows down may run
// while the device would have waited for its host, so that stalls do not come on top of it.
void StepBounds::bind_least_paths() {
    const FeatureTimes times =
        least_collectives_ ? least_collectives_->features(plan_of(now_), ends_[0].lower.data)
                           : lower_;
    const auto first = lower_.values.begin() + feature::stalls,
               last = lower_.values.begin() + feature::settled;
    const bool stalls = std::any_of(first, last, [](double time) { return time > 0; });
    least_parameters_ = std::numeric_limits<double>::infinity();
    for (GroupEnd& end : ends_) {
        end.lower.by_host = end.lower.by_slots = end.lower.by_stalls = 0;
        for (std::size_t i = 0; i < end.usual_paths; ++i) {
            const RunPath& path = end.paths[i];
            const double plain = path.lower + changing_length(path.meets, times),
                         stalled = stalls ? path.lower + changing_length(path.meets, lower_) : 0;
            if (path.by_host) {
                end.lower.by_host = std::max({end.lower.by_host, plain, stalled});
                continue;
            }
            end.lower.by_slots = std::max(end.lower.by_slots, plain);
            end.lower.by_stalls = std::max(end.lower.by_stalls, stalled);
        }
        least_parameters_ = std::min(least_parameters_, end.lower.data.parameters);
    }
}

void StepBounds::bind_lower_ends() {
    const Parallelism& p = now_.parallelism;
    const bool awaits =
        p.zero == 3 || ((p.zero == 1 || p.zero == 2) && now_.runtime.exchanges.parameters);
    const DataTimes& data = ends_[0].lower.data;
    double start = 0, first = 0;
    if (least_collectives_ && awaits) {
        start = least_collectives_->start(p, data, least_parameters_);
        first = std::max(0.0, least_collectives_->first(data));
    }
    for (GroupEnd& group : ends_) {
        LowerEnd& end = group.lower;
        double slots = end.by_host;
        if (end.by_slots > 0) slots = std::max(slots, end.by_slots + start);
        if (end.by_stalls > 0) slots = std::max(slots, end.by_stalls + first);
        end.ready = std::max(slots + after_slots(end), end.data.least_lane);
    }
}

double StepBounds::after_slots(const LowerEnd& end) const {
    return std::max(overlaps_gradients(now_) ? end.data.least_last : end.data.least_waited,
                    end.join);
}

// The longest chain ends with the slots of some stage; nobody knows which.
double StepBounds::chained_time() const {
    double lanes = 0, update = 0, after = std::numeric_limits<double>::infinity();
    for (const GroupEnd& group : ends_) {
        const LowerEnd& end = group.lower;
        lanes = std::max(lanes, end.data.least_lane + end.data.norm);
        after = std::min(after, after_slots(end) + end.data.norm);
        update =
            std::max(update, end.data.update + (gathers_last() ? end.data.parameters_joined : 0));
    }
    const double chain = std::max(coarse_.lower.si(), longest_gathering_chain());
    return std::max(chain + after, lanes) + norm_all_reduce_ + update;
}

// Zero 3 in a pipeline: the slots of a stage end no earlier than its gathers, and its kernels lose
// what least.cpp says to those gathers that the plans' own collectives do not overlap.
double StepBounds::longest_gathering_chain() const {
    const Parallelism& p = now_.parallelism;
    if (p.zero < 3 || shards_each_pass(p)) return 0;
    const double slowdown =
        loses_to_collectives() ? base_.cluster.interference.compute_slowdown : 0;
    double longest = 0;
    for (const StageChain& chain : pipeline_->chains) {
        const auto length = [&](const FeatureTimes& times) {
            return length_of(chain, rounds_.count, times, recomputes_layers(p));
        };
        const GatherTimes gathers =
            gather_times(chain, rounds_.count, ends_[0].lower.data.gathered);
        const double all = length(shape_->lower), exchanging = all - length(shape_->alone);
        const double lost = slowdown / (1 + slowdown) * (gathers.inside - exchanging);
        longest = std::max({longest, gathers.all, all + std::max(0.0, lost)});
    }
    return longest;
}

// When the gradients of all stages are ready, all compute the norm, and then all update.
double StepBounds::lower_time() const {
    double ready = 0, update = 0;
    for (const GroupEnd& group : ends_) {
        const LowerEnd& end = group.lower;
        ready = std::max(ready, end.ready + end.data.norm);
        update =
            std::max(update, end.data.update + (gathers_last() ? end.data.parameters_joined : 0));
    }
    return ready + norm_all_reduce_ + update;
}

}  // namespace stepcast
