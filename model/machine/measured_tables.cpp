#include "model/machine/measured_tables.h"

#include "model/cluster.h"
#include "model/input/key_values.h"

namespace stepcast {

std::vector<std::string> tables_before(std::string_view key) {
    if (key.starts_with("gpu.peak."))
        return {"kernel.gemm_table", "kernel.gemm_near", "kernel.gemm_near_accumulated"};
    if (key == "gpu.memory_bandwidth") return {"kernel.memory_curve"};
    std::vector<std::string> found;
    const std::string_view link = key.substr(0, key.rfind('.') + 1);
    const std::string_view name = key.substr(link.size());
    if (!link.starts_with("link.") || (name != "bandwidth" && name != "latency")) return found;
    for (const Key& one : keys_in<Cluster>())
        if (one.path.starts_with(link) && holds<Curve>(one)) found.emplace_back(one.path);
    return found;
}

}  // namespace stepcast
