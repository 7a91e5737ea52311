// The command line: verbs, options, the files that they name, and error messages.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/startup.h"
#include "import/logs/import.h"
#include "import/profiles/import_profiles.h"
#include "model/experiment.h"
#include "sim/sweep/sweep.h"

namespace CLI {
class App;
}

namespace stepcast {

struct Options {
    std::string experiment, device, cluster, framework, fit, cross_validate, out, trace, graph,
        routing_out, pattern, system, model, step_range, op, gpu, variant, emit;
    std::string format = "auto", what = "presets", objective = "step";
    std::string tokens, training_steps, within, market;
    std::string log, nccl_tests, save, history, junit, false_alarms = "1%";
    std::vector<std::string> measured, rank_times, ruled_out;
    std::string command;  // the whole line as a shell reads it
    std::vector<std::string> inputs, set, measurements, step_inputs, phases, vary, where,
        environment;
    int gpus = 0, ranks = 0, nodes = 0, steps = 0, warmup = -1, top = 10, threads = 0;
    // texts of experiments that are no files, by the names that stand for them
    std::map<std::string, std::string> texts;
    Say say = say_on_stderr;
    bool json = false, explain = false, memory = false, levers = false, strict = false,
         medians = false, pareto = false, waterfall = false, gate = false, allow = false,
         tuned = false;
};
// The overrides of --framework, --cluster, --gpus and `--set`, in this order.
std::vector<Override> overrides_of(const Options& options);

// The training that --tokens or --steps describe, with the market of --market.
std::optional<Training> training_of(const Options& options);

// The columns of `simulate`: every experiment that is named, with every value of a key that --set
// gives several times.
struct Variant {
    std::string label, experiment;
    std::vector<Override> overrides;
};
std::vector<Variant> variants_of(const Options& options);

// The question of `sweep`. Throws ConfigError for axes, constraints and objectives that it does not
// understand.
SweepQuestion question_of(const Options& options);

// What `import` reads and writes. Throws ConfigError for an unknown format.
ImportRequest import_request_of(const Options& options);

// Whether the path is a training log, by its name, or because it begins with the dump of its
// arguments.
bool is_log(const std::string& path);
// Imports logs. One that begins with the dump of its arguments is an experiment, too: without
// --model it is written beside the table, and predicts the runs. Returns the lines to show.
std::vector<std::string> import_logs(const Options& options);
// The runs of a log as cases, predicted by --model, or by the experiment of its own arguments.
std::vector<Comparison> comparisons_of_log(const Options& options, const std::string& path);

// The same for inputs that are profiles or the output of nccl-tests.
ProfileImport profile_import_of(const Options& options);

using Verbs = std::map<std::string, void (*)(const Options&)>;

// Runs the verb of the command line, or prints what --help and --version ask for. Returns 0. Throws
// ConfigError for a command line that it does not understand, and what the verb throws.
int run_command_line(int argc, char** argv, const Verbs& verbs);

// Experiments and machines in files of other tools, as the command line names them.

// The experiment that `name` stands for: a preset, a file of stepcast, or another tool's file,
// whose gaps and problems it reports with `say`. stated_keys_asked() returns the single keys that
// the experiment states (stated_keys()).
std::vector<Override> stated_keys_asked(const Options& options, const std::string& name,
                                        const std::vector<Override>& overrides);
Experiment asked_experiment(const Options& options, const std::string& name,
                            const std::vector<Override>& overrides, bool checked);

// Throws ConfigError if --model, --variant or --env are given and no name is another tool's file,
// which alone these options are for.
void require_foreign(const Options& options, const std::vector<std::string>& names);

// "TABLE.csv" of "TABLE.csv:CASE".
std::string file_of_row(const std::string& input);

// Throws ConfigError if both --emit and --json are given.
void require_one_answer(const Options& options);

// The files that the experiment is read from.
std::vector<std::string> files_asked(const Options& options, const std::string& name,
                                     const std::vector<Override>& overrides);

// The output of `show`; for another tool's file, its translation.
std::string shown(const Options& options);

// The flags or file of the framework that --emit names. `forecast` stands above them as a comment.
std::string emitted(const Experiment& experiment, const Options& options,
                    const std::string& forecast);

// Translates the input of `import` if it is a configuration or a machine. Returns false if it is a
// log.
bool import_foreign(const Options& options);

// Checks before long work starts. All throw ConfigError.

// Outputs must be writable and must not be among the inputs.
void check_files_of_simulate(const Options& options, const std::vector<Variant>& variants);
void check_files_of_sweep(const Options& options);
void check_files_of_execute(const Options& options);
void check_files_of_calibrate(const Options& options);
void check_files_of_compare(const Options& options);
void check_files_of_diagnose(const Options& options);
void check_files_of_waterfall(const Options& options);
void check_files_of_import(const Options& options);

// Kinds of input of `import`, by which of its options each uses.
enum class ImportKind : unsigned { machine = 1, configuration = 2, log = 4, profile = 8 };
void check_options_of_import(const Options& options, ImportKind kind);

void require_device(const std::string& device);

// `stepcast generate WHAT`, a verb that --help does not list, made from the same tables: bash, zsh,
// man; `words`, the possible values of the last typed word; and, one word a line, experiments,
// workloads, clusters, frameworks, keys. Throws ConfigError for another word.
std::string generate(const std::string& what, const std::vector<std::string>& typed,
                     const CLI::App& app);

}  // namespace stepcast
