#include "sim/ring_path.h"

#include <algorithm>
#include <map>

namespace stepcast {

std::vector<int> members_of(const Group& group) {
    std::vector<int> members;
    for (int j = 0; j < group.outer_ranks; ++j)
        for (int i = 0; i < group.ranks; ++i) members.push_back(i * group.stride + j * group.outer_stride);
    return members;
}

RingPath ring_path(std::span<const int> members, const Cluster& cluster) {
    RingPath path;
    path.ranks = static_cast<int>(members.size());
    std::map<int, int> members_on;
    for (const int rank : members) {
        path.node_of.push_back(rank / cluster.gpus_per_node);
        ++members_on[path.node_of.back()];
    }
    path.nodes = static_cast<int>(members_on.size());
    const bool pair = path.ranks == 2 && members[0] / 2 == members[1] / 2;
    path.intra = cluster.fabric == Fabric::nvlink_pairs && pair ? cluster.intra.pair_bandwidth : cluster.intra.bandwidth;
    const double nics = cluster.network.nics > 0 ? cluster.network.nics : cluster.gpus_per_node;
    path.rank_inter = cluster.inter.bandwidth * (nics / cluster.gpus_per_node);
    int fewest = path.ranks;
    for (const auto& [node, count] : members_on) fewest = std::min(fewest, count);
    path.inter = path.rank_inter * fewest;
    return path;
}

}  // namespace stepcast
