// The machine as a graph of ranks, switches, NICs and directed links, with the routes over it. It
// knows no groups and no traffic (sim/network/ring_path.h). Boost.Graph stays in topology.cpp.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "model/cluster.h"

namespace stepcast {

inline constexpr BytesPerSecond unlimited(std::numeric_limits<double>::infinity());

struct TopologyVertex {
    enum class Kind : std::uint8_t { rank, node_switch, pcie_switch, socket, nic, leaf, spine };
    Kind kind = Kind::rank;
    int owner = 0;  // the node; for a leaf the group of nodes that it joins; 0 for the spine
    int index = 0;  // among those of its kind and owner
    friend bool operator==(const TopologyVertex&, const TopologyVertex&) = default;
};

// One direction of a link. The bandwidth is infinite if only the neighbouring links limit it
// (between a NIC and its host).
struct TopologyLink {
    int from = 0, to = 0;
    BytesPerSecond bandwidth;
    friend bool operator==(const TopologyLink&, const TopologyLink&) = default;
};

// All nodes have the same vertices and links in the same order, and so have all groups of nodes
// below the spine. Vertices and links are stored node by node, then group by group, with the spine
// last.
struct Topology {
    int nodes = 1, ranks_per_node = 1, nodes_per_leaf = 1;  // of the cluster
    // of a node, at most one for each rank; 0 with one node
    int nics = 0;
    bool rails = false;
    bool relayed = false;  // a rank passes what goes to another rail to the neighbour on that rail
    int shown_nodes = 1, shown_leaf_groups = 0;
    int nodes_of_first_leaf = 1;  // of the shown nodes
    int vertices_per_node = 0, links_per_node = 0, links_per_leaf_group = 0;
    std::vector<TopologyVertex> vertices;
    std::vector<TopologyLink> links;
    friend bool operator==(const Topology&, const Topology&) = default;
};

// representative: two nodes below one leaf and one below another, as far as the cluster has them.
// All nodes and leaves are alike, so each route of the cluster looks like one between these three.
enum class Extent : std::uint8_t { representative, whole };

// nvswitch: one switch joins all ranks of a node at link.intra.bandwidth. nvlink_mesh: each two
// ranks that NVLinks join are joined by mesh_bandwidth(); what is for another rank goes over a
// third one, or over a tree as of pcie with link.intra.host_bandwidth. pcie: two ranks share a PCIe
// switch, and the switches hang on two sockets; each link has link.intra.bandwidth, the one between
// the sockets link.intra.socket_bandwidth. nvlink_pairs: the same tree, and ranks 2i and 2i + 1 are
// joined at link.intra.pair_bandwidth. NIC i serves the i-th share of a node's ranks and is plugged
// in next to them. If there are more NICs than ranks, each rank has one NIC that is faster by that
// factor. A leaf joins NIC i of nodes_per_leaf nodes (rails) or all their NICs. The link from a
// leaf to the spine carries what its NICs do, divided by the oversubscription. Throws ConfigError
// when a rank cannot reach another.
Topology topology_of(const Cluster& cluster, Extent extent = Extent::representative);

// Routes between ranks, found when first asked for. A rank uses the NIC that serves it, or passes
// data to the rank on the receiver's rail (Topology::relayed). Between these points a route has the
// fewest links.
class Routes {
public:
    explicit Routes(const Topology& topology);  // which must outlive it
    ~Routes();
    Routes(const Routes&) = delete;
    Routes& operator=(const Routes&) = delete;

    // The links, in order, from rank `local` of a shown node to a rank of the same or another shown
    // node.
    [[nodiscard]] const std::vector<int>& between(int node, int local, int to_node, int to_local);

private:
    struct Search;
    std::unique_ptr<Search> search_;
};

}  // namespace stepcast
