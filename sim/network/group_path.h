// What the traffic of a group gets on the topology when every rank of the cluster communicates in a group of the same
// shape at once, and what two kinds of groups leave of each other's links.
#pragma once

#include <deque>
#include <utility>

#include "model/cluster.h"
#include "model/graph/group.h"
#include "sim/network/topology.h"

namespace stepcast {

// Rates are per direction, datasheet bandwidths divided by what shares them; infinite where the group has no such
// traffic.
// - Ring collectives run as channels, one for every member on a node: channel c enters and leaves a node at its c-th
//   member, so that a group uses the NICs of all its members. With m members on each of several nodes the hop from a
//   member to the next carries (m - 1) / m of the traffic; inside one node the ring closes and carries all of it.
//   Bus bandwidth of the whole = min(ring, inter).
// - Neighbours: each member sends to the next of the group (the last to the first), one message on one route.
// - All-to-all: each member sends the same to every other.
// The load of a link is the sum over all groups that route over it; a route gets the least bandwidth / load of its links.
struct GroupPath {
    int ranks = 1;
    int per_node = 1;                // members on one node, the most
    int nodes = 1;                   // nodes that the group spans
    BytesPerSecond ring;             // ring traffic of the group inside a node
    BytesPerSecond inter;            // ring traffic of the group from one node to the next, over all its NICs there
    BytesPerSecond pair;             // send/recv with the neighbour, the slowest one
    BytesPerSecond all_to_all;       // what a member sends to members on other nodes
    BytesPerSecond node_all_to_all;  // what a member sends to members on its own node
    int hops = 0;                    // links on the longest route between neighbours
    friend bool operator==(const GroupPath&, const GroupPath&) = default;
};

// For the group that begins at rank `group.first`. Counts loads exactly on the nodes below that group's first leaf; what
// lies beyond is taken to be loaded like it. Throws ConfigError when the cluster is disconnected, std::logic_error when
// the group does not fit into the cluster or its strides are not nested.
GroupPath path_of(const Group& group, const Cluster& cluster);

// The same for many groups of one cluster, each found when first asked for.
class GroupPaths {
public:
    explicit GroupPaths(const Cluster& cluster) : topology_(topology_of(cluster)), routes_(topology_) {}
    GroupPaths(const GroupPaths&) = delete;
    GroupPaths& operator=(const GroupPaths&) = delete;
    [[nodiscard]] const GroupPath& of(const Group& group);

private:
    Topology topology_;
    Routes routes_;
    std::deque<std::pair<Group, GroupPath>> known_;  // references stay good
};

// How many times longer a's ring traffic (neighbour traffic of a group with `block`) takes while b's runs: 1 on
// disjoint links, 2 over one bottleneck that both fill. On each link a gets half or what b leaves, whichever is more.
double share(const Topology& topology, const Group& a, const Group& b);

}  // namespace stepcast
