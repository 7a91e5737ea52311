// An experiment while it is read: preset, file and command line laid over each other, each key with its last origin.
// Internal to model/.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/experiment.h"
#include "model/toml_reader.h"

namespace stepcast {

struct Layers {
    Experiment experiment;
    std::map<std::string, std::string> set_at;  // key -> "moe.toml:14:3" or "--set KEY=VALUE"
    std::map<std::string, std::string> tables;  // table of the experiment file -> where it begins
    std::vector<std::string> files;             // read so far
};

// Lays a file over what is there. `prefix` is what its keys leave out: "cluster." in a cluster file, "" in an
// experiment. Skips `preset` keys of an experiment, which were loaded before.
void lay_file(Layers& layers, const TomlFile& file, const std::string& prefix);
void lay_workload(Layers& layers, const std::string& path);
void lay_cluster(Layers& layers, const std::string& path);  // nameplate, then [fitted] over it
void lay_override(Layers& layers, const Override& override);

}  // namespace stepcast
