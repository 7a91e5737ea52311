// The flags that levers stand for in the scripts of a framework.
#pragma once

#include <vector>

#include "model/experiment.h"
#include "sim/results/lever.h"

namespace stepcast {

// Writes the framework's script of the experiment and of each lever (framework.script, --emit) and
// names what changes between them. A lever that no script holds, or that the framework refuses,
// says so in `cannot`. Nothing without a script for the experiment itself.
void name_flags(const Experiment& experiment, std::vector<Lever>& levers);

}  // namespace stepcast
