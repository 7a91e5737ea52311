#include "sim/sweep/point_evaluator.h"

#include <algorithm>

#include "model/records/measurements.h"
#include "sim/memory/memory_use.h"
#include "sim/noise.h"
#include "sim/predict.h"

namespace stepcast {

PointEvaluator::PointEvaluator(const Experiment& base, std::shared_ptr<FoundPipelines> pipelines)
    : experiment_(base),
      pipelines_(std::move(pipelines)),
      ranks_(rank_count(base.cluster)),
      price_(base.cluster.price_per_gpu_hour * ranks_ / 3600),
      peak_flops_(ranks_ * peak(base.cluster.gpu, base.workload.dtype)),
      flops_of_token_(model_flops(base, 1)),
      bounded_(base.routing.draws == 1 || !has_noise(base.cluster.noise)) {}

template <class Bound>
StepBound PointEvaluator::middle_of_draws(const Bound& bound) {
    std::vector<double> lower, estimate;
    StepBound all;
    for (StepBounds& closed_form : closed_forms_) {
        const StepBound one = bound(closed_form);
        lower.push_back(one.lower.si());
        estimate.push_back(one.estimate.si());
        all.peak = std::max(all.peak, one.peak);
        all.fits = all.fits && one.fits;
        all.tight = all.tight || one.tight;
    }
    all.lower = bounded_ ? Seconds(middle_of(std::move(lower))) : Seconds(0);
    all.estimate = Seconds(middle_of(std::move(estimate)));
    return all;
}

StepBound PointEvaluator::coarse(const ParallelPlan& split) {
    if (closed_forms_.empty()) {
        if (!StepBounds::cover(experiment_)) return alone_ = memory_alone(split);
        if (!pipelines_) pipelines_ = std::make_shared<FoundPipelines>(experiment_);
        for (int d = 0; d < std::max(1, drawn_routings(experiment_)); ++d)
            closed_forms_.emplace_back(experiment_, pipelines_, d);
    }
    return middle_of_draws([&](StepBounds& closed_form) { return closed_form.coarse(split); });
}

StepBound PointEvaluator::with_data() {
    if (closed_forms_.empty()) return alone_;
    return middle_of_draws([](StepBounds& closed_form) { return closed_form.with_data(); });
}

StepBound PointEvaluator::refined() {
    if (closed_forms_.empty()) return alone_;
    return middle_of_draws([](StepBounds& closed_form) { return closed_form.refined(); });
}

StepBound PointEvaluator::memory_alone(const ParallelPlan& split) {
    set_plan(experiment_, split);
    const MemoryUse use = fullest_memory(experiment_);
    return {.lower = {}, .estimate = {}, .peak = use.peak, .fits = use.fits, .tight = use.tight};
}

PointFacts PointEvaluator::facts(const ParallelPlan& split, Bytes peak) const {
    const double tokens = tokens_per_step(experiment_.workload, split.parallelism);
    return {split, peak, tokens, price_, tokens * flops_of_token_, peak_flops_};
}

Seconds simulated_step(const Experiment& experiment) {
    std::vector<double> steps;
    for (const Seconds step : steps_of_draws(experiment)) steps.push_back(step.si());
    return Seconds(middle_of(std::move(steps)));
}

}  // namespace stepcast
