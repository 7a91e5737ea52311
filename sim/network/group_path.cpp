#include "sim/network/group_path.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "sim/network/link_loads.h"

namespace stepcast {
namespace {

int floor_div(int a, int b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }
int floor_mod(int a, int b) { return a - floor_div(a, b) * b; }

// Members of a group on one node, ascending.
struct Run {
    int node = 0;
    std::vector<int> locals;
    [[nodiscard]] int size() const { return static_cast<int>(locals.size()); }
};
using Runs = std::vector<Run>;  // by node

// All groups of one shape over the ranks of a cluster.
class Tiling {
public:
    Tiling(const Group& group, const Topology& topology)
        : g_(group),
          ranks_(topology.nodes * topology.ranks_per_node),
          per_node_(topology.ranks_per_node),
          extent_((group.ranks - 1) * group.stride + (group.outer_ranks - 1) * group.outer_stride) {
        const bool nested = g_.outer_ranks == 1 || g_.outer_stride >= g_.ranks * g_.stride;
        if (g_.ranks < 1 || g_.outer_ranks < 1 || g_.stride < 1 || !nested || !fits(g_.first))
            throw std::logic_error(
                fmt::format("group of {} x {} ranks, {} and {} apart, from rank {} in blocks of {}: "
                            "not nested, or beyond {} ranks",
                            g_.ranks, g_.outer_ranks, g_.stride, g_.outer_stride, g_.first, g_.block, ranks_));
        anchor_ = g_.first / g_.stride % g_.ranks * g_.stride;
        if (g_.outer_ranks > 1) anchor_ += g_.first / g_.outer_stride % g_.outer_ranks * g_.outer_stride;
    }

    // First ranks of the groups with a member on nodes begin <= n < end, ascending.
    [[nodiscard]] std::vector<int> groups_on(int begin, int end) const {
        std::vector<int> firsts;
        for (int rank = begin * per_node_; rank < end * per_node_; ++rank) add_groups_of(rank, firsts);
        std::sort(firsts.begin(), firsts.end());
        firsts.erase(std::unique(firsts.begin(), firsts.end()), firsts.end());
        return firsts;
    }

    [[nodiscard]] Runs runs_of(int first) const {
        Runs runs;
        for (int j = 0; j < g_.outer_ranks; ++j)
            for (int i = 0; i < g_.ranks; ++i) {
                const int rank = first + i * g_.stride + j * g_.outer_stride;
                if (runs.empty() || runs.back().node != rank / per_node_) runs.push_back({rank / per_node_, {}});
                runs.back().locals.push_back(rank % per_node_);
            }
        return runs;
    }

private:
    [[nodiscard]] bool fits(int first) const {
        return first >= 0 && first + extent_ < ranks_ && (g_.block == 0 || first % g_.block + extent_ < g_.block);
    }
    void add_groups_of(int rank, std::vector<int>& firsts) const {
        if (g_.block == 0) {
            const int at = rank - anchor_;
            int first = rank - floor_mod(floor_div(at, g_.stride), g_.ranks) * g_.stride;
            if (g_.outer_ranks > 1)
                first -= floor_mod(floor_div(at, g_.outer_stride), g_.outer_ranks) * g_.outer_stride;
            if (fits(first)) firsts.push_back(first);
            return;
        }
        for (int j = 0; j < g_.outer_ranks; ++j)
            for (int i = 0; i < g_.ranks; ++i)
                if (const int first = rank - i * g_.stride - j * g_.outer_stride; fits(first)) firsts.push_back(first);
    }

    Group g_;
    int ranks_, per_node_, extent_;
    int anchor_ = 0;
};

int largest_run(const Runs& runs) {
    return std::ranges::max_element(runs, {}, &Run::size)->size();
}

// Ring flows of one group with an end in the focus: call(flow, weight, inside a node).
template <class Call>
void for_ring(const Runs& runs, const LinkLoads& focus, const Call& call) {
    const bool one_node = runs.size() == 1;
    const int channels = largest_run(runs);
    for (std::size_t x = 0; x < runs.size(); ++x) {
        const Run &run = runs[x], &next = runs[(x + 1) % runs.size()];
        const int m = run.size();
        if (focus.holds(run.node) && m > 1)
            for (int i = 0; i < m; ++i)
                call(Flow{run.node, run.locals[static_cast<std::size_t>(i)], run.node,
                          run.locals[static_cast<std::size_t>((i + 1) % m)]},
                     one_node ? 1.0 : (m - 1.0) / m, true);
        if (one_node || (!focus.holds(run.node) && !focus.holds(next.node))) continue;
        for (int c = 0; c < channels; ++c)
            call(Flow{run.node, run.locals[static_cast<std::size_t>(c * m / channels)], next.node,
                      next.locals[static_cast<std::size_t>(c * next.size() / channels)]},
                 1.0 / channels, false);
    }
}

// Each member to the next: call(flow).
template <class Call>
void for_neighbours(const Runs& runs, bool closed, const LinkLoads& focus, const Call& call) {
    for (std::size_t x = 0; x < runs.size(); ++x) {
        const Run &run = runs[x], &next = runs[(x + 1) % runs.size()];
        const bool last = x + 1 == runs.size();
        if (focus.holds(run.node))
            for (std::size_t i = 0; i + 1 < run.locals.size(); ++i)
                call(Flow{run.node, run.locals[i], run.node, run.locals[i + 1]});
        const bool single = runs.size() == 1 && run.size() == 1;
        if (single || (last && !closed) || (!focus.holds(run.node) && !focus.holds(next.node))) continue;
        call(Flow{run.node, run.locals.back(), next.node, next.locals.front()});
    }
}

// What the members on one node of the focus exchange with all others, those at one place of a node taken together:
// call(flow, number of such, sent by this node).
template <class Call>
void for_exchange(const Runs& runs, const Topology& topology, const LinkLoads& focus, const Call& call) {
    const auto places = static_cast<std::size_t>(topology.ranks_per_node);
    std::vector<int> below_leaf(places), beyond(places);
    for (const Run& run : runs)
        for (const int local : run.locals)
            ++(focus.holds(run.node) ? below_leaf : beyond)[static_cast<std::size_t>(local)];
    for (const Run& run : runs) {
        if (!focus.holds(run.node)) continue;
        auto siblings = below_leaf;
        for (const int local : run.locals) --siblings[static_cast<std::size_t>(local)];
        const int neighbour = run.node == focus.begin() ? focus.begin() + 1 : focus.begin();
        const int stranger = focus.begin() == 0 ? focus.end() : 0;
        for (const int local : run.locals) {
            for (const int other : run.locals)
                if (other != local) call(Flow{run.node, local, run.node, other}, 1, true);
            for (int place = 0; place < topology.ranks_per_node; ++place)
                for (const auto& [node, counts] : {std::pair{neighbour, &siblings}, std::pair{stranger, &beyond}})
                    if (const int count = (*counts)[static_cast<std::size_t>(place)]; count > 0) {
                        call(Flow{run.node, local, node, place}, count, true);
                        call(Flow{node, place, run.node, local}, count, false);
                    }
        }
    }
}

BytesPerSecond rate(double occupation) { return BytesPerSecond(1 / occupation); }

void add_ring(LinkLoads& loads, const Tiling& tiling) {
    for (const int first : tiling.groups_on(loads.begin(), loads.end()))
        for_ring(tiling.runs_of(first), loads, [&](const Flow& flow, double weight, bool) { loads.add(flow, weight); });
}
void add_neighbours(LinkLoads& loads, const Tiling& tiling, bool closed) {
    for (const int first : tiling.groups_on(loads.begin(), loads.end()))
        for_neighbours(tiling.runs_of(first), closed, loads, [&](const Flow& flow) { loads.add(flow, 1); });
}

void fill_ring(GroupPath& path, LinkLoads loads, const Tiling& tiling, const Runs& runs) {
    add_ring(loads, tiling);
    double inside = 0, between = 0;
    for_ring(runs, loads, [&](const Flow& flow, double, bool in_node) {
        double& worst = in_node ? inside : between;
        worst = std::max(worst, loads.occupation(flow));
    });
    path.ring = rate(inside);
    path.inter = rate(between);
}

void fill_pair(GroupPath& path, LinkLoads loads, const Tiling& tiling, const Runs& runs, bool closed) {
    add_neighbours(loads, tiling, closed);
    double worst = 0;
    for_neighbours(runs, closed, loads, [&](const Flow& flow) {
        worst = std::max(worst, loads.occupation(flow));
        path.hops = std::max(path.hops, loads.links_of(flow));
    });
    path.pair = rate(worst);
}

void fill_all_to_all(GroupPath& path, LinkLoads loads, const Tiling& tiling, const Topology& topology,
                     const Runs& runs) {
    const double share = 1.0 / std::max(1, path.ranks - 1);
    for (const int first : tiling.groups_on(loads.begin(), loads.end()))
        for_exchange(tiling.runs_of(first), topology, loads, [&](const Flow& flow, int count, bool sent) {
            sent ? loads.add_leaving(flow, share * count) : loads.add_arriving(flow, share * count);
        });
    double inside = 0, between = 0;
    for_exchange(runs, topology, loads, [&](const Flow& flow, int, bool) {
        double& worst = flow.node == flow.to_node ? inside : between;
        worst = std::max(worst, loads.occupation(flow));
    });
    path.node_all_to_all = (path.per_node - 1) * share * rate(inside);
    path.all_to_all = (path.ranks - path.per_node) * share * rate(between);
    // A side without traffic has no limit.
    if (inside == 0) path.node_all_to_all = rate(0);
    if (between == 0) path.all_to_all = rate(0);
}

GroupPath path_over(const Group& group, const Topology& topology, Routes& routes) {
    const Tiling tiling(group, topology);
    const Runs runs = tiling.runs_of(group.first);
    const LinkLoads idle(topology, routes, runs.front().node);
    GroupPath path;
    path.ranks = group.size();
    path.per_node = largest_run(runs);
    path.nodes = static_cast<int>(runs.size());
    fill_ring(path, idle, tiling, runs);
    fill_pair(path, idle, tiling, runs, group.block == 0);
    fill_all_to_all(path, idle, tiling, topology, runs);
    return path;
}

}  // namespace

GroupPath path_of(const Group& group, const Cluster& cluster) {
    const Topology topology = topology_of(cluster);
    Routes routes(topology);
    return path_over(group, topology, routes);
}

const GroupPath& GroupPaths::of(const Group& group) {
    const auto found = std::find_if(known_.begin(), known_.end(), [&](const auto& k) { return k.first == group; });
    if (found != known_.end()) return found->second;
    return known_.emplace_back(group, path_over(group, topology_, routes_)).second;
}

double share(const Topology& topology, const Group& a, const Group& b) {
    const Tiling tiling(a, topology);
    const Runs runs = tiling.runs_of(a.first);
    Routes routes(topology);
    LinkLoads mine(topology, routes, runs.front().node);
    LinkLoads theirs = mine;
    a.block > 0 ? add_neighbours(mine, tiling, false) : add_ring(mine, tiling);
    b.block > 0 ? add_neighbours(theirs, Tiling(b, topology), false) : add_ring(theirs, Tiling(b, topology));
    const auto for_flows = [&](const auto& call) {
        if (a.block > 0)
            for_neighbours(runs, false, mine, call);
        else
            for_ring(runs, mine, [&](const Flow& flow, double, bool) { call(flow); });
    };
    double alone = 0, slowdown = 1;
    for_flows([&](const Flow& flow) { alone = std::max(alone, mine.occupation(flow)); });
    const double other = theirs.greatest_occupation();
    if (alone == 0 || other == 0) return slowdown;
    for_flows([&](const Flow& flow) {
        mine.compare(flow, theirs, [&](double of_mine, double of_theirs) {
            slowdown = std::max(slowdown, of_mine / alone / std::max(0.5, 1 - of_theirs / other));
        });
    });
    return slowdown;
}

}  // namespace stepcast
