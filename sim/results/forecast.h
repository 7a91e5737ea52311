// A prediction, as plain values that callers of simulate() fill and reports print.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/graph/step_times.h"
#include "sim/results/note.h"

namespace stepcast {

struct Interval {
    Seconds mean, p10, p50, p90;
    friend bool operator==(const Interval&, const Interval&) = default;
};

// Where the step time of the slowest rank goes (in a pipeline: the busiest). The six parts add up
// to the step: sim/breakdown.h.
struct Breakdown {
    Seconds compute, memory, exposed_communication, bubble, imbalance, host;
    friend bool operator==(const Breakdown&, const Breakdown&) = default;
};
Seconds total(const Breakdown& breakdown);

// `peak` is the sum of weights, gradients, optimizer, activations and buffers.
struct MemoryUse {
    Bytes peak, weights, gradients, optimizer, activations, buffers;
    // what the allocator holds at its peak, where its requests are replayed; 0 = not replayed
    Bytes reserved;
    bool fits = true;
    double out_of_memory = 0;  // chance; 0 also where the capacity is not known
    Bytes capacity;            // of one rank's device; 0 = not known
    Bytes overheads;     // needed beside the peak: the device's context, the allocator's losses
    bool tight = false;  // fits, but leaves less free than cluster.overheads.margin
    friend bool operator==(const MemoryUse&, const MemoryUse&) = default;
};

// Summed duration of the tasks with one name on one rank in one phase.
struct KernelTime {
    std::string name;
    Phase phase = Phase::forward;
    int rank = 0;
    Seconds time;
    friend bool operator==(const KernelTime&, const KernelTime&) = default;
};

// The part of a step that one constant of the cluster prices.
struct CostBasis {
    std::string kind, key;  // sim/calibration.h; below "cluster."
    bool measured = false;  // determined on this device, not a prior
    double share = 0;       // of the critical path
    friend bool operator==(const CostBasis&, const CostBasis&) = default;
};

// Stages of a pipeline that wait for the fullest one in every micro-batch, apart from fill and
// drain. Work: kernels and collectives within a stage.
struct UnequalStages {
    int stage = 0, stages = 0;  // the fullest, from 0
    double over_median = 1;     // its work over that of the median stage
    Seconds lost;               // its work beyond the mean of all
    bool logits = false;        // it holds them
    // parallelism.layout that makes them more even, its layers and step; empty: none does
    std::string layout;
    std::vector<int> layers;
    Seconds step;
    friend bool operator==(const UnequalStages&, const UnequalStages&) = default;
};

// What balanced experts leave out: the same step with the choices of an untrained gate
// (routing.kind = random-gate).
struct DrawnExperts {
    double step = 1;  // over the balanced one
    Bytes memory;     // that the fullest rank needs, context included
    // the first of zipf and random-gate with which the step stops fitting, and what it needs there
    std::string stops;
    Bytes stops_at;
    friend bool operator==(const DrawnExperts&, const DrawnExperts&) = default;
};

// Another reading of what an experiment leaves open. `step` is the step of this reading relative to
// the forecast's.
struct OtherReading {
    std::string what;
    double step = 1;
    friend bool operator==(const OtherReading&, const OtherReading&) = default;
};

// The causes of a step's interval, each as a logarithm (docs/model.md).
struct Doubts {
    // standard deviation that fits and priors leave in the constants
    double constants = 0;
    // the part of it that shortens no step: hosts that cost less than assumed wait for their
    // devices
    double hidden = 0;
    // to p10 and p90, for steps that no fit has read: errors of framework and device
    double faster = 0, slower = 0;
    double draws_faster = 0, draws_slower = 0;  // to p10 and p90 of the draws
    std::vector<OtherReading> readings;
    double experts = 0;  // taken as balanced, drawn by a gate: p90 reaches at least so far
    friend bool operator==(const Doubts&, const Doubts&) = default;
};

struct Forecast {
    std::string experiment, cluster, framework;
    std::string split;  // "tp 4, pp 8, dp 8": the degrees above 1
    // of a step over all ranks; tokens of each; sequences that a rank takes at once
    int sequences = 0, seq = 0, micro_batch = 0;
    // the cluster has a fit; `basis` says how much of this step rests on it
    bool calibrated = false;
    std::string maker = {};  // of the device, where no machine of that maker was measured
    // whole steps that the cluster's constants were fitted to, where its file states it
    int cluster_steps = 0;
    int framework_steps = 0;          // the same for the framework's constants
    bool framework_as_begun = false;  // the framework's fit left its initial costs unchanged
    std::vector<CostBasis> basis;     // largest share first
    // p50: of the median draw; p10 and p90: of the next run
    Interval step, forward, backward, gradient_sync, optimizer;
    Doubts doubts;                         // the causes of p10 and p90
    StepTimes phases;                      // of the median draw
    Breakdown breakdown;                   // of the median draw
    std::optional<DrawnExperts> drawn;     // where nobody states how tokens choose
    std::optional<UnequalStages> unequal;  // where they cost a tenth of the step or more
    MemoryUse memory;
    double tokens_per_second = 0;
    double model_flops_utilization = 0;   // scores that a causal mask hides count
    double masked_flops_utilization = 0;  // they do not
    FlopsPerSecond model_flops_per_gpu;   // the model FLOPs utilization as a rate
    // per step, of all GPU boards without the rest of their nodes; 0 = the cluster states no power
    Joules energy;
    int gpus = 0;
    std::size_t tasks = 0;
    int ranks_simulated = 0;
    int draws = 1;
    bool noise = false;  // the draws include noise of tasks, hosts and ranks
    // the draw with the median step; everything said "of the median draw" is of this one
    int median_draw = 0;
    std::vector<KernelTime> kernels;  // of the median draw, compute lane only
    std::vector<Note> notes;
    friend bool operator==(const Forecast&, const Forecast&) = default;
};
// share of the step priced by constants that nothing measured on this device
double prior_share(const Forecast& forecast);
// "UNCALIBRATED: ..": of a machine without a fit; `maker` as in Forecast
std::string uncalibrated_text(const std::string& maker);
// "calibrated", "calibrated for 38 % of the step, the rest on priors: host 62 %", "UNCALIBRATED:
// ..".
std::string calibrated_text(const Forecast& forecast);

}  // namespace stepcast
