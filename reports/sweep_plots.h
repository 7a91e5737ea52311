// Plots of a search: its map, its front.
#pragma once

#include <string>
#include <vector>

#include "sim/results/sweep_answer.h"

namespace stepcast {

// For a sweep: the best step of each pair of values, as a colour and, if there is room, a number.
// Nothing if there are too many cells.
bool plot_heat_map(const SweepAnswer& result, const std::string& path);

// The Pareto front, with both objectives on the axes.
bool plot_front(const SweepAnswer& result, const std::string& path);

// Tokens/s against ranks with the p10..p90 of each prediction, next to proportional growth from the
// smallest.
bool plot_scaling(const SweepAnswer& result, const std::string& path);

// Every plot that the sweep allows; returns the PNG names within the folder.
std::vector<std::string> plot_sweep(const SweepAnswer& result, const std::string& folder);

// A sweep over systems or machines: one line with its band for each, against a varied key with
// numbers, of which one line needs two.
bool plot_series(const SweepAnswer& result, const std::string& path);

}  // namespace stepcast
