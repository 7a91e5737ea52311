// An experiment while it is read: presets, file and command line are laid over each other, and each
// key remembers where its value came from. Internal to model/.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/experiment.h"
#include "model/input/keys.h"
#include "model/input/presets.h"
#include "model/input/toml_reader.h"

namespace stepcast {

// The last source of a key's value, in order of increasing priority.
NAMED_ENUM_AS(Origin, "an origin", "default, prior, family, framework, preset, fitted, set",
              defaulted, prior, family, framework, preset, fitted, set);

struct Said {
    Origin who = Origin::defaulted;
    std::string at;  // "moe.toml:14:3" or "--set KEY=VALUE"
};

struct Layers {
    Experiment experiment;
    std::map<std::string, Said> said;           // by key; a missing key has its default
    std::vector<std::string> notes;             // reservations about a config.json that was read
    std::map<std::string, std::string> starts;  // table -> the file that its preset names
    std::map<std::string, std::string> tables;  // table of the experiment file -> its position
    std::vector<std::string> files;             // read so far
    std::optional<Cluster> unmeasured;          // unmeasured_machine() of its cluster file
};

// The preset or file that a key of `file` starts from. A relative path is relative to `file`.
std::string start_relative_to(PresetKind kind, const TomlFile& file, const TomlEntry& entry);

// The path that a file states by its own start key, which is removed from the file; empty if it
// states none.
std::optional<std::string> take_start(PresetKind kind, std::string_view key, TomlFile& file);

// The file and all files that it starts from by this key, the farthest first. Throws if they form a
// cycle.
std::vector<TomlFile> with_starts(PresetKind kind, std::string_view key, const std::string& path);
std::string stem_of(const std::string& path);  // "a/dgx.toml" -> "dgx"

// Lays a file over the present values. `prefix` is what its keys omit: "cluster." in a cluster
// file, "" in an experiment. Skips the `preset` keys of an experiment, which were loaded before.
void lay_file(Layers& layers, const TomlFile& file, const std::string& prefix, Origin origin);
void lay_workload(Layers& layers, const std::string& path);

// in order: the file that it starts from, the file, its [fitted]
void lay_framework(Layers& layers, const std::string& path);

void lay_override(Layers& layers, const Override& override);

// Every layer that files and overrides state, without checks.
Layers lay_experiment(const ExperimentSource& source, std::span<const Override> overrides);

// Lays the values of the framework over those that nobody stated. The machine is complete by then,
// because a framework puts back what it replaced.
void adopt_framework(Layers& layers);

// The experiment, or the cluster of the file `path`. ConfigError, with its place, for a cross rule
// that it breaks.
Experiment checked(const Layers& layers);
Cluster checked_cluster(const Layers& layers, const std::string& path);

// Set one key of an experiment that was read, any but cluster.preset, or its machine; the
// framework's values follow.
void set_value(Experiment& experiment, const Override& override);
void set_machine(Experiment& experiment, Cluster machine);

}  // namespace stepcast
