// When the slots of each group of stages end, and what data parallelism and the update add.
#include <algorithm>
#include <limits>

#include "model/transformer/counts.h"
#include "sim/bounds/tables.h"

namespace stepcast {

double StepBounds::Tables::latest(std::size_t first, std::size_t last, const Features& times) const {
    const PathTable::Times changing = paths_->changing(times);
    double end = 0;
    for (std::size_t i = first; i < last; ++i)
        end = std::max(end, settled_[i] + paths_->changing_time(i, rounds_.count, changing));
    return end;
}

// Where experts are uneven, ranks wait for each other, and nothing is added to the lower bound.
void StepBounds::Tables::bind_slots() {
    const Parallelism& p = now_.parallelism;
    for (auto* times : {&lower_settled_, &settled_}) times->resize(paths_->size());
    const PathTable::Times lower = paths_->settled(lower_), estimate = paths_->settled(estimate_);
    for (std::size_t i = 0; i < paths_->size(); ++i) {
        lower_settled_[i] = paths_->settled_time(i, rounds_.count, lower);
        settled_[i] = paths_->settled_time(i, rounds_.count, estimate);
    }
    const double all = base_.cluster.interference.compute_slowdown, slowdown = all * (1 - sending_);
    for (std::size_t g = 0; g < pipeline_->groups.size(); ++g) {
        const StageGroup& group = pipeline_->groups[g];
        ends_[g].slots = latest(paths_->group(g).first, paths_->group(g).first_sharded, estimate_);
        ends_[g].slowdown = slowdown_of(estimate_, shape_->shape.computing, group.most, slowdown);
    }
    least_collectives_.reset();
    if (!shape_->routing.counts.empty() || p.dp * p.cp == 1) return;
    const double send = std::max({lower_[feature::send_near], lower_[feature::send_far], lower_[feature::send_wrap]});
    const bool some = recomputes_layers(p) && p.recompute_layers > 0;
    least_collectives_.emplace(LeastInputs{lower_, alone_, p.schedule, some, pipeline_->model, pipeline_->shortest_chunk,
                                         send + lower_[feature::arrival], all});
}

// dualpipe: a stage and its mirror sum the gradients of the copies that they hold.
double StepBounds::Tables::copy_join(const StageGroup& group, const DataTimes& data) {
    const Parallelism& p = now_.parallelism;
    if (stepcast::directions(p) == 1) return 0;
    const int stage = std::min(group.first_stage, p.pp - 1 - group.first_stage);
    const Group mirrored{.ranks = 2,
                         .stride = (p.pp - 1 - 2 * stage) * groups_.pipeline_neighbour.stride,
                         .first = rank_of(p, 0, 0, 0, stage)};
    return across(data.elements * size_of(p.gradient_dtype), mirrored);
}

void StepBounds::Tables::bind_data() {
    const DataInputs in{*context_, shape_->shape, weights_, key_.chunks};
    for (std::size_t g = 0; g < pipeline_->groups.size(); ++g) {
        const StageGroup& group = pipeline_->groups[g];
        ends_[g].most = data_.times(in, group.most);
        ends_[g].least = group.fewest == group.most ? ends_[g].most : data_.times(in, group.fewest);
        ends_[g].least_join = copy_join(group, ends_[g].least);
        ends_[g].join = copy_join(group, ends_[g].most);
    }
}

// The longest paths with what collectives delay at least.
void StepBounds::Tables::bind_least() {
    const PathTable::Times times =
        paths_->changing(least_collectives_ ? least_collectives_->features(now_.parallelism, ends_[0].least) : lower_);
    least_parameters_ = std::numeric_limits<double>::infinity();
    for (std::size_t g = 0; g < pipeline_->groups.size(); ++g) {
        GroupEnd& end = ends_[g];
        end.lower_by_host = end.lower_by_slots = 0;
        for (std::size_t i = paths_->group(g).first; i < paths_->group(g).first_sharded; ++i) {
            double& longest = paths_->by_host(i) ? end.lower_by_host : end.lower_by_slots;
            longest = std::max(longest, lower_settled_[i] + paths_->changing_time(i, rounds_.count, times));
        }
        least_parameters_ = std::min(least_parameters_, end.least.parameters);
    }
}

void StepBounds::Tables::bind_ends() {
    const Parallelism& p = now_.parallelism;
    const bool awaits = p.zero == 3 || ((p.zero == 1 || p.zero == 2) && p.overlap_params);
    const double start = least_collectives_ && awaits ? least_collectives_->start(p, ends_[0].least, least_parameters_) : 0;
    const double n = micro_batches(p) / static_cast<double>(stepcast::directions(p));
    for (std::size_t g = 0; g < pipeline_->groups.size(); ++g) {
        const StageGroup& group = pipeline_->groups[g];
        GroupEnd& end = ends_[g];
        const double exchanged = p.overlap ? end.least.least_last : end.least.least_waited;
        const double slots =
            end.lower_by_slots > 0 ? std::max(end.lower_by_host, end.lower_by_slots + start) : end.lower_by_host;
        end.lower = std::max(slots + std::max(exchanged, end.least_join), end.least.least_lane);
        const auto finish = [&](const Features& times, double last_slot) {
            const Tail tail = tail_of({p, times, group, end.most, key_.chunks, n, end.slowdown}, last_slot);
            end.estimate = last_slot + tail.delay + std::max(tail.exposed, end.join);
        };
        if (p.zero < 3) {
            finish(estimate_, end.slots);
            continue;
        }
        const Features times = with_sharding(estimate_, shape_->shape.computing, p, end.most, group.most,
                                             base_.cluster.interference.compute_slowdown * (1 - sending_));
        finish(times, latest(paths_->group(g).first, paths_->group(g).last, times));
    }
}

// Tied embeddings are joined when the slots of both ends are done; then all stages norm, and all update.
void StepBounds::Tables::time(StepBound& bound) const {
    const Parallelism& p = now_.parallelism;
    const bool gathers = (p.zero == 1 || p.zero == 2) && !p.overlap_params;
    const auto has_ends = [](const StageGroup& group) { return group.most.embeddings + group.most.heads > 0; };
    double joined = 0;
    for (std::size_t g = 0; g < pipeline_->groups.size(); ++g)
        if (embedding_all_reduce_ > 0 && has_ends(pipeline_->groups[g]))
            joined = std::max(joined, ends_[g].slots + embedding_all_reduce_);
    double lower = 0, estimate = 0, lower_update = 0, update = 0;
    for (std::size_t g = 0; g < pipeline_->groups.size(); ++g) {
        const GroupEnd& end = ends_[g];
        const double with_join = has_ends(pipeline_->groups[g]) ? std::max(end.estimate, joined) : end.estimate;
        lower = std::max(lower, end.lower + end.least.norm);
        estimate = std::max(estimate, with_join + end.most.norm);
        lower_update = std::max(lower_update, end.least.update + (gathers ? end.least.parameters_joined : 0));
        update = std::max(update, end.most.update + (gathers ? end.most.parameters_joined : 0));
    }
    bound.lower = Seconds(lower + norm_all_reduce_ + lower_update);
    bound.estimate = std::max(Seconds(estimate + norm_all_reduce_ + update), bound.lower);
}

}  // namespace stepcast
