// What nvidia-smi sampled while a run was on:
//   nvidia-smi --query-gpu=index,clocks.sm,clocks.max.sm,clocks_event_reasons.active --format=csv
//   -l 1
#pragma once

#include <string>
#include <vector>

namespace stepcast {

struct GpuSamples {
    std::vector<double> clocks;  // of each GPU: median SM clock over the highest
    int samples = 0;             // while a GPU worked
    // shares of these samples in which a clock was held down: by the power limit, or by heat or a
    // power brake; 0 if the columns do not say
    double at_power_limit = 0, slowed_down = 0;
    friend bool operator==(const GpuSamples&, const GpuSamples&) = default;
};

// Columns are found by name, in any order; samples of idle GPUs are left out where they are known
// as such. Throws ConfigError with file:line, and the query to run, where a column is missing.
GpuSamples read_gpu_samples(const std::string& path);

}  // namespace stepcast
