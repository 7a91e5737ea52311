// The estimate of a step: near what the event engine finds, and no bound of it. Only here and in
// tail.cpp may a term be a mean.
#include <algorithm>

#include "model/base/numbers.h"
#include "sim/bounds/bounds.h"

namespace stepcast {
namespace {

// The latest end of the first `count` paths.
template <class Path>
double latest(const std::vector<Path>& paths, std::size_t count, const FeatureTimes& times) {
    double end = 0;
    for (std::size_t i = 0; i < count; ++i)
        end = std::max(end, paths[i].estimate + changing_length(paths[i].meets, times));
    return end;
}

}  // namespace

// The time before each slot whose input was sent. Parts that came early are gathered behind the
// last collective of the slot before, while that slot still computes and sends. Parts that the slot
// waits for are gathered when they arrive. With several chunks a stage computes while it sends: its
// own send overlaps the first kernels of the next slot, unless that slot waits for it, and it
// receives at any moment.
void StepBounds::estimate_entry(double gather, double send) {
    const bool waits = !now_.runtime.exchanges.sends;
    const double s = base_.cluster.interference.compute_slowdown;
    const BoundShape& shape = *shape_;
    const UnitCounts& units = ends_.back().group->most;
    if (all_layers(units) == 0) {
        estimate_[feature::entry] = gather;
        return;
    }
    double slot = 0, kernels = 0, exposed = 0, overlapped_gather = 0, lead = 0, waited = 0;
    for (const UnitKind kind : layer_kinds)
        for (const Pass pass : {Pass::forward, Pass::backward}) {
            const std::size_t f = feature::unit(kind, pass), again = feature::again(kind);
            const bool repeats = pass == Pass::backward && estimate_[again] > 0;
            const double share = 0.5 * units[at(kind)] / all_layers(units),
                         rest = (1 + s) * shape.rest[f];
            const double layers = share * all_layers(units) / key_.chunks;
            slot += layers * (estimate_[f] + (repeats ? estimate_[again] : 0));
            kernels += layers * (shape.computing[f] + (repeats ? shape.computing[again] : 0));
            exposed += share * std::max(0.0, gather - rest - (waits ? send : 0));
            waited += share * std::max(0.0, gather - rest);
            overlapped_gather += share * std::min(gather, rest);
            lead += share * shape.lead[repeats ? again : f];
        }
    estimate_[feature::entry] = exposed + lost_to_overlap(1e9, overlapped_gather, s);
    estimate_[feature::arrival] = gather - exposed;
    if (key_.chunks == 1 || slot == 0 || kernels == 0) return;
    const double inside = std::max(0.0, send - waited), density = kernels / slot;
    const double own =
        waits ? 0
              : std::min(kernels, std::min(inside, lead) + density * std::max(0.0, inside - lead));
    const double cycle = slot + exposed + (waits ? send : 0);
    const double others = std::min(kernels, send * kernels / cycle);
    const double busy = own + others - own * others / kernels;
    sending_ = busy / kernels;
    estimate_[feature::entry] += lost_to_overlap(1e9, busy, s);
}

void StepBounds::estimate_slots() {
    const double slowdown = base_.cluster.interference.compute_slowdown * (1 - sending_);
    for (GroupEnd& group : ends_) {
        group.estimate.slots = latest(group.paths, group.usual_paths, estimate_);
        group.estimate.slowdown =
            slowdown_of(estimate_, {shape_->computing, slowdown}, group.group->most);
    }
}

void StepBounds::estimate_ends() {
    const ParallelPlan plan = plan_of(now_);
    const Parallelism& p = plan.parallelism;
    ParallelPlan ending = plan;
    if (p.zero >= 2 && !shards_each_pass(p)) {  // a pipeline ends as under zero 1
        ending.parallelism.zero = 1;
        ending.exchanges.parameters |= p.zero == 3;
        ending.exchanges.gradients = overlaps_gradients(plan.exchanges, p) ? GradientOverlap::always
                                                                           : GradientOverlap::never;
    }
    const double n = micro_batches(p) / real(stepcast::directions(p));
    const double slowdown = base_.cluster.interference.compute_slowdown * (1 - sending_);
    for (GroupEnd& group : ends_) {
        EstimatedEnd& end = group.estimate;
        const auto finish = [&](const FeatureTimes& times, double slots) {
            const Tail tail = tail_of(
                {ending, times, *group.group, end.data, key_.chunks, n, end.slowdown}, slots);
            end.ready = slots + tail.delay + std::max(tail.exposed, end.join);
        };
        if (p.zero < 3) {
            finish(estimate_, end.slots);
            continue;
        }
        const FeatureTimes times = with_sharding(estimate_, {shape_->computing, slowdown}, plan,
                                                 end.data, group.group->most);
        finish(times, latest(group.paths, group.paths.size(), times));
    }
}

// Tied embeddings are summed when the slots of both ends are done. Then all stages compute the
// norm, and then all update.
double StepBounds::estimated_time() const {
    const auto has_ends = [](const GroupEnd& group) { return all_ends(group.group->most) > 0; };
    double joined = 0;
    for (const GroupEnd& group : ends_)
        if (embedding_all_reduce_ > 0 && has_ends(group))
            joined = std::max(joined, group.estimate.slots + embedding_all_reduce_);
    double ready = 0, update = 0;
    for (const GroupEnd& group : ends_) {
        const EstimatedEnd& end = group.estimate;
        const double with_join = has_ends(group) ? std::max(end.ready, joined) : end.ready;
        ready = std::max(ready, with_join + end.data.norm);
        update =
            std::max(update, end.data.update + (gathers_last() ? end.data.parameters_joined : 0));
    }
    return ready + norm_all_reduce_ + update;
}

}  // namespace stepcast
