// An experiment while it is read: preset, file and command line laid over each other, each key with its last origin.
// Internal to model/.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/experiment.h"
#include "model/keys/keys.h"
#include "model/keys/toml_reader.h"
#include "model/presets.h"

namespace stepcast {

// Who said the value of a key last, from weak to strong.
NAMED_ENUM_AS(Origin, "an origin", "default, prior, family, framework, preset, fitted, set", defaulted, prior, family, framework, preset, fitted, set);

struct Said {
    Origin who = Origin::defaulted;
    std::string at;  // "moe.toml:14:3" or "--set KEY=VALUE"
};

struct Layers {
    Experiment experiment;
    std::map<std::string, Said> said;           // of keys; none: the default
    std::vector<std::string> notes;             // what a config.json was read with
    std::map<std::string, std::string> starts;  // table -> the file that its preset names
    std::map<std::string, std::string> tables;  // table of the experiment file -> where it begins
    std::vector<std::string> files;             // read so far
};

// The preset or file that a key of `file` starts from, a relative path next to it.
std::string start_relative_to(PresetKind kind, const TomlFile& file, const TomlEntry& entry);
// Of a file whose own key says what it starts from: the path, and the key is gone from the file.
std::optional<std::string> take_start(PresetKind kind, std::string_view key, TomlFile& file);
// The file behind those that it starts from by this key, the farthest first. Throws where files start from each other.
std::vector<TomlFile> with_starts(PresetKind kind, std::string_view key, const std::string& path);
std::string stem_of(const std::string& path);  // of "a/dgx.toml" dgx

// Lays a file over what is there. `prefix` is what its keys leave out: "cluster." in a cluster file, "" in an
// experiment. Skips `preset` keys of an experiment, which were loaded before.
void lay_file(Layers& layers, const TomlFile& file, const std::string& prefix, Origin origin);
void lay_workload(Layers& layers, const std::string& path);
void lay_cluster(Layers& layers, const std::string& path);  // the one it starts from, nameplate, then [fitted]
void lay_framework(Layers& layers, const std::string& path);  // the one it starts from, the file, then [fitted]
void lay_family(Layers& layers, const std::string& path);     // the architecture alone, no sizes
// lay_file() for files that may have a [fitted] table, whose values are laid over the rest; and what that table says.
std::optional<Fitted> lay_fitted_file(Layers& layers, TomlFile file, const std::string& prefix);
// Such a file: the values of `keys`, those before the fit, and the table.
std::string file_text(Experiment holder, std::span<const Key> keys, const std::string& prefix,
                      const std::optional<Fitted>& fitted);
std::string fitted_text(const Cluster& cluster);            // the [fitted] table as a file holds it, "" for none
void lay_override(Layers& layers, const Override& override);

// Every layer of an experiment, laid but not checked.
Layers lay_experiment(const ExperimentSource& source, std::span<const Override> overrides);

}  // namespace stepcast
