// Plots of measured kernels beside the laws' forecasts.
#pragma once

#include <string>
#include <vector>

#include "model/answers/kernel_comparison.h"

namespace stepcast {

// Under `folder`: kernel_times (measured against predicted), of several devices also devices (medians by kind), kernel_error (predicted over measured against the measured time, one colour a kind, rows of the fit hollow),
// roofline (rates of the measured kernels with arithmetic against their intensity, both relative to the device's peak and
// ridge), and for each device with collectives bus_bandwidth_DEVICE (against the payload: points measured, lines predicted).
// Returns the PNG names within the folder.
std::vector<std::string> plot_kernels(const KernelComparisons& kernels, const std::string& title,
                                      const std::string& folder);

}  // namespace stepcast
