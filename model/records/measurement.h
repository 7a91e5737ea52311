// Repeated executions of one graph, with all reservations about them.
#pragma once

#include <string>
#include <vector>

#include "model/graph/step_times.h"
#include "model/graph/trace.h"
#include "model/input/keyed.h"

namespace stepcast {

struct MeasuredStep {
    StepTimes times;
    bool accepted = true;  // false: the machine was busy during this step
    double cpu_share = 1;  // minimum over ranks of thread CPU time / wall time (host device)
    friend bool operator==(const MeasuredStep&, const MeasuredStep&) = default;
};

struct Measurement {
    KEY(std::string, device, {}, "\"host, 2 ranks as threads, AMD EPYC .., OpenBLAS 0.3.21\"");
    KEY(std::string, date, {}, "of the run");
    KEY(std::vector<std::string>, versions, {}, "of libraries");
    KEY(std::vector<std::string>, kernels, {},
        "what ran each kind of task: \"attention, 24 tasks: own fused kernel\"");
    KEY(int, warmup, 0, "steps before the samples");
    std::vector<MeasuredStep> steps;  // all samples after warm-up, accepted or not
    std::vector<Trace> traces;        // one per step, in the same order
    KEY(bool, quiet, true, "the quiet check before and the share of rejected samples both passed");
    KEY(double, idle_share, 1, "idle ticks over the second before the run");
    KEY(std::vector<std::string>, warnings, {}, "busy, noisy, too few, throttled");
    friend bool operator==(const Measurement&, const Measurement&) = default;
};

}  // namespace stepcast
