// The experiment that a command line names: a preset, a file of stepcast, or another tool's file,
// whose gaps and problems are reported with `say`; and what it is changed to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "import/launch/translate.h"
#include "model/base/errors.h"
#include "model/experiment.h"
#include "sim/results/campaign.h"

namespace stepcast {

// The overrides of --framework, --cluster, --gpus and `--set`, in this order.
std::vector<Override> overrides_of(const Options& options);

// The training that --tokens or --steps describe, with the market of --market.
std::optional<Training> training_of(const Options& options);

Experiment asked_experiment(const Options& options, const std::string& name,
                            const std::vector<Override>& overrides, bool checked);
// The single keys that the experiment states (stated_keys()).
std::vector<Override> stated_keys_asked(const Options& options, const std::string& name,
                                        const std::vector<Override>& overrides);
// The files that the experiment is read from.
std::vector<std::string> files_asked(const Options& options, const std::string& name,
                                     const std::vector<Override>& overrides);
// Every key with its source, as TOML; for another tool's file, its translation.
std::string shown(const Options& options);

// Throws ConfigError if --model, --variant or --env are given and no name is another tool's file,
// which alone these options are for.
void require_foreign(const Options& options, const std::vector<std::string>& names);
// How another tool's file is read: --model, --variant, --env.
TranslateOptions translate_options(const Options& options);

// Throws ConfigError if both --emit and --json are given.
void require_one_answer(const Options& options);
// The flags or file of the framework that --emit names. `forecast` stands above them as a comment.
std::string emitted(const Experiment& experiment, const Options& options,
                    const std::string& forecast);
// That comment.
std::string headline(const std::string& experiment, const std::string& cluster, const Experiment& e,
                     Seconds step);

// Reads a positive value with `parse`, and names the option in errors.
auto positive(const std::string& option, const std::string& text, auto parse) {
    try {
        if (const auto value = parse(text); value > decltype(value){}) return value;
    } catch (const ConfigError& error) {
        throw ConfigError(option + " " + error.what());
    }
    throw ConfigError(option + " " + text + ": expected more than 0");
}

}  // namespace stepcast
