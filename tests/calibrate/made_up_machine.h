// A machine of simple numbers for tests of fits: 100 SMs, a switch inside nodes; and fit parameters
// as text.
#pragma once

#include <fmt/format.h>

#include "calibrate/fit.h"

namespace stepcast {

inline Cluster made_up_machine(int gpus_per_node = 8) {
    Cluster c;
    c.name = "made-up";
    c.gpus_per_node = gpus_per_node;
    c.gpu.name = "X1";
    c.gpu.sms = 100;
    c.gpu.memory = Bytes(80e9);
    c.gpu.peaks[Dtype::bf16] = FlopsPerSecond(500e12);
    c.gpu.peaks[Dtype::fp8] = FlopsPerSecond(1000e12);
    c.gpu.memory_bandwidth = BytesPerSecond(3e12);
    c.intra.bandwidth = BytesPerSecond(400e9);
    c.inter.bandwidth = BytesPerSecond(50e9);
    return c;
}

// Key, prior, sigma and bounds, one parameter per line.
inline std::string text_of(const std::vector<FitParameter>& parameters) {
    std::string text;
    for (const FitParameter& p : parameters)
        text += fmt::format("{} {} {} {}..{}\n", p.key, p.prior, p.prior_sigma, p.lower, p.upper);
    return text;
}

}  // namespace stepcast
