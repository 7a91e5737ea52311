// What a prediction says: plain values that simulate() callers fill and reports print.
#pragma once

#include <string>
#include <vector>

#include "model/graph/step_times.h"

namespace stepcast {

struct Interval {
    Seconds mean, p10, p50, p90;
    friend bool operator==(const Interval&, const Interval&) = default;
};

// Where the step of the slowest rank (of a pipeline the busiest) went; the six add up to the step. sim/breakdown.h says how.
struct Breakdown {
    Seconds compute, memory, exposed_communication, bubble, imbalance, host;
    friend bool operator==(const Breakdown&, const Breakdown&) = default;
};
Seconds total(const Breakdown& breakdown);

// `peak` is the sum of the five that follow.
struct MemoryUse {
    Bytes peak, weights, gradients, optimizer, activations, buffers;
    bool fits = true;
    Bytes capacity;   // of one rank's device; 0 = not known
    Bytes overheads;  // what the device must have on top of the peak: its context, what the allocator loses
    friend bool operator==(const MemoryUse&, const MemoryUse&) = default;
};

// Summed duration of all tasks of one name on one rank in one phase.
struct KernelTime {
    std::string name;
    Phase phase = Phase::forward;
    int rank = 0;
    Seconds time;
    friend bool operator==(const KernelTime&, const KernelTime&) = default;
};

// What of a step one constant of the cluster prices.
struct CostBasis {
    std::string kind, key;  // model/machine/calibration.h; below "cluster."
    bool measured = false;  // determined on this device, not a prior
    double share = 0;       // of the critical path
    friend bool operator==(const CostBasis&, const CostBasis&) = default;
};

// A way to read what an experiment leaves open, and the step so read over the step as forecast.
struct OtherReading {
    std::string what;
    double step = 1;
    friend bool operator==(const OtherReading&, const OtherReading&) = default;
};

// What the interval of a step is made of, in logarithms (docs/intervals.md).
struct Doubts {
    double constants = 0;                       // one standard deviation: what fits and priors leave open in constants
    double faster = 0, slower = 0;              // to p10 and p90 of steps that no fit has read: framework and device
    double draws_faster = 0, draws_slower = 0;  // to p10 and p90 of the draws
    std::vector<OtherReading> readings;
    friend bool operator==(const Doubts&, const Doubts&) = default;
};

struct Forecast {
    std::string experiment, cluster, framework;
    bool calibrated = false;       // the cluster has a fit; what of this step rests on it says `basis`
    int cluster_steps = 0;         // whole steps that constants of the cluster were fitted to, where its file says so ..
    int framework_steps = 0;       // .. and of the framework ..
    bool framework_as_begun = false;  // .. whose costs stayed those that it began with
    std::vector<CostBasis> basis;  // largest share first
    Interval step, forward, backward, gradient_sync, optimizer;  // p50: the median draw's; p10 and p90: the next run's
    Doubts doubts;                                               // what p10 and p90 are made of
    StepTimes phases;                                            // of the median draw
    Breakdown breakdown;                                         // of the median draw
    MemoryUse memory;
    double tokens_per_second = 0;
    double model_flops_utilization = 0;
    FlopsPerSecond model_flops_per_gpu;  // the same as a rate
    Joules energy;  // of a step, all GPUs' boards without the rest of their nodes; 0 = the cluster states no power
    int gpus = 0;
    std::size_t tasks = 0;
    int ranks_simulated = 0;
    int draws = 1;
    bool noise = false;               // of tasks, hosts and ranks: drawn with them
    int median_draw = 0;              // whose step is the median, and what is said of one draw below and above
    std::vector<KernelTime> kernels;  // of the median draw, compute lane only
    std::vector<std::string> notes;   // "extrapolated: ..", assumptions, parameters that kept their prior
    friend bool operator==(const Forecast&, const Forecast&) = default;
};
double prior_share(const Forecast& forecast);  // of the step, on constants that nothing measured on this device
// "calibrated", "calibrated for 38 % of the step, the rest on priors: host 62 %", "UNCALIBRATED: ..".
std::string calibrated_text(const Forecast& forecast);

}  // namespace stepcast
