// How much traffic each link carries, counted on a representative part of the machine: the nodes
// below one leaf (the focus). Their routes are those between the three nodes that a Topology shows.
#pragma once

#include <vector>

#include "sim/network/topology.h"

namespace stepcast {

// Traffic from one rank to another, each given by its node and its place on the node.
struct Flow {
    int node = 0, local = 0, to_node = 0, to_local = 0;
};

class LinkLoads {
public:
    // The focus is the leaf of `node`. `routes` must be those of the topology, and both must
    // outlive this object.
    LinkLoads(const Topology& topology, Routes& routes, int node);

    [[nodiscard]] int begin() const { return begin_; }  // nodes of the focus
    [[nodiscard]] int end() const { return end_; }
    [[nodiscard]] bool holds(int node) const { return node >= begin_ && node < end_; }

    // Adds to the links of the route that lie in the focus: `leaving` to those on the sender's side
    // of the spine, `arriving` to those on the receiver's side. If both ends are below one leaf,
    // the links of that leaf count as the sender's.
    void add(const Flow& flow, double leaving, double arriving);

    // In s/byte: how long a unit of traffic on every flow occupies the slowest link of this route
    // in the focus.
    [[nodiscard]] double occupation(const Flow& flow);

private:
    const std::vector<int>& route(const Flow& flow);
    template <class Call>
    void visit(const Flow& flow, bool leaving, const Call& call);

    const Topology& topology_;
    Routes& routes_;
    int begin_, end_;
    // First the links of the nodes of the focus, then those of its leaves.
    std::vector<double> loads_, per_byte_;
};

}  // namespace stepcast
