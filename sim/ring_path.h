// What a group of ranks can reach of the cluster's links, as rings over all its members need it.
#pragma once

#include <span>
#include <vector>

#include "model/cluster.h"
#include "model/group.h"

namespace stepcast {

struct RingPath {
    int ranks = 1, nodes = 1;
    BytesPerSecond intra;  // per rank and direction inside a node
    BytesPerSecond inter;  // of the group between two nodes; unused when nodes is 1
    BytesPerSecond rank_inter;  // one rank's share of its node's NICs
    std::vector<int> node_of;   // per member
    friend bool operator==(const RingPath&, const RingPath&) = default;
};

// Groups of the same shape fill the cluster, so a group has the share of a node's NICs that its members there are of the
// node's ranks; the node with fewest members limits it. A ring with some, not one or all, of a node's ranks reaches
// `partial_ring` of that: the channels of concurrent communicators meet on the same NICs. Ignores leaf switches and
// oversubscription.
RingPath ring_path(std::span<const int> members, const Cluster& cluster);

// The same of a group given as a rule, routed over the topology (group_path.h). `neighbours`: rates of messages from each
// member to the next instead of rings.
RingPath ring_path(const Group& group, const Cluster& cluster, bool neighbours = false);

}  // namespace stepcast
