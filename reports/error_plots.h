// Plots of errors against size, and of what they consist of.
#pragma once

#include <string>
#include <vector>

#include "sim/results/comparison.h"

namespace stepcast {

// Relative error in percent of every predicted case, against the measured step and against the
// sequence length: on the logarithmic axes of a scatter plot the diagonal would hide 10 %. One
// colour per source (or per series of one source), point types by evidence. Errors beyond the
// picture are drawn at its edge.
bool plot_errors(const std::vector<Comparison>& comparisons, const std::string& title,
                 const std::string& path);

// Where the error of executed runs comes from: one stacked bar per run, in percent of its measured
// step. Parts that make the prediction too slow go up, parts that make it too fast go down: each op
// kind and phase, what the kinds do together, and the schedule. The black line is the total error.
bool plot_attribution(const std::vector<Comparison>& comparisons, const std::string& title,
                      const std::string& path);

}  // namespace stepcast
