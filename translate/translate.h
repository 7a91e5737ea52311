// Launch scripts, configurations and machine descriptions of other tools, read into experiments and clusters.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/experiment.h"
#include "model/names.h"

namespace stepcast {

// What a file of another tool says in stepcast's terms: settings with their origin, and what could not be carried over.
struct Setting {
    std::string key, value;  // as for --set
    std::string at;          // "train.sh:14"
    friend bool operator==(const Setting&, const Setting&) = default;
};

struct NamedValue;
using KeyText = std::function<std::string(const NamedValue&)>;  // a stated value in our words

struct Translation {
    std::string path = {}, format = {}, framework = {};  // framework: a preset's name, "" = none
    std::vector<Setting> settings = {};                  // one a key
    std::vector<std::string> defaulted = {};             // "schedule 1f1b: the default"
    std::vector<std::string> ignored = {};               // stated, and without a counterpart or effect
    std::vector<std::string> open = {};                  // what the file leaves out and an experiment needs
    std::vector<std::string> problems = {};              // what could not run as it stands there, or is not forecast as it would

    // "NAME (train.sh:14): text" among the problems.
    void problem(const NamedValue& value, const std::string& text);

    void set(const std::string& key, const std::string& value, const std::string& at);
    void set(const std::string& key, long value, const std::string& at) { set(key, std::to_string(value), at); }
    // As `value` says; where it is nullptr, by default `otherwise`, "" = none.
    void take(const std::string& key, const NamedValue* value, const KeyText& read, const std::string& otherwise = "");
    // What the tool takes where the file says nothing.
    void take_default(const std::string& key, const std::string& value);
    [[nodiscard]] const Setting* find(const std::string& key) const;
    [[nodiscard]] long layers() const;  // stated, or of the preset that is named; 0 = neither
    // Checked by its key: throws ConfigError with its place, so that nothing is divided by a zero of the file.
    [[nodiscard]] long count(const std::string& key, long otherwise) const;
    [[nodiscard]] long ranks_of_split() const;  // tp x pp x cp; throws ConfigError where no cluster has as many
};

// As an experiment file whose every line says where its value comes from. Values are checked by the keys they belong to:
// throws ConfigError with their place.
std::string experiment_text(const Translation& translation);

// What was taken, defaulted, ignored, left open and wrong: lines for people.
std::vector<std::string> report(const Translation& translation);

enum class ForeignFormat : std::uint8_t {
    none,  // not one of these: a file of stepcast's own, or a log
    megatron,
    nemo,
    megatron_bridge,
    torchtitan,
    deepspeed,
    hub_config,
    topology_matrix,  // nvidia-smi topo -m
    nccl_topology,
    nccl_graph,
    nvidia_smi,  // nvidia-smi -q -x
    lspci,
};
constexpr auto names_of(ForeignFormat) {
    using enum ForeignFormat;
    return name_table<ForeignFormat>("a format of --format", {{megatron, "megatron"}, {nemo, "nemo"}, {megatron_bridge, "megatron-bridge"},
                                                              {torchtitan, "torchtitan"}, {deepspeed, "deepspeed-config"},
                                                              {hub_config, "config.json"}, {topology_matrix, "topo"},
                                                              {nccl_topology, "nccl-topology"}, {nccl_graph, "nccl-graph"},
                                                              {nvidia_smi, "nvidia-smi"}, {lspci, "lspci"}});
}
// Throws ConfigError that names these formats and `others`, which are read elsewhere.
ForeignFormat parse_foreign_format(std::string_view text, std::span<const std::string_view> others);
bool is_cluster(ForeignFormat format);

// By what the file holds, its name aside. Never throws; what cannot be read is none.
ForeignFormat recognise_foreign(const std::string& path);

// What a file does not say.
struct TranslateOptions {
    ForeignFormat format = ForeignFormat::none;  // none: as recognised
    std::string model;                           // a workload preset or config.json, where the file names no sizes
    std::string variant;                         // of a table of several: "h100,64,bf16"
    std::map<std::string, std::string> environment;  // variables of a script
    long replicas = 0;  // that fill the machine where the file leaves them open; 0 = not told
};

// Throws ConfigError with the place of what is not understood.
Translation translate(const std::string& path, const TranslateOptions& options);

}  // namespace stepcast
