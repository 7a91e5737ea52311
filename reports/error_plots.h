// Plots of errors against size, and of what they consist of.
#pragma once

#include <map>
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

// Error in percent against the number of GPUs of the job. On the left test data: cases forecast
// with their source left out, by class of step (`named`, `unnamed`, ..), a colour each. On the
// right, if there are any, cases forecast as shipped, with them in view. Rings: a fit has read
// them. Black: median and p10..p90 of the errors around each power of two. Errors beyond the
// picture are drawn at its edge and counted.
using CasesByKind = std::map<std::string, std::vector<Comparison>>;
bool plot_left_out(const CasesByKind& left_out, const std::vector<Comparison>& shipped,
                   const std::string& path);

// Where the error of executed runs comes from: one stacked bar per run, in percent of its measured
// step. Parts that make the prediction too slow go up, parts that make it too fast go down: each op
// kind and phase, what the kinds do together, and the schedule. The black line is the total error.
bool plot_attribution(const std::vector<Comparison>& comparisons, const std::string& title,
                      const std::string& path);

}  // namespace stepcast
