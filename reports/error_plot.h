// The error itself, where a diagonal on logarithmic axes hides 10 %.
#pragma once

#include <string>
#include <vector>

#include "cases/cases.h"

namespace stepcast {

// Predicted over measured minus 1, in percent, of every predicted case: against the measured step and against the length of
// the sequences, one colour a framework (source, or series of one source), marks by what the forecast shows. Errors beyond
// the picture stand at its edge. PATH.png and PATH.svg; throws ConfigError when gnuplot cannot.
void plot_errors(const std::vector<Comparison>& comparisons, const std::string& title, const std::string& path);

}  // namespace stepcast
