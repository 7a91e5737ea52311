#include "model/machine/nameplate.h"

#include <algorithm>
#include <array>

#include "model/input/layers.h"

namespace stepcast {

bool is_nameplate(std::string_view key) {
    constexpr std::array stated{"cluster.name",
                                "cluster.source",
                                "cluster.nodes",
                                "cluster.gpus_per_node",
                                "cluster.fabric",
                                "cluster.gpu.",
                                "cluster.network.nics",
                                "cluster.network.rails",
                                "cluster.network.nodes_per_leaf",
                                "cluster.network.oversubscription",
                                "cluster.power.limit_w",
                                "cluster.power.idle_w",
                                "cluster.kernel.attention_kernel",
                                "cluster.link.intra.mesh"};
    return key.ends_with("bandwidth") || std::ranges::any_of(stated, [&](const char* s) {
               return key == s || (std::string_view(s).ends_with('.') && key.starts_with(s));
           });
}

TomlFile nameplate_of(TomlFile file, const std::string& prefix) {
    std::erase_if(file.entries, [&](const TomlEntry& e) { return !is_nameplate(prefix + e.path); });
    file.tables.clear();
    return file;
}

std::optional<Cluster> unmeasured_machine(const TomlFile& file, const std::string& prefix) {
    const auto states = [&](std::string_view key) {
        return std::ranges::any_of(file.entries,
                                   [&](const TomlEntry& e) { return prefix + e.path == key; });
    };
    constexpr std::array peaks{"cluster.gpu.peak.fp16", "cluster.gpu.peak.bf16"};
    constexpr std::array of_each_kind{"cluster.kernel.gemm_efficiency",
                                      "cluster.kernel.memory_efficiency",
                                      "cluster.link.intra.ring_efficiency"};
    if (std::ranges::none_of(peaks, states) || std::ranges::all_of(of_each_kind, states))
        return std::nullopt;
    Layers plate;
    lay_file(plate, nameplate_of(file, prefix), prefix, Origin::preset);
    return plate.experiment.cluster;
}

}  // namespace stepcast
