// Turns recorded runs of whole models and of MoE layers into cases: finds the experiment, the
// inputs and the times.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "import/tables/cases.h"
#include "model/experiment.h"
#include "model/records/measurements.h"
#include "sim/results/comparison.h"

namespace stepcast {

// The cases of recorded whole models. A run's experiment is the one whose [recorded] table lists
// the run's system and model, or the one that its model names (preset or file). A row whose phase
// is a key ("workload.seq") is an input of its step, or of the whole run if its step is -1. Steps
// with equal inputs form one case. Runs without an experiment are refused, with the reason. `own`:
// the experiment of all runs, whatever their model.
std::vector<Comparison> comparisons_of_recorded(const std::vector<Sample>& samples,
                                                const std::string& cluster = "",
                                                const std::optional<ExperimentSource>& own = {});

std::string model_name(const LayerShape& shape);
std::optional<LayerShape> parse_model_name(const std::string& name);

// Imported or own measurements of MoE layers, one case per run, with the run's MoE system and
// number of ranks. The measured time is the summary row (step = -1) or, without one, the median
// over the steps. Rows of single ranks mean that the run recorded its routing: the file RUN_ID.csv
// or SYSTEM_EXPERTS.csv in `routing_folder` is used if it exists. `cluster` is as in case_of().
// Runs that cannot be predicted are refused, with the reason.
std::vector<Comparison> comparisons_of_layers(const std::vector<Sample>& samples,
                                              const std::string& routing_folder = "",
                                              const std::string& cluster = "");

}  // namespace stepcast
