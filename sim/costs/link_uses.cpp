// A collective fills the link that limits it during the part of its duration that is due to
// bandwidth; without bandwidth limits only starts and rounds would be left. Of another link of its
// path, with rate R, it takes r / R at its rate r. If ranks of a node talk over PCIe, what goes to
// other nodes also crosses the rank's own link to its node.
#include <algorithm>

#include "model/base/numbers.h"
#include "model/graph/op.h"
#include "sim/costs/price_classes.h"

namespace stepcast {
namespace {

RingPath without_limits(RingPath path) {
    path.ring = path.inter = path.pair = path.inside = path.between = unlimited;
    return path;
}

double part(BytesPerSecond rate, BytesPerSecond of) { return std::min(1.0, rate / of); }

LinkUse use_of(const Op& op, Seconds time, const RingPath& path, const Cluster& cluster) {
    LinkUse use;
    use.message = std::holds_alternative<SendRecv>(op);
    if (time <= Seconds(0) || path.ranks <= 1) return use;
    const double filled =
        std::clamp(1 - time_in_step(op, without_limits(path), cluster) / time, 0.0, 1.0);
    double nodes = 0, node = 0;
    if (path.nodes <= 1) {
        node = filled;
    } else if (use.message || std::holds_alternative<AllToAll>(op)) {
        nodes = filled;
        const BytesPerSecond rate = use.message ? path.pair : path.between;
        if (!joins_gpus(cluster.fabric)) node = filled * part(rate, cluster.intra.bandwidth);
    } else {
        const BytesPerSecond rate = std::min(path.ring, path.inter);
        nodes = filled * part(rate, path.inter);
        node =
            filled * part(rate, joins_gpus(cluster.fabric) ? path.ring : cluster.intra.bandwidth);
    }
    use.demand = {nodes, nodes, node, node};
    return use;
}

// Whether two lanes of some rank want the same link.
bool meet(const TaskGraph& graph, const LinkUses& links) {
    std::vector<std::array<int, rank_links>> lane_of(as_index(graph.rank_count()),
                                                     {-1, -1, -1, -1});
    for (TaskId t = 0; t < graph.size(); ++t) {
        const LinkUse& use = links.uses[links.of_task[t]];
        for (const Place& place : graph.places(t))
            for (std::size_t l = 0; l < rank_links; ++l) {
                if (use.demand[l] == 0) continue;
                int& lane = lane_of[as_index(place.rank())][l];
                if (lane >= 0 && lane != as_int(place.lane())) return true;
                lane = as_int(place.lane());
            }
    }
    return false;
}

}  // namespace

LinkUses PriceClasses::links(std::span<const Seconds> prices, const Paths& paths,
                             const Cluster& cluster) const {
    if (!cluster.interference.shared_links) return {};
    LinkUses links;
    links.uses.push_back({});
    std::vector<std::uint16_t> of_class(size());
    for (std::uint32_t c = 0; c < size(); ++c) {
        const TaskId t = examples_[c];
        const Place first = graph_.places(t).front();
        if (first.lane() == Lane::compute || first.lane() == Lane::host) continue;
        std::vector<int> members;
        for (const Place& place : graph_.places(t)) members.push_back(place.rank());
        const GroupId group = graph_.group_id(t);
        const LinkUse use =
            use_of(graph_.op(t), prices[c],
                   group != 0 ? paths.at(group) : ring_path(members, cluster), cluster);
        const auto known = std::ranges::find(links.uses, use);
        of_class[c] = static_cast<std::uint16_t>(known - links.uses.begin());
        if (known == links.uses.end()) links.uses.push_back(use);
    }
    for (const std::uint32_t c : class_of_) links.of_task.push_back(of_class[c]);
    return meet(graph_, links) ? links : LinkUses{};
}

}  // namespace stepcast
