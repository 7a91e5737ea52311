#include "sim/ring_path.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "model/rank_groups.h"
#include "sim/group_path.h"

namespace stepcast {

namespace {

double ring_share(int per_node, const Cluster& cluster) {
    return per_node > 1 && per_node < cluster.gpus_per_node ? cluster.network.partial_ring : 1;
}

}  // namespace

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
    path.inter = path.rank_inter * fewest * ring_share(fewest, cluster);
    return path;
}

RingPath ring_path(const Group& group, const Cluster& cluster, bool neighbours) {
    RingPath path;
    for (const int rank : members(group, group.first)) path.node_of.push_back(rank / cluster.gpus_per_node);
    const GroupPath routed = path_of(group, cluster);
    const auto finite = [](BytesPerSecond rate, BytesPerSecond otherwise) {
        return std::isfinite(rate.si()) ? rate : otherwise;
    };
    path.ranks = routed.ranks;
    path.nodes = routed.nodes;
    path.intra = finite(neighbours ? routed.pair : routed.ring, cluster.intra.bandwidth);
    path.inter = finite(routed.inter, cluster.inter.bandwidth) * ring_share(routed.per_node, cluster);
    path.rank_inter = finite(neighbours ? routed.pair : routed.all_to_all, cluster.inter.bandwidth);
    return path;
}

}  // namespace stepcast
