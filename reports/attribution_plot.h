// Where the error of own runs comes from, as a plot.
#pragma once

#include <string>
#include <vector>

#include "cases/cases.h"

namespace stepcast {

// A stacked bar a run, in percent of its measured step, up what makes the prediction too slow and down what makes it
// too fast: each op kind and phase, what the kinds do together, and the schedule. The black line is the whole error.
// Writes PATH.png and PATH.svg; throws ConfigError when no case has an attribution or gnuplot cannot.
void plot_attribution(const std::vector<Comparison>& comparisons, const std::string& title, const std::string& path);

}  // namespace stepcast
