// Plots of a sweep as PNG and SVG: heat map of two keys, Pareto front, scaling curve.
#pragma once

#include <string>
#include <vector>

#include "model/answers/sweep_answer.h"

namespace stepcast {

// All write PATH.png and PATH.svg and throw ConfigError when gnuplot cannot.

// The best step of each pair of values: colour and, where there is room, number.
void plot_heat_map(const SweepAnswer& result, const std::string& path);

// The front that was found, with both objectives on their axes.
void plot_front(const SweepAnswer& result, const std::string& path);

// Tokens/s against ranks with the p10..p90 of each prediction, beside what proportional growth from the smallest would be.
void plot_scaling(const SweepAnswer& result, const std::string& path);

// Every plot that the sweep allows; returns the PNG names within the folder.
std::vector<std::string> plot_sweep(const SweepAnswer& result, const std::string& folder);

}  // namespace stepcast
