// Measured runs that a command line names: logs, run folders, tables and their rows.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "sim/own_steps.h"
#include "sim/results/comparison.h"

namespace stepcast {

// Whether the path is a training log, by its name, or because it begins with the dump of its
// arguments.
bool is_log(const std::string& path);
// Imports logs. One that begins with the dump of its arguments is an experiment, too: without
// --model it is written beside the table, and predicts the runs. Returns the lines to show.
std::vector<std::string> import_logs(const Options& options);
// The runs of a log as cases, predicted by --model, or by the experiment of its own arguments.
std::vector<Comparison> comparisons_of_log(const Options& options, const std::string& path);

// An input that may be a row of a table or one of a log's runs (TABLE.csv:CASE, FILE.log:RUN).
struct NamedRow {
    std::string path, row;
};
NamedRow named_row(const std::string& input);

// The only run of a log, a run folder or a table, or the one that is named (TABLE.csv:CASE). Throws
// ConfigError if it has no forecast.
// `causes`: whether what a row tells of the CAUSE of its step is read or left out.
enum class CausesOfRows { read, left_out };
Case one_case(const Options& options, const std::string& input,
              CausesOfRows causes = CausesOfRows::read);
// The same for all of its runs.
std::vector<Case> all_cases(const Options& options, const std::string& input);

// --measured FILE. The steps of a table (each beside its forecast, `plain`: as simulate makes it)
// or of a file that --save wrote. Throws ConfigError.
OwnSteps own_steps_of_file(const std::string& path, const Options& options, bool plain);
void add(OwnSteps& all, OwnSteps more);

}  // namespace stepcast
