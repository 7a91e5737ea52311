// What a group of ranks can reach of the cluster's links, as collectives need it: from the topology where the group is a
// rule (model/graph/group.h), in closed form for any list of ranks.
#pragma once

#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "model/cluster.h"
#include "model/graph/group.h"
#include "sim/network/group_path.h"

namespace stepcast {

// Bandwidths per direction, infinite where there is no such traffic.
struct RingPath {
    int ranks = 1, nodes = 1;
    BytesPerSecond ring;       // of the group inside a node
    BytesPerSecond inter;      // of the group between two nodes
    BytesPerSecond pair;       // from one member to the next
    BytesPerSecond inside;     // what a member exchanges with members on its own node
    BytesPerSecond between;    // with members on others
    std::vector<int> node_of;  // per member
    friend bool operator==(const RingPath&, const RingPath&) = default;
};

// Any ranks: groups of the same shape fill the cluster, so a group has the share of a node's NICs that its members there
// are of the node's ranks; the node with fewest members limits it. Ignores leaf switches and oversubscription.
// Both: a ring with some, not one or all, of a node's ranks reaches cluster.network.partial_ring of its NICs' rate, because
// the channels of concurrent communicators meet on the same NICs.
RingPath ring_path(std::span<const int> members, const Cluster& cluster);

// A rule, used with all groups of its shape: sim/network/group_path.h.
RingPath ring_path(const Group& group, const Cluster& cluster);

// The same for many groups of one cluster, which must outlive it; each found when first asked for.
class RingPaths {
public:
    explicit RingPaths(const Cluster& cluster) : cluster_(cluster), groups_(cluster) {}
    [[nodiscard]] const RingPath& of(const Group& group);

private:
    using Key = std::tuple<int, int, int, int, int, int>;
    const Cluster& cluster_;
    GroupPaths groups_;
    std::map<Key, RingPath> known_;  // references stay good
};

// Whether every group has the same path on both: links, network and nodes are equal.
bool same_paths(const Cluster& a, const Cluster& b);

}  // namespace stepcast
