// Experiments that are no files: what was translated from another tool's. Reads as read_experiment() does; where the text
// says no replicas they fill the cluster.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/experiment.h"

namespace stepcast {

// Behind the path of another tool's file in messages: their lines are those of the text, not of that file.
inline constexpr const char* of_translation = ", translated";

// `path` stands in messages and, without of_translation, gives the experiment its name.
Experiment read_experiment_text(const std::string& text, const std::string& path, std::span<const Override> overrides);
Experiment read_unchecked_experiment_text(const std::string& text, const std::string& path,
                                          std::span<const Override> overrides);

// The single keys that its file and `overrides` state, each with its value. They lie over the preset that their table starts from,
// and over another one in its place (set_varied()). A table of the file that starts from none is replaced whole: only overrides.
std::vector<Override> stated_keys(const std::string& path_or_preset, std::span<const Override> overrides);
std::vector<Override> stated_keys_of_text(const std::string& text, const std::string& path, std::span<const Override> overrides);

// Its own file, and those that it or an override names.
std::vector<std::string> files_of_experiment(const std::string& path_or_preset, std::span<const Override> overrides);

// What a config.json is read with: kinds that were guessed, parts that are left out.
std::vector<std::string> notes_of_hub_config(const std::string& path);

}  // namespace stepcast
