// Experiments and machines in files of other tools, as the command line names them.
#pragma once

#include "cli/arguments.h"

namespace stepcast {

// The experiment that is asked for: a preset, a file of ours, or another tool's, whose gaps and problems are said.
// The single keys that it states (stated_keys()).
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

}  // namespace stepcast
