// What the command line says: the verbs, their options, the files they name, and errors in our words.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "calibrate/logs/import.h"
#include "calibrate/profiles/import_profiles.h"
#include "cli/startup.h"
#include "model/experiment.h"
#include "sim/sweep/sweep.h"

namespace CLI {
class App;
}

namespace stepcast {

struct Options {
    std::string experiment, device, cluster, framework, fit, cross_validate, out, trace, routing_out, pattern, system, model, step_range, op, gpu, variant, emit;
    std::string format = "auto", what = "presets", objective = "step";
    std::string tokens, training_steps, within, market;
    std::vector<std::string> inputs, set, measurements, step_inputs, phases, vary, where, environment;
    int gpus = 0, ranks = 0, nodes = 0, steps = 0, warmup = -1, top = 10, threads = 0;
    std::map<std::string, std::string> texts;  // experiments that are no files, by the name that stands for them
    Say say = say_on_stderr;
    bool json = false, explain = false, strict = false, medians = false, pareto = false, resume = false;
};
// --cluster, --gpus and `--set` texts as read, in order.
std::vector<Override> overrides_of(const Options& options);

// What --tokens or --steps ask for, with the market of --market.
std::optional<Training> training_of(const Options& options);

// What `simulate` sets side by side: every experiment named, with every value of the keys that --set gives several of.
struct Variant {
    std::string label, experiment;
    std::vector<Override> overrides;
};
std::vector<Variant> variants_of(const Options& options);

// What `sweep` asks; throws ConfigError on axes, constraints and objectives that are not understood.
SweepQuestion question_of(const Options& options);

// What `import` reads and writes; throws ConfigError on an unknown format.
ImportRequest import_request_of(const Options& options);

// The same where the inputs are profiles or the output of nccl-tests.
ProfileImport profile_import_of(const Options& options);

// What each verb does, by its name.
using Verbs = std::map<std::string, void (*)(const Options&)>;

// Calls the verb that was asked for, or prints what --help and --version ask. Returns 0; throws ConfigError on a command
// line that is not understood, and what the verb throws.
int run_command_line(int argc, char** argv, const Verbs& verbs);

// Experiments and machines in files of other tools, as the command line names them.

// The experiment that is asked for: a preset, a file of ours, or another tool's, whose gaps and problems are said; and the single
// keys that it states (stated_keys()).
std::vector<Override> stated_keys_asked(const Options& options, const std::string& name, const std::vector<Override>& overrides);
Experiment asked_experiment(const Options& options, const std::string& name, const std::vector<Override>& overrides,
                            bool checked);

// Throws ConfigError where --model, --variant or --env are given and none of these is another tool's file, which alone they are for.
void require_foreign(const Options& options, const std::vector<std::string>& names);

// Throws ConfigError where both --emit and --json are asked for.
void require_one_answer(const Options& options);

// Files that it is read from.
std::vector<std::string> files_asked(const Options& options, const std::string& name, const std::vector<Override>& overrides);

// What `show` prints, of another tool's file what it is translated to.
std::string shown(const Options& options);

// The flags or file of the framework that --emit names, for an experiment; `forecast` stands above as a comment.
std::string emitted(const Experiment& experiment, const Options& options, const std::string& forecast);

// Translates what `import` was given where that is a configuration or a machine; false where it is logs.
bool import_foreign(const Options& options);

// What is refused before long work starts, not after it. All throw ConfigError.

// What is asked for must be writable and be none of what is read.
void check_files_of_simulate(const Options& options, const std::vector<Variant>& variants);
void check_files_of_sweep(const Options& options);
void check_files_of_execute(const Options& options);
void check_files_of_calibrate(const Options& options);
void check_files_of_compare(const Options& options);
void check_files_of_import(const Options& options);

// What `import` was given, by which of its options it reads.
enum class ImportKind : unsigned { machine = 1, configuration = 2, log = 4, profile = 8 };
void check_options_of_import(const Options& options, ImportKind kind);

void require_device(const std::string& device);

// `stepcast generate WHAT`, a verb that --help does not show, from the same tables as --help: bash, zsh, man; `words`, what may
// stand for the last of the typed ones; and, a word a line, experiments, workloads, clusters, frameworks, keys. Throws
// ConfigError on another word.
std::string generate(const std::string& what, const std::vector<std::string>& typed, const CLI::App& app);

}  // namespace stepcast
