#include "sim/network/ring_path.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <tuple>

#include <fmt/format.h>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/rank_groups.h"
#include "sim/network/link_loads.h"
#include "sim/network/mesh_rings.h"

namespace stepcast {
namespace {

int floor_div(int a, int b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }
int floor_mod(int a, int b) { return a - floor_div(a, b) * b; }

// The members of a group on one node, ascending.
struct Run {
    int node = 0;
    std::vector<int> locals;
    [[nodiscard]] int size() const { return as_int(locals.size()); }
    [[nodiscard]] int at(int i) const { return locals[as_index(i)]; }
};
using Runs = std::vector<Run>;  // by node

// All groups of one shape over the ranks of a cluster.
class RingTiling {
public:
    RingTiling(const Group& group, const Topology& topology)
        : g_(group),
          ranks_(topology.nodes * topology.ranks_per_node),
          per_node_(topology.ranks_per_node),
          extent_((group.ranks - 1) * group.stride + (group.outer_ranks - 1) * group.outer_stride) {
        const bool nested = g_.outer_ranks == 1 || g_.outer_stride >= g_.ranks * g_.stride;
        if (g_.ranks < 1 || g_.outer_ranks < 1 || g_.stride < 1 || !nested || !fits(g_.first))
            throw std::logic_error(fmt::format(
                "group of {} x {} ranks, {} and {} apart, from rank {} in blocks of {}: "
                "not nested, or beyond {} ranks",
                g_.ranks, g_.outer_ranks, g_.stride, g_.outer_stride, g_.first, g_.block, ranks_));
        anchor_ = g_.first / g_.stride % g_.ranks * g_.stride;
        if (g_.outer_ranks > 1)
            anchor_ += g_.first / g_.outer_stride % g_.outer_ranks * g_.outer_stride;
    }

    // First ranks of the groups with a member on nodes begin <= n < end, ascending.
    [[nodiscard]] std::vector<int> groups_on(int begin, int end) const {
        std::vector<int> firsts;
        for (int rank = begin * per_node_; rank < end * per_node_; ++rank)
            add_groups_of(rank, firsts);
        std::ranges::sort(firsts);
        firsts.erase(std::ranges::unique(firsts).begin(), firsts.end());
        return firsts;
    }

    [[nodiscard]] Runs runs_of(int first) const {
        Runs runs;
        for (const int rank : members(g_, first)) {
            if (runs.empty() || runs.back().node != rank / per_node_)
                runs.push_back({rank / per_node_, {}});
            runs.back().locals.push_back(rank % per_node_);
        }
        return runs;
    }

private:
    [[nodiscard]] bool fits(int first) const {
        return first >= 0 && first + extent_ < ranks_ &&
               (g_.block == 0 || first % g_.block + extent_ < g_.block);
    }
    void add_groups_of(int rank, std::vector<int>& firsts) const {
        if (g_.block == 0) {
            const int at = rank - anchor_;
            int first = rank - floor_mod(floor_div(at, g_.stride), g_.ranks) * g_.stride;
            if (g_.outer_ranks > 1)
                first -=
                    floor_mod(floor_div(at, g_.outer_stride), g_.outer_ranks) * g_.outer_stride;
            if (fits(first)) firsts.push_back(first);
            return;
        }
        for (int j = 0; j < g_.outer_ranks; ++j)
            for (int i = 0; i < g_.ranks; ++i)
                if (const int first = rank - i * g_.stride - j * g_.outer_stride; fits(first))
                    firsts.push_back(first);
    }

    Group g_;
    int ranks_, per_node_, extent_;
    int anchor_ = 0;
};

int largest_run(const Runs& runs) { return std::ranges::max_element(runs, {}, &Run::size)->size(); }

// The next three functions report a group's flows with an end in the focus: call(flow, load on the
// sender's side, on the receiver's).

// A ring. With several nodes it runs as channels.
template <class Call>
void for_ring(const Runs& runs, const LinkLoads& focus, const Call& call) {
    const bool one_node = runs.size() == 1;
    const int channels = largest_run(runs);
    const auto both = [&](const Flow& flow, double weight) { call(flow, weight, weight); };
    for (const std::size_t x : indices_of(runs)) {
        const Run &run = runs[x], &next = runs[(x + 1) % runs.size()];
        const int m = run.size();
        if (focus.holds(run.node) && m > 1)
            for (int i = 0; i < m; ++i)
                both({run.node, run.at(i), run.node, run.at((i + 1) % m)},
                     one_node ? 1.0 : (m - 1.0) / m);
        if (one_node || (!focus.holds(run.node) && !focus.holds(next.node))) continue;
        for (int c = 0; c < channels; ++c)
            both({run.node, run.at(c * m / channels), next.node,
                  next.at(c * next.size() / channels)},
                 1.0 / channels);
    }
}

// Each member sends to the next, and the last to the first if the groups are closed.
template <class Call>
void for_neighbours(const Runs& runs, bool closed, const LinkLoads& focus, const Call& call) {
    for (const std::size_t x : indices_of(runs)) {
        const Run &run = runs[x], &next = runs[(x + 1) % runs.size()];
        const bool last = x + 1 == runs.size();
        if (focus.holds(run.node))
            for (std::size_t i = 0; i + 1 < run.locals.size(); ++i)
                call({run.node, run.locals[i], run.node, run.locals[i + 1]}, 1, 1);
        const bool single = runs.size() == 1 && run.size() == 1;
        if (single || (last && !closed) || (!focus.holds(run.node) && !focus.holds(next.node)))
            continue;
        call({run.node, run.locals.back(), next.node, next.locals.front()}, 1, 1);
    }
}

// Members on each node of the focus exchange `share` with every other member. Members at one place
// of other nodes count together.
template <class Call>
void for_exchange(const Runs& runs, double share, std::size_t places, const LinkLoads& focus,
                  const Call& call) {
    std::vector<int> below_leaf(places), beyond(places);
    for (const Run& run : runs)
        for (const int local : run.locals)
            ++(focus.holds(run.node) ? below_leaf : beyond)[as_index(local)];
    for (const Run& run : runs) {
        if (!focus.holds(run.node)) continue;
        auto siblings = below_leaf;
        for (const int local : run.locals) --siblings[as_index(local)];
        const int neighbour = run.node == focus.begin() ? focus.begin() + 1 : focus.begin();
        const int stranger = focus.begin() == 0 ? focus.end() : 0;
        for (const int local : run.locals) {
            for (const int other : run.locals)
                if (other != local) call({run.node, local, run.node, other}, share, 0);
            for (std::size_t at = 0; at < places; ++at)
                for (const auto& [node, counts] :
                     {std::pair{neighbour, &siblings}, std::pair{stranger, &beyond}})
                    if (const double weight = share * (*counts)[at]; weight > 0) {
                        call({run.node, local, node, as_int(at)}, weight, 0);
                        call({node, as_int(at), run.node, local}, 0, weight);
                    }
        }
    }
}

// What the slowest links of one group carry, inside its nodes and between them, while all groups
// communicate.
struct Rates {
    BytesPerSecond inside, between;
};
template <class Flows>
Rates rates_of(const RingTiling& tiling, const Runs& runs, bool unlike, LinkLoads loads,
               const Flows& for_flows) {
    for (const int first : tiling.groups_on(loads.begin(), loads.end()))
        for_flows(tiling.runs_of(first), loads,
                  [&](const Flow& flow, double leaving, double arriving) {
                      loads.add(flow, leaving, arriving);
                  });
    double inside = 0, between = 0;
    const auto wait_for = [&](const Flow& flow, double, double) {
        double& longest = flow.node == flow.to_node ? inside : between;
        longest = std::max(longest, loads.occupation(flow));
    };
    for_flows(runs, loads, wait_for);
    if (unlike)  // as the groups' links are, and a step waits for the slowest group
        for (const int first : tiling.groups_on(loads.begin(), loads.end()))
            for_flows(tiling.runs_of(first), loads, wait_for);
    return {BytesPerSecond(1 / inside), BytesPerSecond(1 / between)};
}

std::vector<int> nodes_of(std::span<const int> members, const Cluster& cluster) {
    std::vector<int> nodes;
    for (const int rank : members) nodes.push_back(rank / cluster.gpus_per_node);
    return nodes;
}

// A ring with some, but neither one nor all, of a node's ranks is slower: channels of concurrent
// communicators meet on the same NICs.
double ring_share(int per_node, const Cluster& cluster) {
    return per_node > 1 && per_node < cluster.gpus_per_node ? cluster.network.partial_ring : 1;
}

// What the rings over the members on a node reach; `counted` over routes where no ring of direct
// links joins them. Between nodes the channels leave out one of the m hops on a node, so each hop
// carries (m - 1) / m of the traffic.
BytesPerSecond in_mesh(const std::set<std::vector<int>>& members_of_nodes, bool one_node,
                       const Cluster& cluster, BytesPerSecond counted) {
    BytesPerSecond slowest = unlimited;
    for (const auto& locals : members_of_nodes) {
        const auto m = real(locals.size());
        if (m < 2) continue;
        const BytesPerSecond rings = mesh_rings(locals, cluster);
        if (rings == BytesPerSecond(0)) return counted;
        slowest = std::min(slowest, one_node ? rings : rings * (m / (m - 1)));
    }
    return slowest;
}

Rates over_direct_links(const RingTiling& tiling, const Runs& runs, const Cluster& cluster,
                        const LinkLoads& focus, Rates ring) {
    if (cluster.fabric != Fabric::nvlink_mesh) return ring;
    std::set<std::vector<int>> members_of_nodes;
    for (const int first : tiling.groups_on(focus.begin(), focus.end()))
        for (const Run& run : tiling.runs_of(first)) members_of_nodes.insert(run.locals);
    ring.inside = in_mesh(members_of_nodes, runs.size() == 1, cluster, ring.inside);
    return ring;
}

RingPath counted(const Group& group, const Cluster& cluster, const Topology& topology,
                 Routes& routes) {
    const RingTiling tiling(group, topology);
    const Runs runs = tiling.runs_of(group.first);
    const LinkLoads idle(topology, routes, runs.front().node);
    const int ranks = group.size(), per_node = largest_run(runs);
    const double share = 1.0 / std::max(1, ranks - 1);
    const auto rates = [&](const auto& for_flows) {
        return rates_of(tiling, runs, cluster.fabric == Fabric::nvlink_mesh, idle, for_flows);
    };
    const Rates ring = over_direct_links(tiling, runs, cluster, idle,
                                         rates([](const auto&... args) { for_ring(args...); }));
    const Rates pair = rates([&](const Runs& of, const LinkLoads& focus, const auto& call) {
        for_neighbours(of, group.block == 0, focus, call);
    });
    const Rates all = rates([&](const Runs& of, const LinkLoads& focus, const auto& call) {
        for_exchange(of, share, as_index(topology.ranks_per_node), focus, call);
    });
    // A side without traffic has no limit, so no share of it is taken.
    const auto shared = [&](BytesPerSecond rate, int others) {
        return rate == unlimited ? rate : others * share * rate;
    };
    return {.ranks = ranks,
            .nodes = as_int(runs.size()),
            .ring = ring.inside,
            .inter = ring.between * ring_share(per_node, cluster),
            .pair = std::min(pair.inside, pair.between),
            .inside = shared(all.inside, per_node - 1),
            .between = shared(all.between, ranks - per_node),
            .node_of = nodes_of(members(group, group.first), cluster)};
}

// A list of ranks that no rule describes: its rings inside the nodes, and where none close, the way
// through the host or over others.
BytesPerSecond of_mesh(std::span<const int> members, const Cluster& cluster) {
    std::map<int, std::vector<int>> on;
    for (const int rank : members)
        on[rank / cluster.gpus_per_node].push_back(rank % cluster.gpus_per_node);
    std::set<std::vector<int>> members_of_nodes;
    for (const auto& [node, locals] : on) members_of_nodes.insert(locals);
    const auto through_host = cluster.intra.host_bandwidth;
    return in_mesh(members_of_nodes, on.size() == 1, cluster,
                   through_host > BytesPerSecond(0) ? through_host : least_link(cluster));
}

}  // namespace

RingPath ring_path(std::span<const int> members, const Cluster& cluster) {
    RingPath path{as_int(members.size()), 1, {}, unlimited, {}, {}, {}, nodes_of(members, cluster)};
    std::map<int, int> members_on;
    for (const int node : path.node_of) ++members_on[node];
    path.nodes = as_int(members_on.size());
    const bool joined = path.ranks == 2 && members[0] / 2 == members[1] / 2;
    path.ring = cluster.fabric == Fabric::nvlink_pairs && joined ? cluster.intra.pair_bandwidth
                : cluster.fabric == Fabric::nvlink_mesh          ? of_mesh(members, cluster)
                                                                 : cluster.intra.bandwidth;
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
    return RingPaths(cluster).of(group);
}

const RingPath& RingPaths::of(const Group& group) {
    if (const auto at = value_in(known_, group)) return *at;
    return known_.emplace(group, counted(group, cluster_, topology_, routes_)).first->second;
}

bool same_paths(const Cluster& a, const Cluster& b) {
    const auto links = [](const Cluster& c) {
        return std::tie(c.nodes, c.gpus_per_node, c.fabric, c.network, c.intra.bandwidth,
                        c.intra.pair_bandwidth, c.intra.mesh, c.intra.host_bandwidth,
                        c.intra.socket_bandwidth, c.inter.bandwidth);
    };
    return links(a) == links(b);
}

}  // namespace stepcast
