// When the slots of each group of stages end, and what data parallelism and the update add.
#include <algorithm>
#include <limits>

#include "model/transformer/counts.h"
#include "model/transformer/stages.h"
#include "sim/bounds/bounds.h"

namespace stepcast {

namespace {

// The time of the features [first, last) of a path, in seconds. Four independent sums can be
// vectorized.
template <std::size_t first, std::size_t last>
double time_of(const Features& meets, const Features& times) {
    std::array<double, 4> sums{};
    for (std::size_t i = first; i < last; i += 4)
        for (std::size_t j = 0; j < 4; ++j) sums[j] += meets[i + j] * times[i + j];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}
double settled(const Features& meets, const Features& times) {
    return time_of<feature::settled, feature::count>(meets, times);
}
double changing(const Features& meets, const Features& times) {
    return time_of<0, feature::settled>(meets, times);
}

// The latest end of the first `count` paths.
template <class Path>
double latest(const std::vector<Path>& paths, std::size_t count, const Features& times) {
    double end = 0;
    for (std::size_t i = 0; i < count; ++i)
        end = std::max(end, paths[i].estimate + changing(paths[i].meets, times));
    return end;
}

}  // namespace

// With uneven experts, ranks wait for each other, and nothing is added to the lower bound.
void StepBounds::bind_slots() {
    const Parallelism& p = now_.parallelism;
    const double all = base_.cluster.interference.compute_slowdown, slowdown = all * (1 - sending_);
    for (GroupEnd& end : ends_) {
        for (RunPath& path : end.paths) {
            path.lower = settled(path.meets, lower_);
            path.estimate = settled(path.meets, estimate_);
        }
        end.slots = latest(end.paths, end.group->paths.size(), estimate_);
        end.slowdown = slowdown_of(estimate_, shape_->computing, end.group->most, slowdown);
    }
    least_collectives_.reset();
    if (!shape_->routing.counts.empty() || p.dp * p.cp == 1) return;
    const double send = std::max(
        {lower_[feature::send_near], lower_[feature::send_far], lower_[feature::send_wrap]});
    const bool some = recomputes_layers(p) && p.recompute_layers > 0;
    least_collectives_.emplace(LeastInputs{lower_, alone_, p.schedule, some, pipeline_->model,
                                           pipeline_->shortest_chunk,
                                           send + lower_[feature::arrival], all});
}

// dualpipe: a stage and its mirror stage sum the gradients of the copies of the model that they
// hold.
double StepBounds::copy_join(int stage, const DataTimes& data) {
    const Parallelism& p = now_.parallelism;
    if (stepcast::directions(p) == 1) return 0;
    return all_reduce(data.elements * size_of(gradient_type(now_)),
                      between_stages(*context_, stage, p.pp - 1 - stage));
}

void StepBounds::bind_data() {
    const DataInputs in{*context_, units_.weights, key_.chunks};
    for (GroupEnd& end : ends_) {
        const StageGroup& group = *end.group;
        end.most = data_.times(in, group.most);
        end.least = group.fewest == group.most ? end.most : data_.times(in, group.fewest);
        end.least_join = copy_join(group.first_stage, end.least);
        end.join = copy_join(group.first_stage, end.most);
    }
}

// The longest paths, with the least delay by collectives.
void StepBounds::bind_least() {
    const Features times =
        least_collectives_ ? least_collectives_->features(plan_of(now_), ends_[0].least) : lower_;
    least_parameters_ = std::numeric_limits<double>::infinity();
    for (GroupEnd& end : ends_) {
        end.lower_by_host = end.lower_by_slots = 0;
        for (std::size_t i = 0; i < end.group->paths.size(); ++i) {
            const RunPath& path = end.paths[i];
            double& longest = path.by_host ? end.lower_by_host : end.lower_by_slots;
            longest = std::max(longest, path.lower + changing(path.meets, times));
        }
        least_parameters_ = std::min(least_parameters_, end.least.parameters);
    }
}

void StepBounds::bind_ends() {
    const ParallelPlan plan = plan_of(now_);
    const Parallelism& p = plan.parallelism;
    const bool awaits =
        p.zero == 3 || ((p.zero == 1 || p.zero == 2) && now_.runtime.exchanges.parameters);
    const double start = least_collectives_ && awaits
                             ? least_collectives_->start(p, ends_[0].least, least_parameters_)
                             : 0;
    const double n = micro_batches(p) / static_cast<double>(stepcast::directions(p));
    for (GroupEnd& end : ends_) {
        const StageGroup& group = *end.group;
        const double exchanged =
            overlaps_gradients(now_) ? end.least.least_last : end.least.least_waited;
        const double slots = end.lower_by_slots > 0
                                 ? std::max(end.lower_by_host, end.lower_by_slots + start)
                                 : end.lower_by_host;
        end.lower = std::max(slots + std::max(exchanged, end.least_join), end.least.least_lane);
        const auto finish = [&](const Features& times, double last_slot) {
            const Tail tail =
                tail_of({plan, times, group, end.most, key_.chunks, n, end.slowdown}, last_slot);
            end.estimate = last_slot + tail.delay + std::max(tail.exposed, end.join);
        };
        if (p.zero < 3) {
            finish(estimate_, end.slots);
            continue;
        }
        const Features times =
            with_sharding(estimate_, shape_->computing, plan, end.most, group.most,
                          base_.cluster.interference.compute_slowdown * (1 - sending_));
        finish(times, latest(end.paths, end.paths.size(), times));
    }
}

// Tied embeddings are summed when the slots of both ends are done. Then all stages compute the
// norm, and then all update.
void StepBounds::time(StepBound& bound) const {
    const Parallelism& p = now_.parallelism;
    const bool gathers = (p.zero == 1 || p.zero == 2) && !now_.runtime.exchanges.parameters;
    const auto has_ends = [](const GroupEnd& end) { return all_ends(end.group->most) > 0; };
    double joined = 0;
    for (const GroupEnd& end : ends_)
        if (embedding_all_reduce_ > 0 && has_ends(end))
            joined = std::max(joined, end.slots + embedding_all_reduce_);
    double lower = 0, estimate = 0, lower_update = 0, update = 0;
    for (const GroupEnd& end : ends_) {
        const double with_join = has_ends(end) ? std::max(end.estimate, joined) : end.estimate;
        lower = std::max(lower, end.lower + end.least.norm);
        estimate = std::max(estimate, with_join + end.most.norm);
        lower_update =
            std::max(lower_update, end.least.update + (gathers ? end.least.parameters_joined : 0));
        update = std::max(update, end.most.update + (gathers ? end.most.parameters_joined : 0));
    }
    bound.lower = Seconds(lower + norm_all_reduce_ + lower_update);
    bound.estimate = std::max(Seconds(estimate + norm_all_reduce_ + update), bound.lower);
}

}  // namespace stepcast
