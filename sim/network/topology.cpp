#include "sim/network/topology.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <unordered_map>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/connected_components.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"

namespace stepcast {
namespace {

using VertexKind = TopologyVertex::Kind;

constexpr int ranks_per_pcie_switch = 2;

class Builder {
public:
    Builder(const Cluster& cluster, Extent extent) : c_(cluster) {
        t_.nodes = c_.nodes;
        t_.ranks_per_node = c_.gpus_per_node;
        t_.nodes_per_leaf = c_.network.nodes_per_leaf;
        const bool networked = c_.nodes > 1;
        if (networked)
            t_.nics = c_.network.nics == 0 ? c_.gpus_per_node
                                           : std::min(c_.network.nics, c_.gpus_per_node);
        t_.rails = networked && c_.network.rails && t_.nics > 1;
        t_.relayed = t_.rails && joins_gpus(c_.fabric);
        show(extent);
    }

    Topology build() {
        for (int n = 0; n < t_.shown_nodes; ++n) add_node(n);
        for (int g = 0; g < t_.shown_leaf_groups; ++g) add_leaves(g);
        if (t_.shown_leaf_groups > 0) t_.vertices.push_back({VertexKind::spine, 0, 0});
        join_nodes();
        for (int g = 0; g < t_.shown_leaf_groups; ++g) join_spine(g);
        return std::move(t_);
    }

private:
    void show(Extent extent) {
        const int groups = (t_.nodes + t_.nodes_per_leaf - 1) / t_.nodes_per_leaf;
        auto& below = t_.nodes_of_first_leaf;
        below = std::min(t_.nodes, t_.nodes_per_leaf);
        if (extent == Extent::representative) below = std::min(below, 2);
        t_.shown_nodes = extent == Extent::whole ? t_.nodes : below + (groups > 1 ? 1 : 0);
        t_.shown_leaf_groups = t_.nodes == 1             ? 0
                               : extent == Extent::whole ? groups
                                                         : std::min(groups, 2);
    }
    [[nodiscard]] int group_of(int node) const { return node / t_.nodes_of_first_leaf; }

    void add(VertexKind kind, int owner, int index) { t_.vertices.push_back({kind, owner, index}); }
    // Joins in both directions. A link without bandwidth does not exist, but keeps its place in the
    // order.
    void join(int a, int b, BytesPerSecond bandwidth) {
        t_.links.push_back({a, b, bandwidth});
        t_.links.push_back({b, a, bandwidth});
    }

    [[nodiscard]] int pcie_switches() const {
        return (c_.gpus_per_node + ranks_per_pcie_switch - 1) / ranks_per_pcie_switch;
    }
    [[nodiscard]] int sockets() const { return std::min(pcie_switches(), 2); }
    [[nodiscard]] int socket_of(int pcie_switch) const {
        return pcie_switch * sockets() / pcie_switches();
    }
    [[nodiscard]] bool is_mesh() const { return c_.fabric == Fabric::nvlink_mesh; }
    [[nodiscard]] bool has_tree() const {
        if (is_mesh()) return c_.gpus_per_node > 1 && host_bandwidth() > BytesPerSecond(0);
        return c_.gpus_per_node > 1 && c_.fabric != Fabric::nvswitch;
    }
    // Of a rank's link to the tree.
    [[nodiscard]] BytesPerSecond host_bandwidth() const {
        return is_mesh() ? c_.intra.host_bandwidth : c_.intra.bandwidth;
    }

    // Ranks, NICs, then switches. The vertices of node n begin at n * vertices_per_node.
    void add_node(int n) {
        for (int r = 0; r < t_.ranks_per_node; ++r) add(VertexKind::rank, n, r);
        for (int i = 0; i < t_.nics; ++i) add(VertexKind::nic, n, i);
        if (c_.gpus_per_node > 1 && c_.fabric == Fabric::nvswitch)
            add(VertexKind::node_switch, n, 0);
        if (has_tree()) {
            for (int s = 0; s < pcie_switches(); ++s) add(VertexKind::pcie_switch, n, s);
            for (int s = 0; s < sockets(); ++s) add(VertexKind::socket, n, s);
        }
        t_.vertices_per_node = as_int(t_.vertices.size()) / (n + 1);
    }
    [[nodiscard]] int leaves() const { return t_.rails ? t_.nics : 1; }
    [[nodiscard]] int first_leaf(int group) const {
        return t_.shown_nodes * t_.vertices_per_node + group * leaves();
    }
    void add_leaves(int group) {
        for (int i = 0; i < leaves(); ++i) add(VertexKind::leaf, group, i);
    }

    void join_nodes() {
        for (int n = 0; n < t_.shown_nodes; ++n) {
            const int base = n * t_.vertices_per_node;
            if (has_tree()) join_tree(base);
            if (is_mesh())
                join_mesh(base);
            else if (c_.gpus_per_node > 1 && !has_tree())
                for (int r = 0; r < t_.ranks_per_node; ++r)
                    join(base + r, base + t_.ranks_per_node + t_.nics, c_.intra.bandwidth);
            join_nics(n, base);
            t_.links_per_node = as_int(t_.links.size()) / (n + 1);
        }
    }
    void join_tree(int base) {
        const int switches = base + t_.ranks_per_node + t_.nics,
                  sockets_at = switches + pcie_switches();
        for (int r = 0; r < t_.ranks_per_node; ++r)
            join(base + r, switches + r / ranks_per_pcie_switch, host_bandwidth());
        for (int s = 0; s < pcie_switches(); ++s)
            join(switches + s, sockets_at + socket_of(s), host_bandwidth());
        const bool stated = c_.intra.socket_bandwidth > BytesPerSecond(0);
        if (sockets() == 2)
            join(sockets_at, sockets_at + 1, stated ? c_.intra.socket_bandwidth : host_bandwidth());
        if (c_.fabric == Fabric::nvlink_pairs)
            for (int r = 0; r + 1 < t_.ranks_per_node; r += 2)
                join(base + r, base + r + 1, c_.intra.pair_bandwidth);
    }

    void join_mesh(int base) {
        for (int a = 0; a < t_.ranks_per_node; ++a)
            for (int b = a + 1; b < t_.ranks_per_node; ++b)
                join(base + a, base + b, mesh_bandwidth(c_, a, b));
    }

    // A NIC that serves the ranks of several PCIe switches is plugged into the socket of the first.
    [[nodiscard]] int host_of(int nic, int base) const {
        const int first_rank = (nic * t_.ranks_per_node + t_.nics - 1) / t_.nics;
        const int pcie_switch = first_rank / ranks_per_pcie_switch,
                  switches = base + t_.ranks_per_node + t_.nics;
        return t_.nics >= pcie_switches() ? switches + pcie_switch
                                          : switches + pcie_switches() + socket_of(pcie_switch);
    }
    void join_nics(int n, int base) {
        if (t_.nics == 0) return;
        if (has_tree() && !is_mesh())
            for (int i = 0; i < t_.nics; ++i)
                join(base + t_.ranks_per_node + i, host_of(i, base), unlimited);
        else
            for (int r = 0; r < t_.ranks_per_node; ++r)
                join(base + t_.ranks_per_node + r * t_.nics / t_.ranks_per_node, base + r,
                     own_bandwidth());
        for (int i = 0; i < t_.nics; ++i)
            join(base + t_.ranks_per_node + i, first_leaf(group_of(n)) + (t_.rails ? i : 0),
                 nic_bandwidth());
    }
    // Of a rank's link to its NIC where no tree is shown: a node's only GPU has its PCIe there.
    [[nodiscard]] BytesPerSecond own_bandwidth() const {
        return c_.gpus_per_node == 1 && !joins_gpus(c_.fabric) ? c_.intra.bandwidth : unlimited;
    }
    [[nodiscard]] BytesPerSecond nic_bandwidth() const {
        const int there = c_.network.nics == 0 ? c_.gpus_per_node : c_.network.nics;
        return c_.inter.bandwidth * (real(there) / t_.nics);
    }
    void join_spine(int group) {
        const double nics_of_leaf = real(t_.nodes_per_leaf) * (t_.rails ? 1 : t_.nics);
        const int before = as_int(t_.links.size());
        for (int i = 0; i < leaves(); ++i)
            join(first_leaf(group) + i, as_int(t_.vertices.size()) - 1,
                 nic_bandwidth() * (nics_of_leaf / c_.network.oversubscription));
        t_.links_per_leaf_group = as_int(t_.links.size()) - before;
    }

    const Cluster& c_;
    Topology t_;
};

void check_connected(const Topology& topology) {
    boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS> graph(
        topology.vertices.size());
    for (const auto& link : topology.links)
        if (link.bandwidth > BytesPerSecond(0))
            add_edge(as_index(link.from), as_index(link.to), graph);
    std::vector<int> part(topology.vertices.size());
    boost::connected_components(graph, part.data());
    for (const std::size_t v : indices_of(part)) {
        const auto& vertex = topology.vertices[v];
        if ((vertex.kind != VertexKind::rank && vertex.kind != VertexKind::nic) ||
            part[v] == part[0])
            continue;
        const bool inside = vertex.owner == 0;
        refuse(
            "cluster.link.{}.bandwidth: found 0, so rank 0 of node 0 cannot reach {} {} of node "
            "{}; expected the bandwidth of one {}",
            inside ? "intra" : "inter", vertex.kind == VertexKind::rank ? "rank" : "NIC",
            vertex.index, vertex.owner, inside ? "link inside the node" : "NIC");
    }
}

}  // namespace

Topology topology_of(const Cluster& cluster, Extent extent) {
    auto topology = Builder(cluster, extent).build();
    check_connected(topology);
    return topology;
}

struct Routes::Search {
    using Weight =
        boost::property<boost::edge_weight_t, int, boost::property<boost::edge_index_t, int>>;
    using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS,
                                        boost::no_property, Weight>;
    using Vertex = Graph::vertex_descriptor;

    const Topology& topology;
    Graph graph;
    // from -> the last link of the route to each vertex
    std::map<int, std::vector<int>> arrivals;
    std::unordered_map<std::uint64_t, std::vector<int>> found;  // by the two ranks

    explicit Search(const Topology& t) : topology(t), graph(t.vertices.size()) {
        for (const std::size_t l : indices_of(t.links)) {
            const auto& link = t.links[l];
            if (!(link.bandwidth > BytesPerSecond(0))) continue;
            // A route between NICs must not pass through a host, because it can use the network.
            const bool at_host = link.bandwidth == unlimited;
            add_edge(static_cast<Vertex>(link.from), static_cast<Vertex>(link.to),
                     Weight(at_host ? 3 : 1, {as_int(l)}), graph);
        }
    }

    const std::vector<int>& arrivals_from(int from) {
        const auto [at, fresh] = arrivals.try_emplace(from);
        if (!fresh) return at->second;
        std::vector<Vertex> before(topology.vertices.size());
        std::vector<int> distance(topology.vertices.size());
        boost::dijkstra_shortest_paths(
            graph, static_cast<Vertex>(from),
            boost::predecessor_map(before.data()).distance_map(distance.data()));
        at->second.assign(before.size(), -1);
        for (Vertex v = 0; v < before.size(); ++v)
            if (before[v] != v)
                at->second[v] = get(boost::edge_index, graph, edge(before[v], v, graph).first);
        return at->second;
    }

    void append(std::vector<int>& route, int from, int to) {
        const auto& last = arrivals_from(from);
        const auto begin = static_cast<std::ptrdiff_t>(route.size());
        for (int at = to; at != from;) {
            const int link = last[as_index(at)];
            if (link < 0)
                throw std::logic_error("Routes: no route, though the topology is connected");
            route.push_back(link);
            at = topology.links[as_index(link)].from;
        }
        std::reverse(route.begin() + begin, route.end());
    }
};

Routes::Routes(const Topology& topology) : search_(std::make_unique<Search>(topology)) {}
Routes::~Routes() = default;

const std::vector<int>& Routes::between(int node, int local, int to_node, int to_local) {
    const Topology& t = search_->topology;
    const auto rank = [&](int n, int l) { return n * t.vertices_per_node + l; };
    const auto key = static_cast<std::uint64_t>(rank(node, local)) << 32U |
                     static_cast<std::uint32_t>(rank(to_node, to_local));
    const auto [at, fresh] = search_->found.try_emplace(key);
    if (!fresh) return at->second;
    const auto nic_of = [&](int n, int l) {
        return rank(n, t.ranks_per_node + l * t.nics / t.ranks_per_node);
    };
    if (node == to_node) {
        search_->append(at->second, rank(node, local), rank(to_node, to_local));
        return at->second;
    }
    const int leaving = nic_of(node, t.relayed ? to_local : local),
              arriving = nic_of(to_node, to_local);
    search_->append(at->second, rank(node, local), leaving);
    search_->append(at->second, leaving, arriving);
    search_->append(at->second, arriving, rank(to_node, to_local));
    return at->second;
}

}  // namespace stepcast
