// Presets are TOML files that ship with the program. They are found beside the sources or the
// installed binary.
#pragma once

#include <string>
#include <vector>

#include "model/base/names.h"

namespace stepcast {

// A nameplate is a cluster file with datasheet values only, used for a cluster that no measured
// preset covers.
NAMED_ENUM(PresetKind, "a kind of preset", workload, cluster, experiment, framework, family,
           nameplate);

// Path of a preset file; clusters are also found by the GPU's name. Throws ConfigError with the
// nearest valid name.
std::string preset_path(PresetKind kind, const std::string& name);
// true for names of presets, not for paths of files
bool has_preset(PresetKind kind, const std::string& name);
std::vector<std::string> preset_names(PresetKind kind);
// Files of one subject: which framework the rows of published tables ran in; how a model's
// config.json states a workload; what libraries lack on a device; what they hold of it; what the
// flags of Megatron-LM and its relatives do to a step; what NeMo's programs and recipes have below
// the overrides of a launch.
std::string sources_path();
std::string table_words_path();
std::string hub_path();
std::string lacks_path();
std::string libraries_path();
std::string launch_flags_path();
std::string nemo_programs_path();
std::string nemo_recipes_path();
// Root folder with model/presets and import/patterns: $STEPCAST_HOME; else the source tree for a
// program in its build folder, wherever both were moved; else ../share/stepcast beside an installed
// or copied program.
std::string home_folder();

}  // namespace stepcast
