#include "sim/network/link_loads.h"

#include <algorithm>

#include "model/base/numbers.h"

namespace stepcast {

LinkLoads::LinkLoads(const Topology& topology, Routes& routes, int node)
    : topology_(topology),
      routes_(routes),
      begin_(node / topology.nodes_per_leaf * topology.nodes_per_leaf),
      end_(std::min(topology.nodes, begin_ + topology.nodes_per_leaf)) {
    const auto take = [&](int first_link, int count) {
        for (int link = first_link; link < first_link + count; ++link) {
            const double bandwidth = topology.links[as_index(link)].bandwidth.si();
            // no route uses a link without bandwidth
            per_byte_.push_back(bandwidth > 0 ? 1 / bandwidth : 0);
        }
    };
    for (int n = begin_; n < end_; ++n) take(0, topology.links_per_node);
    take(topology.shown_nodes * topology.links_per_node, topology.links_per_leaf_group);
    loads_.resize(per_byte_.size());
}

const std::vector<int>& LinkLoads::route(const Flow& flow) {
    const bool one_leaf =
        flow.node / topology_.nodes_per_leaf == flow.to_node / topology_.nodes_per_leaf;
    const int receiver = flow.node == flow.to_node ? 0
                         : one_leaf                ? 1
                                                   : topology_.nodes_of_first_leaf;
    return routes_.between(0, flow.local, receiver, flow.to_local);
}

// The topology shows the sender as its first node below its first leaf.
template <class Call>
void LinkLoads::visit(const Flow& flow, bool leaving, const Call& call) {
    const int node = leaving ? flow.node : flow.to_node;
    if (!holds(node)) return;
    const int links_of_nodes = topology_.shown_nodes * topology_.links_per_node;
    for (const int link : route(flow)) {
        const bool of_node = link < links_of_nodes;
        const int per_owner = of_node ? topology_.links_per_node : topology_.links_per_leaf_group;
        const int among = of_node ? link : link - links_of_nodes;
        if (leaving != (among / per_owner == 0)) continue;
        const int owner = of_node ? node - begin_ : end_ - begin_;
        call(as_index(owner * topology_.links_per_node + among % per_owner));
    }
}

void LinkLoads::add(const Flow& flow, double leaving, double arriving) {
    if (leaving > 0) visit(flow, true, [&](std::size_t position) { loads_[position] += leaving; });
    if (arriving > 0)
        visit(flow, false, [&](std::size_t position) { loads_[position] += arriving; });
}

double LinkLoads::occupation(const Flow& flow) {
    double most = 0;
    for (const bool leaving : {true, false})
        visit(flow, leaving, [&](std::size_t position) {
            most = std::max(most, loads_[position] * per_byte_[position]);
        });
    return most;
}

}  // namespace stepcast
