// Plots of measured kernels beside their laws, by device.
#pragma once

#include <string>
#include <vector>

#include "sim/results/kernel_comparison.h"

namespace stepcast {

// Plots of measured kernels and the laws' forecasts under `folder`. kernel_times: measured against
// predicted. devices, if there are several: median errors by kind. kernel_error: predicted over
// measured against the measured time, one colour per kind, fitted rows hollow. roofline: rates of
// measured kernels with arithmetic against their intensity, relative to the device's peak and
// ridge. bus_bandwidth_DEVICE, if it has collectives: against the payload, points measured, lines
// predicted. Returns the PNG names within the folder.
std::vector<std::string> plot_kernels(const KernelComparisons& kernels, const std::string& title,
                                      const std::string& folder);

}  // namespace stepcast
