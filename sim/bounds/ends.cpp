// When the slots of each group of stages end, and what data parallelism and the update add.
#include <algorithm>
#include <limits>

#include "model/transformer/counts.h"
#include "sim/bounds/least.h"
#include "sim/bounds/tables.h"

namespace stepcast {

double StepBounds::Tables::latest(const std::vector<PipelinePath>& paths, const Features& times, double start) const {
    double end = 0;
    for (const PipelinePath& path : paths) {
        const double once = dot(path.once, times) + (path.by_host ? 0 : start);
        end = std::max(end, rounds_.count > 0 ? once + rounds_.count * dot(path.round, times) : once);
    }
    return end;
}

void StepBounds::Tables::bind_slots() {
    const double slowdown = base_.cluster.interference.compute_slowdown * (1 - sending_);
    for (std::size_t g = 0; g < pipeline_->groups.size(); ++g) {
        const StageGroup& group = pipeline_->groups[g];
        ends_[g].slots = latest(group.paths, estimate_);
        ends_[g].slowdown = slowdown_of(estimate_, shape_->shape.computing, group.most, slowdown);
    }
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
    const DataInputs in{*context_, shape_->shape, weights_, key_.pieces};
    for (std::size_t g = 0; g < pipeline_->groups.size(); ++g) {
        const StageGroup& group = pipeline_->groups[g];
        ends_[g].most = data_.times(in, group.most);
        ends_[g].least = group.fewest == group.most ? ends_[g].most : data_.times(in, group.fewest);
        ends_[g].least_join = copy_join(group, ends_[g].least);
        ends_[g].join = copy_join(group, ends_[g].most);
    }
}

// What exchanges delay at least. Where experts are uneven, ranks wait for each other, and nothing is added.
void StepBounds::Tables::bind_least() {
    const Parallelism& p = now_.parallelism;
    least_ = lower_;
    least_start_ = 0;
    if (shape_->routing.counts.empty() && (p.dp > 1 || p.cp > 1)) {
        double parameters = std::numeric_limits<double>::infinity();
        for (std::size_t g = 0; g < pipeline_->groups.size(); ++g)
            parameters = std::min(parameters, ends_[g].least.parameters);
        const double send =
            std::max({lower_[feature::send_near], lower_[feature::send_far], lower_[feature::send_wrap]});
        const LeastInputs in{p,
                             lower_,
                             alone_,
                             ends_[0].least,
                             pipeline_->model,
                             pipeline_->shortest_piece,
                             send + lower_[feature::arrival],
                             base_.cluster.interference.compute_slowdown};
        least_ = with_least_exchanges(in);
        if (p.zero == 3 || ((p.zero == 1 || p.zero == 2) && p.overlap_params))
            least_start_ = least_start(in, parameters);
    }
    for (std::size_t g = 0; g < pipeline_->groups.size(); ++g)
        ends_[g].lower_slots = latest(pipeline_->groups[g].paths, least_, least_start_);
}

void StepBounds::Tables::bind_ends() {
    const Parallelism& p = now_.parallelism;
    bind_least();
    const double n = micro_batches(p) / static_cast<double>(stepcast::directions(p));
    for (std::size_t g = 0; g < pipeline_->groups.size(); ++g) {
        const StageGroup& group = pipeline_->groups[g];
        GroupEnd& end = ends_[g];
        const double exchanged = p.overlap ? end.least.least_last : end.least.least_waited;
        end.lower = std::max(end.lower_slots + std::max(exchanged, end.least_join), end.least.least_lane);
        const auto finish = [&](const Features& times, double slots) {
            const Tail tail = tail_of({p, times, group, end.most, key_.pieces, n, end.slowdown}, slots);
            end.estimate = slots + tail.delay + std::max(tail.exposed, end.join);
        };
        if (p.zero < 3) {
            finish(estimate_, end.slots);
            continue;
        }
        const Features times = with_sharding(estimate_, shape_->shape.computing, p, end.most, group.most,
                                             base_.cluster.interference.compute_slowdown * (1 - sending_));
        finish(times, std::max(latest(group.paths, times), latest(group.sharded_paths, times)));
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
