// What more of each parameter of the cluster does to the step, as bars.
#pragma once

#include <string>

#include "model/answers/explanation.h"

namespace stepcast {

// PATH.png and PATH.svg: one bar a parameter, the strongest of them, simulated again; marks: along the critical path.
// Throws ConfigError when no parameter changes the step or gnuplot cannot plot.
void plot_elasticities(const Explanation& explanation, const std::string& title, const std::string& path);

}  // namespace stepcast
