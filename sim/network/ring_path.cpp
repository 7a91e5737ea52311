#include "sim/network/ring_path.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "model/rank_groups.h"

namespace stepcast {
namespace {

std::vector<int> nodes_of(std::span<const int> members, const Cluster& cluster) {
    std::vector<int> nodes;
    for (const int rank : members) nodes.push_back(rank / cluster.gpus_per_node);
    return nodes;
}

double ring_share(int per_node, const Cluster& cluster) {
    return per_node > 1 && per_node < cluster.gpus_per_node ? cluster.network.partial_ring : 1;
}

RingPath ring_path(const Group& group, const GroupPath& path, const Cluster& cluster) {
    const std::vector<int> members = stepcast::members(group, group.first);
    return {path.ranks, path.nodes,           path.ring,       path.inter * ring_share(path.per_node, cluster),
            path.pair,  path.node_all_to_all, path.all_to_all, nodes_of(members, cluster)};
}

}  // namespace

RingPath ring_path(std::span<const int> members, const Cluster& cluster) {
    constexpr BytesPerSecond unlimited(std::numeric_limits<double>::infinity());
    RingPath path{static_cast<int>(members.size()), 1, {}, unlimited, {}, {}, {}, nodes_of(members, cluster)};
    std::map<int, int> members_on;
    for (const int node : path.node_of) ++members_on[node];
    path.nodes = static_cast<int>(members_on.size());
    const bool joined = path.ranks == 2 && members[0] / 2 == members[1] / 2;
    path.ring =
        cluster.fabric == Fabric::nvlink_pairs && joined ? cluster.intra.pair_bandwidth : cluster.intra.bandwidth;
    const double nics = cluster.network.nics > 0 ? cluster.network.nics : cluster.gpus_per_node;
    path.between = cluster.inter.bandwidth * (nics / cluster.gpus_per_node);
    if (path.nodes > 1) {
        int fewest = path.ranks;
        for (const auto& [node, count] : members_on) fewest = std::min(fewest, count);
        path.inter = path.between * fewest * ring_share(fewest, cluster);
    }
    if (path.nodes == path.ranks && path.nodes > 1) path.ring = unlimited;
    path.inside = path.ring;
    path.pair = path.nodes > 1 ? path.between : path.ring;
    return path;
}

RingPath ring_path(const Group& group, const Cluster& cluster) {
    return ring_path(group, path_of(group, cluster), cluster);
}

const RingPath& RingPaths::of(const Group& group) {
    const Key key{group.ranks, group.stride, group.outer_ranks, group.outer_stride, group.first, group.block};
    if (const auto at = known_.find(key); at != known_.end()) return at->second;
    return known_.emplace(key, ring_path(group, groups_.of(group), cluster_)).first->second;
}

bool same_paths(const Cluster& a, const Cluster& b) {
    const auto links = [](const Cluster& c) {
        return std::tie(c.nodes, c.gpus_per_node, c.fabric, c.network, c.intra.bandwidth, c.intra.pair_bandwidth,
                        c.intra.socket_bandwidth, c.inter.bandwidth);
    };
    return links(a) == links(b);
}

}  // namespace stepcast
