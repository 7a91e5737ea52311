#include "sim/sweep/point_evaluator.h"

#include "model/step.h"
#include "sim/predict.h"

namespace stepcast {

PointEvaluator::PointEvaluator(const Experiment& base)
    : experiment_(base),
      ranks_(rank_count(base.cluster)),
      price_(base.cluster.price_per_gpu_hour * ranks_ / 3600),
      peak_flops_(ranks_ * peak(base.cluster.gpu, base.workload.dtype)),
      flops_of_token_(model_flops(base, 1)) {}

StepBound PointEvaluator::bound(const Parallelism& split) {
    if (!closed_form_ && StepBounds::cover(experiment_)) closed_form_.emplace(experiment_);
    if (closed_form_) return (*closed_form_)(split);
    experiment_.parallelism = split;
    const MemoryUse use = memory_use(experiment_, routing_of(experiment_));
    return {.lower = {}, .estimate = {}, .peak = use.peak, .fits = use.fits};
}

PointFacts PointEvaluator::facts(const Parallelism& split, Bytes peak) const {
    const int sequences = split.global_batch > 0 ? split.global_batch : split.dp * split.micro_batch;
    const double tokens = static_cast<double>(sequences) * experiment_.workload.seq;
    return {split, peak, tokens, price_, tokens * flops_of_token_, peak_flops_};
}

Seconds simulated_step(const Experiment& experiment) {
    const TaskGraph graph = build_step(experiment, routing_of(experiment));
    Timeline timeline;
    run(graph, price(graph, experiment.cluster), experiment.cluster.interference, timeline);
    return timeline.end;
}

}  // namespace stepcast
