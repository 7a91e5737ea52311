// How a recorded run of a whole model finds its experiment: by the [recorded] tables of the shipped experiments.
#pragma once

#include <string>
#include <vector>

#include "model/experiment.h"

namespace stepcast {

struct RecordedExperiment {
    std::string preset;
    std::vector<std::string> systems;
    std::string model;
};

// Of all experiment presets, by name; reads only that table.
std::vector<RecordedExperiment> recorded_experiments();

// The preset of a run, or its `model` itself where that names an experiment (preset or .toml file). Throws ConfigError
// that lists what is recorded.
std::string experiment_of_recorded(const std::string& system, const std::string& model,
                                   const std::vector<RecordedExperiment>& known);

}  // namespace stepcast
