#include "model/input/check_cluster.h"

#include <map>
#include <string_view>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"
#include "model/cluster.h"

namespace stepcast {
namespace {

bool there(BytesPerSecond bandwidth) { return bandwidth > BytesPerSecond(0); }

void check_pairs(const Cluster& c) {
    if (c.fabric != Fabric::nvlink_pairs || c.gpus_per_node == 1) return;
    if (c.gpus_per_node % 2 != 0)
        refuse(
            "cluster.gpus_per_node: {} ranks cannot be paired, but cluster.fabric is nvlink-pairs; "
            "expected an even "
            "number",
            c.gpus_per_node);
    if (!there(c.intra.pair_bandwidth))
        refuse("cluster.link.intra.pair_bandwidth: missing; cluster.fabric is nvlink-pairs");
    const auto* need = c.gpus_per_node > 2 ? "joins the pairs"
                       : c.nodes > 1       ? "leads to the NICs"
                                           : nullptr;
    if (need && !there(c.intra.bandwidth))
        refuse(
            "cluster.link.intra.bandwidth: missing; expected the bandwidth of the host bridge, "
            "which {}",
            need);
}

void check_mesh(const Cluster& c) {
    if (c.fabric != Fabric::nvlink_mesh || c.gpus_per_node == 1) return;
    const auto& links = c.intra.mesh;
    const long ranks = c.gpus_per_node;
    if (ranks_of_mesh(links) < ranks)
        refuse(
            "cluster.link.intra.mesh: {} numbers, but cluster.fabric is nvlink-mesh and the {} "
            "ranks of a node have "
            "{} pairs; expected the number of links of each pair: of ranks 0 and 1, 0 and 2, .., 1 "
            "and 2, ..",
            links.size(), ranks, ranks * (ranks - 1) / 2);
    for (const double count : links)
        if (!(count >= 0 && count <= 1000))
            refuse("cluster.link.intra.mesh: {} links between two ranks; expected 0 to 1000",
                   count);
    if (!there(c.intra.host_bandwidth) && !mesh_connected(c))
        refuse(
            "cluster.link.intra.mesh: no links lead from rank 0 to all others; expected such "
            "links, or "
            "cluster.link.intra.host_bandwidth for the way through the host");
}

void check_links(const Cluster& c) {
    if (c.fabric != Fabric::nvlink_pairs && c.gpus_per_node > 1 && !there(c.intra.bandwidth))
        refuse("cluster.link.intra.bandwidth: missing; a node has {} ranks", c.gpus_per_node);
    if (c.nodes > 1 && !there(c.inter.bandwidth))
        refuse("cluster.link.inter.bandwidth: missing; there are {} nodes", c.nodes);
}

// With slower links a step would take years, and drawing the random events of such a step alone
// would take hours.
void check_link_rates(const Cluster& c) {
    constexpr BytesPerSecond slowest(1e3);
    for (const auto& [key, rate] :
         {std::pair{"intra", c.intra.bandwidth}, {"inter", c.inter.bandwidth}})
        if (there(rate) && rate < slowest)
            refuse(
                "cluster.link.{}.bandwidth: {} is no link; expected at least 1 kB/s, or 0 for none",
                key, to_string(rate));
}

// Nodes on a leaf that is not full get a larger share of the spine, so one node could not represent
// all.
void check_leaves(const Cluster& c) {
    const auto& n = c.network;
    if (n.oversubscription > 1 && c.nodes > n.nodes_per_leaf && c.nodes % n.nodes_per_leaf != 0)
        refuse(
            "cluster.nodes: {} nodes do not divide over leaves of cluster.network.nodes_per_leaf = "
            "{} below a spine "
            "oversubscribed {} times; expected a multiple, or no more than {}",
            c.nodes, n.nodes_per_leaf, n.oversubscription, n.nodes_per_leaf);
}

void check_rank_rates(const Cluster& c) {
    const auto& rates = c.gpu.rank_rates;
    if (rates.empty()) return;
    if (as_int(rates.size()) != rank_count(c))
        refuse(
            "cluster.gpu.rank_rates: {} rates, but cluster has {} ranks; expected one each, or "
            "none",
            rates.size(), rank_count(c));
    for (const double rate : rates)
        if (!(rate > 0.01 && rate < 100))
            refuse("cluster.gpu.rank_rates: {} is out of range; expected 0.01 to 100", rate);
}

// The clock follows from the power above idle power, so some must be left.
void check_power(const Cluster& c) {
    if (c.power.limit > 0 && c.power.limit <= c.power.idle)
        refuse(
            "cluster.power.limit_w: {} W, but idle it draws {} W (cluster.power.idle_w); expected "
            "more, or 0 where no limit is known",
            c.power.limit, c.power.idle);
}

// Measurement tables refer to kernels by name, so names must be present and unique.
void check_kernels(const Cluster& c) {
    const auto check = [](std::string_view list, const auto& kernels) {
        std::map<std::string_view, std::size_t> rows;
        for (const std::size_t i : indices_of(kernels)) {
            if (kernels[i].name.empty())
                refuse(
                    "cluster.kernel.{}: row {} names no kernel; expected {{kernel = \"NAME\", ..}}",
                    list, i + 1);
            const auto [first, fresh] = rows.emplace(kernels[i].name, i + 1);
            if (!fresh)
                refuse(
                    "cluster.kernel.{}: rows {} and {} are both \"{}\"; expected each kernel once",
                    list, first->second, i + 1, kernels[i].name);
        }
    };
    check("attention_kernels", c.kernel.attention_kernels);
    check("expert_kernels", c.kernel.expert_kernels);
}

}  // namespace

void check_cluster(const Cluster& cluster) {
    check_kernels(cluster);
    check_power(cluster);
    check_pairs(cluster);
    check_mesh(cluster);
    check_links(cluster);
    check_leaves(cluster);
    check_rank_rates(cluster);
    check_link_rates(cluster);
}

}  // namespace stepcast
