// Reads paths that hold measurements (run folders, imported measurements, tables of cases) into
// comparisons to predict.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "import/tables/cases.h"
#include "model/experiment.h"
#include "model/records/measurements.h"
#include "sim/results/comparison.h"

namespace stepcast {

// The [recorded] tables of all experiment presets, by name. Nothing else of the presets is read.
std::vector<RecordedExperiment> recorded_experiments();

// The experiment preset of a run, or `model` if that names an experiment (preset or .toml file).
// Throws ConfigError with what is recorded.
std::string experiment_of_recorded(const std::string& system, const std::string& model,
                                   const std::vector<RecordedExperiment>& known);

// Reads a path by its content: a run folder, imported measurements (recorded routing is looked up
// in the folder routing/ beside them), or a table of cases, some of which may be refused. Predicts
// nothing. Rows of cases are read as if the frameworks of `forgotten` were not known: by the next
// rule of model/presets/sources.toml that they meet. Without `causes`, what their notes tell of the
// CAUSE of the step is not read: who asks for it does not know it.
std::vector<Comparison> read_comparisons(const std::string& path, const std::string& cluster,
                                         const std::string& framework = "",
                                         const std::set<std::string>& forgotten = {},
                                         bool causes = true);
// The same of imported measurements that are in no file. `own`: the experiment of all their runs.
std::vector<Comparison> comparisons_of(const std::vector<Sample>& samples,
                                       const std::string& cluster, const std::string& framework,
                                       const std::optional<ExperimentSource>& own);

}  // namespace stepcast
