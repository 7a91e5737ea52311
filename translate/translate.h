// Launch scripts, configurations and machine descriptions of other tools, read into experiments and clusters.
#pragma once

#include <map>
#include <span>
#include <string>

#include "model/names.h"
#include "translate/translation.h"

namespace stepcast {

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
