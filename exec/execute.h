// Runs a graph for real: warm-up, then repetitions, each with a span for every place of every task.
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
    Seconds timeout = Seconds(60);  // of every wait for another rank
    bool check_idle = true;  // spend a second on looking whether the machine is idle
    RetryLimits retry;
    double median_width = 0.02;  // samples go on, within `retry`, until the median is known to this share of itself
    std::function<void(const Measurement&)> on_step;  // after each sample, in the process of rank 0
    std::function<void(std::string_view)> progress;
    std::function<bool()> stop_asked;  // by every rank after each of its samples; the run ends after that sample
};

// What an experiment's [run] table asks for. ConfigError when samples would be mixed with what comes before them.
ExecuteOptions execute_options(const Run& run);

// For the many short graphs of a calibration: few repetitions each (`steps`, 0 = 11), few more on a busy machine.
ExecuteOptions sweep_options(int steps = 0);

// Every sample is kept, accepted or not. A collective's spans start at the latest arrival of its ranks. Throws
// DeviceError naming rank and task when a rank fails or does not arrive in time; what was finished by then has gone to
// `on_step`. In a process that does not hold rank 0 the result has no samples.
Measurement execute(const TaskGraph& graph, Device& device, const ExecuteOptions& options);

}  // namespace stepcast
