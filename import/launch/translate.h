// Translates launch scripts, configurations and machine descriptions of other tools into
// experiments and clusters.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/base/names.h"
#include "model/base/numbers.h"
#include "model/experiment.h"

namespace stepcast {

// The content of another tool's file as stepcast settings with their origin, and what could not be
// translated.
struct Setting {
    std::string key, value;  // as for --set
    std::string at;          // "train.sh:14"
    friend bool operator==(const Setting&, const Setting&) = default;
};

struct NamedValue;

// a stated value as text for our key
using KeyText = std::function<std::string(const NamedValue&)>;

struct Translation {
    std::string path = {}, format = {}, framework = {};  // framework: name of a preset, "" = none
    std::vector<Setting> settings = {};                  // one per key
    std::vector<std::string> defaulted = {};             // "schedule 1f1b: the default"
    // stated, but without counterpart or effect
    std::vector<std::string> ignored = {};
    // what the file omits and an experiment needs
    std::vector<std::string> open = {};
    std::vector<std::string> missing_files = {};  // those of `open` that say of a file it is absent
    // what cannot run as stated, or is not forecast as stated
    std::vector<std::string> problems = {};

    void lacks_file(const std::string& line) {
        open.push_back(line);
        missing_files.push_back(line);
    }
    // Adds "NAME (train.sh:14): text" to the problems.
    void problem(const NamedValue& value, const std::string& text);

    void set(const std::string& key, const std::string& value, const std::string& at);
    void set(const std::string& key, long value, const std::string& at) {
        set(key, std::to_string(value), at);
    }
    // Sets the key to `value`; if that is nullptr, to the default `otherwise` ("" = none).
    void take(const std::string& key, const NamedValue* value, const KeyText& read,
              const std::string& otherwise = "");
    // Sets what the tool assumes if the file states nothing.
    void take_default(const std::string& key, const std::string& value);
    [[nodiscard]] const Setting* find(const std::string& key) const;
    [[nodiscard]] long layers() const;  // as stated, or of the preset that is named; 0 = neither
    // The number, checked by its key: throws ConfigError with its position, so that no zero from a
    // file is used as a divisor.
    [[nodiscard]] long count(const std::string& key, long otherwise) const;
    // tp x pp x cp; throws ConfigError if no cluster has that many
    [[nodiscard]] long ranks_of_split() const;
};

enum class ForeignFormat : std::uint8_t {
    megatron,
    nemo,
    megatron_bridge,
    torchtitan,
    deepspeed,
    gpt_neox,
    primus,
    config_file,  // of one of the tools in model/presets/config_files.toml
    hub_config,
    topology_matrix,  // nvidia-smi topo -m; from here to lspci: machines
    nccl_topology,
    nccl_graph,
    nvidia_smi,     // nvidia-smi -q -x
    rocm_smi,       // rocm-smi --showtopo, amd-smi topology
    other_listing,  // tells no machine: to be refused with what it is
    lspci,
    none,  // none of these: one of stepcast's own files, or a log
};
constexpr auto names_of(ForeignFormat) {
    return names_as_written<as_index(ForeignFormat::none)>(
        "a format of --format",
        "megatron, nemo, megatron-bridge, torchtitan, deepspeed-config, gpt-neox, primus, "
        "config-file, config.json, "
        "topo, nccl-topology, nccl-graph, nvidia-smi, rocm-smi, other-listing, lspci");
}

// Throws ConfigError with these formats and `others`, which are read elsewhere.
ForeignFormat parse_foreign_format(std::string_view text, std::span<const std::string_view> others);
bool is_cluster(ForeignFormat format);

// Recognises a file by its content, not its name. Never throws; `none` if it cannot be read.
ForeignFormat recognise_foreign(const std::string& path);

// What a file does not state.
struct TranslateOptions {
    ForeignFormat format = ForeignFormat::none;  // none: as recognised
    // a workload preset or config.json, if the file states no sizes
    std::string model = {};
    std::string variant = {};                             // row of a table: "h100,64,bf16"
    std::map<std::string, std::string> environment = {};  // variables of a script
    long replicas = 0;  // replicas that fill the machine if the file leaves them open; 0 = unknown
};

// Throws ConfigError with the position of what it does not understand.
Translation translate(const std::string& path, const TranslateOptions& options);

// As translate(), of text that no file holds; `path` is for messages.
Translation translate_text(const std::string& text, const std::string& path, ForeignFormat format,
                           const TranslateOptions& options);

}  // namespace stepcast
