#include "model/cluster.h"

#include <algorithm>

#include "model/base/errors.h"
#include "model/base/numbers.h"
#include "model/input/key_values.h"
#include "model/machine/lacks.h"

namespace stepcast {

HostCosts no_host_costs() {
    HostCosts none;
    each_key<HostCosts>(
        "", [&]<auto member>(const Keyed<member>&) {
            if constexpr (requires { none.*member = Seconds(0); }) none.*member = Seconds(0);
        });
    return none;
}

AttentionKernel alone(AttentionKernel kernel) {
    kernel.launch = kernel.token = Seconds(0);
    kernel.traffic = kernel.cache = 0;
    return kernel;
}

int ranks_of_mesh(std::span<const double> links) {
    int ranks = 2;
    while (as_index(ranks) * as_index(ranks - 1) / 2 < links.size()) ++ranks;
    return as_index(ranks) * as_index(ranks - 1) / 2 == links.size() ? ranks : 0;
}

BytesPerSecond mesh_bandwidth(const Cluster& cluster, int a, int b) {
    const auto& links = cluster.intra.mesh;
    const int ranks = ranks_of_mesh(links);
    if (cluster.fabric != Fabric::nvlink_mesh || a == b || std::max(a, b) >= ranks) return {};
    std::vector<double> of_rank(as_index(ranks));
    double between = 0;
    std::size_t at = 0;
    for (int i = 0; i < ranks; ++i)
        for (int j = i + 1; j < ranks; ++j, ++at) {
            of_rank[as_index(i)] += links[at];
            of_rank[as_index(j)] += links[at];
            if (i == std::min(a, b) && j == std::max(a, b)) between = links[at];
        }
    return between > 0 ? cluster.intra.bandwidth * (between / std::ranges::max(of_rank))
                       : BytesPerSecond(0);
}

bool mesh_connected(const Cluster& cluster) {
    std::vector<int> reached{0}, left;
    for (int rank = 1; rank < cluster.gpus_per_node; ++rank) left.push_back(rank);
    for (std::size_t at = 0; at < reached.size() && !left.empty(); ++at)
        for (const int rank : std::vector<int>(left))
            if (mesh_bandwidth(cluster, reached[at], rank) > BytesPerSecond(0)) {
                reached.push_back(rank);
                std::erase(left, rank);
            }
    return left.empty();
}

FlopsPerSecond peak(const Gpu& gpu, Dtype dtype) {
    if (gpu.peaks[dtype] > FlopsPerSecond(0)) return gpu.peaks[dtype];
    std::string stated;
    for (const DtypeTraits& other : dtypes)
        if (gpu.peaks[other.dtype] > FlopsPerSecond(0))
            stated += (stated.empty() ? "" : ", ") + std::string(other.name);
    const Lack* const lack = lack_of(gpu, "workload.dtype", to_string(dtype));
    throw ConfigError(
        "cluster.gpu.peak." + std::string(to_string(dtype)) + ": device \"" + gpu.name +
        "\" has no such rate" +
        (lack ? ", which begins at compute capability " + std::to_string(lack->capability) : "") +
        "; it has " + (stated.empty() ? "none" : stated) +
        "; set this key or choose another workload.dtype");
}

}  // namespace stepcast
