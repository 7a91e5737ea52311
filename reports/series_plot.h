// One plot of a sweep over systems or machines: a line with its band for each, against a number that varies beside them.
#pragma once

#include <string>

#include "model/answers/sweep_answer.h"

namespace stepcast {

// Whether the answer has a best of each of at least two numbers for a key of names (machines, systems, presets).
bool has_series(const SweepAnswer& result);

// Writes PATH.png and PATH.svg; ConfigError when gnuplot cannot.
void plot_series(const SweepAnswer& result, const std::string& path);

}  // namespace stepcast
