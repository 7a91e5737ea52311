// Presets are TOML files that ship with the program, found next to the sources or the installed binary.
#pragma once

#include <string>
#include <vector>

#include "model/names.h"

namespace stepcast {

// A nameplate is a cluster file of a datasheet alone: found where a cluster is asked for that no measured preset has.
NAMED_ENUM(PresetKind, "a kind of preset", workload, cluster, experiment, framework, family, nameplate);

// Path of a preset file; a cluster also by its GPU's name. Throws ConfigError naming the nearest valid name.
std::string preset_path(PresetKind kind, const std::string& name);
bool has_preset(PresetKind kind, const std::string& name);  // found by that name, not as a file
std::vector<std::string> preset_names(PresetKind kind);
// The file that says which framework the rows of published tables ran in; how a model's config.json states a workload.
std::string sources_path();
std::string hub_path();
// Root folder that holds model/presets and calibrate/patterns: $STEPCAST_HOME; for a program in its build folder the source
// tree; for an installed or copied one ../share/stepcast next to it.
std::string home_folder();

}  // namespace stepcast
