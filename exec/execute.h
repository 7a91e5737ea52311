// Runs a graph for real: warm-up steps, then samples, each with a span for every place of every
// task.
#pragma once

#include <functional>
#include <string_view>

#include "exec/device.h"
#include "exec/quiet.h"
#include "model/experiment.h"
#include "model/records/measurement.h"

namespace stepcast {

struct ExecuteOptions {
    int steps = 20;  // accepted samples wanted; a busy machine costs up to `retries` more
    int warmup = 3;
    Seconds timeout = Seconds(60);  // of each wait for another rank
    bool check_idle = true;         // spend a second to check whether the machine is idle
    RetryLimits retry;
    // take more samples, within `retry`, until the median is known to this share of itself
    double median_width = 0.02;
    std::function<void(const Measurement&)> on_step;  // after each sample, in the process of rank 0
    std::function<void(std::string_view)> progress;
    // every rank calls it after each of its samples; if true, the run ends after that sample
    std::function<bool()> stop_asked;
};

// The options of an experiment's [run] table. Throws ConfigError if samples would be mixed with
// what comes before them.
ExecuteOptions execute_options(const Run& run);

// Options for the many short graphs of a calibration: few repetitions each (`steps`, 0 = 11), and
// few more on a busy machine.
ExecuteOptions sweep_options(int steps = 0);

// Keeps every sample, accepted or not. A collective's spans start at the latest arrival of its
// ranks. Throws DeviceError with rank and task when a rank fails or does not arrive in time;
// `on_step` has then seen the finished samples. Only rank 0's process returns samples.
Measurement execute(const TaskGraph& graph, Device& device, const ExecuteOptions& options);

}  // namespace stepcast
