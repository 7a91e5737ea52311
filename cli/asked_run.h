// What `stepcast diagnose` is asked about: the run, what was seen of it, and other runs beside it.
#pragma once

#include <vector>

#include "cli/options.h"
#include "sim/why/diagnose.h"

namespace stepcast {

struct AskedRun {
    Experiment experiment;
    Observed observed;
    std::vector<OtherRun> others;
    std::vector<std::string> notes;
};

// Throws ConfigError if no step is known, or what is said contradicts the configuration.
AskedRun asked_run(const Options& options);

}  // namespace stepcast
