// The bandwidth that collectives of a group get from the cluster's links: counted on the topology
// if the group is given as a rule (model/graph/group.h), in closed form for any list of ranks.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "model/cluster.h"
#include "model/graph/group.h"
#include "sim/network/topology.h"

namespace stepcast {

// Rates are per direction: datasheet bandwidths divided by what shares them. A rate without traffic
// is infinite.
struct RingPath {
    int ranks = 1, nodes = 1;
    BytesPerSecond ring;       // of the group inside a node
    BytesPerSecond inter;      // of the group from one node to the next, over all its NICs there
    BytesPerSecond pair;       // from one member to the next, the slowest one
    BytesPerSecond inside;     // what a member exchanges with members on its own node
    BytesPerSecond between;    // with members on others
    std::vector<int> node_of;  // per member
    friend bool operator==(const RingPath&, const RingPath&) = default;
};

// For any list of ranks. Assumes that groups of the same shape fill the cluster, so a group gets
// the share of a node's NICs that its members are of the node's ranks, and the node with the fewest
// members limits it. Ignores leaf switches and oversubscription. In both functions, a ring with
// some, but neither one nor all, of a node's ranks reaches cluster.network.partial_ring of its
// NICs' rate.
RingPath ring_path(std::span<const int> members, const Cluster& cluster);

// For a group given as a rule. Every rank of the cluster communicates in such a group at the same
// time.
// - Ring collectives run as channels, one for every member on a node: channel c enters and leaves a
//   node at its c-th member, so that a group uses the NICs of all its members. With m members on
//   each of several nodes the hop from a member to the next carries (m - 1) / m of the traffic;
//   inside one node the ring closes and carries all of it. Bus bandwidth of the whole = min(ring,
//   inter). In a mesh, rings take different ways over the direct links between the members
//   (sim/network/mesh_rings.h).
// - Neighbours: each member sends to the next of the group (the last to the first), one message on
//   one route.
// - All-to-all: each member sends the same to every other.
// The load of a link is the sum over all groups that route over it. A route gets the least
// bandwidth / load of its links. Loads are exact on the nodes below the first leaf of the group
// that begins at rank `group.first`; others are assumed alike. Throws ConfigError when the cluster
// is disconnected, std::logic_error when the group does not fit into the cluster or its strides are
// not nested.
RingPath ring_path(const Group& group, const Cluster& cluster);

// The same for many groups of one cluster, which must outlive this object. Each path is found when
// first asked for.
class RingPaths {
public:
    explicit RingPaths(const Cluster& cluster)
        : cluster_(cluster), topology_(topology_of(cluster)), routes_(topology_) {}
    RingPaths(const RingPaths&) = delete;
    RingPaths& operator=(const RingPaths&) = delete;
    [[nodiscard]] const RingPath& of(const Group& group);

private:
    const Cluster& cluster_;
    Topology topology_;
    Routes routes_;
    std::map<Group, RingPath> known_;  // references to its elements stay valid
};

// Whether every group has the same path on both clusters: links, network and nodes are equal.
bool same_paths(const Cluster& a, const Cluster& b);

}  // namespace stepcast
