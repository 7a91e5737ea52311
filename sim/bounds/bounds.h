// Closed forms of a transformer's step: what it cannot beat, what it will take, and whether it fits, for any way to split
// it. From the same costs as the event engine, each priced once; no graph is built.
#pragma once

#include <memory>

#include "model/experiment.h"

namespace stepcast {

// `lower` is no more than what the event engine gives for the same experiment without jitter; `estimate` is near it and no
// less than `lower`. `peak` and `fits` are those of transformer_memory(): `fits` counts cluster.overheads.
struct StepBound {
    Seconds lower, estimate;
    Bytes peak;
    bool fits = true;
    friend bool operator==(const StepBound&, const StepBound&) = default;
};

// The pipelines that were searched for one workload and cluster: threads that share them search each once.
class FoundPipelines;
std::shared_ptr<FoundPipelines> no_pipelines_yet();

// Of one workload on one cluster and one draw of the routing; holds what was priced. One thread at a time, so
// give each its own; they may share the pipelines.
//
// To be called in nested loops. The cost of a call depends on what changed since the call before:
//   zero, overlap, overlap_params, bucket                               innermost: tens of nanoseconds
//   schedule, pp, vp, dp, global_batch, scatter_p2p, overlap_p2p        hundreds, once their pipelines were met
//   tp, cp, ep, micro_batch, sequence_parallel, recompute, all others   a look-up, once met; else tens of microseconds
class StepBounds {
public:
    // Whether these closed forms know all that the step does. They do not: other workloads than transformers, stages cut
    // between modules, blocking sends and what they resend, passes by turns (overlap_experts), operations counted one by one (parallelism.unfused, eager_script), MoE systems
    // but alltoall, ranks of different rates.
    [[nodiscard]] static bool cover(const Experiment& experiment);

    // std::logic_error for a workload that is no transformer.
    explicit StepBounds(const Experiment& base, std::shared_ptr<FoundPipelines> pipelines = no_pipelines_yet());
    // The same with another draw of the routing, which decides no pipeline.
    StepBounds(const StepBounds& other, int draw);
    ~StepBounds();
    StepBounds(StepBounds&&) noexcept;

    // Of a split that check_experiment() accepts with this workload and cluster, and that is covered.
    StepBound operator()(const Parallelism& p);

private:
    class Tables;
    std::unique_ptr<Tables> tables_;
};

}  // namespace stepcast
