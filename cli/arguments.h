// What the command line says: the verbs, their options, and errors in our words.
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

// `stepcast generate WHAT`, a verb that --help does not show, from the same tables as --help: bash, zsh, man; `words`, what may
// stand for the last of the typed ones; and, a word a line, experiments, workloads, clusters, frameworks, keys. Throws
// ConfigError on another word.
std::string generate(const std::string& what, const std::vector<std::string>& typed, const CLI::App& app);

}  // namespace stepcast
