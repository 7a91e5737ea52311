#include "sim/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "model/base/joined.h"

namespace stepcast {
namespace {

// Kind by prefix of the key; the first matching prefix counts.
constexpr std::array<std::pair<std::string_view, std::string_view>, 26> kinds_of_keys{
    {{"kernel.training_", "steps"},
     {"link.intra.training", "steps"},
     {"link.inter.training", "steps"},
     {"interference.", "steps"},
     {"noise.", "steps"},
     {"kernel.gemm_", "GEMM"},
     {"kernel.batched_gemm", "GEMM"},
     {"kernel.grouped_", "GEMM"},
     {"kernel.attention_", "attention"},
     {"kernel.memory_", "memory-bound kernels"},
     {"kernel.row_", "memory-bound kernels"},
     {"kernel.strided_", "memory-bound kernels"},
     {"kernel.transpose_", "memory-bound kernels"},
     {"kernel.optimizer_", "memory-bound kernels"},
     {"kernel.cache", "memory-bound kernels"},
     {"kernel.fused_", "expert kernels"},
     {"kernel.wgrad_", "expert kernels"},
     {"kernel.expert_kernels", "expert kernels"},
     {"link.intra.", "collectives inside a node"},
     {"link.inter.", "collectives between nodes"},
     {"network.partial_ring", "collectives between nodes"},
     {"kernel.launch", "host"},
     {"kernel.event", "host"},
     {"host.", "host"},
     {"host_memory.", "host"},
     {"overheads.", ""}}};
constexpr std::array calibrated_kinds{"GEMM",
                                      "attention",
                                      "memory-bound kernels",
                                      "expert kernels",
                                      "collectives inside a node",
                                      "collectives between nodes",
                                      "host",
                                      "steps"};

// True for kernels by name that were measured on this machine, not assumed or copied.
bool fitted_here(const FittedConstants& c) { return !c.from.starts_with("prior"); }

}  // namespace

std::string_view kind_of_constant(std::string_view key) {
    const auto at = std::find_if(kinds_of_keys.begin(), kinds_of_keys.end(),
                                 [&](const auto& k) { return key.starts_with(k.first); });
    return at == kinds_of_keys.end() ? "" : at->second;
}

std::vector<KindCalibration> calibrations_of(const Cluster& cluster) {
    std::vector<KindCalibration> found;
    for (const char* name : calibrated_kinds) found.push_back({name});
    if (!cluster.fitted) return found;
    for (const FittedParameter& p : cluster.fitted->parameters)
        for (KindCalibration& k : found)
            if (p.determined && k.kind == kind_of_constant(p.key)) ++k.determined;
    for (const FittedConstants& c : cluster.fitted->constants)
        for (KindCalibration& k : found)
            if (fitted_here(c) && k.kind == kind_of_constant(c.what)) k.determined += c.count;
    return found;
}

bool is_determined(const Cluster& cluster, std::string_view key) {
    if (!cluster.fitted) return false;
    const Fitted& f = *cluster.fitted;
    // A step runs one of the attention kernels that are fitted by name.
    if (key == "kernel.attention_efficiency" &&
        std::ranges::any_of(f.constants, [](const FittedConstants& c) {
            return fitted_here(c) && c.what == "kernel.attention_kernels";
        }))
        return true;
    return std::ranges::any_of(
        f.parameters, [&](const FittedParameter& p) { return p.determined && p.key == key; });
}

std::string calibration_text(const Cluster& cluster) {
    std::vector<std::string> parts;
    for (const KindCalibration& k : calibrations_of(cluster))
        parts.push_back(k.determined > 0 ? fmt::format("{}: {} constant{}", k.kind, k.determined,
                                                       k.determined == 1 ? "" : "s")
                                         : k.kind + ": not measured");
    return joined(parts, "; ");
}

std::string unmeasured_kinds(const Cluster& cluster) {
    std::vector<std::string> kinds;
    for (const KindCalibration& k : calibrations_of(cluster))
        if (k.determined == 0) kinds.push_back(k.kind);
    return joined(kinds, ", ");
}

}  // namespace stepcast
