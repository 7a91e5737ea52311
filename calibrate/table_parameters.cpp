// What tables may move of a cluster, by what their rows show and the cluster has.
#include <algorithm>

#include "calibrate/fit_parameter.h"
#include "calibrate/fit_tables.h"
#include "sim/costs/collective_costs.h"
#include "sim/costs/exchange_law.h"

namespace stepcast {

std::vector<FitParameter> gemm_parameters(const BuildingBlocks& blocks) {
    std::vector<std::string> tables{"products"};
    const auto add_where_any = [&](auto shows, const char* table) {
        if (std::ranges::any_of(blocks.gemms, shows)) tables.emplace_back(table);
    };
    add_where_any([](const GemmRow& row) { return row.gemm.accumulate; }, "products_accumulated");
    add_where_any([](const GemmRow& row) { return row.gemm.layout == Gemm::Layout::nn; }, "products_nn");
    add_where_any([](const GemmRow& row) { return row.gemm.layout == Gemm::Layout::tn; }, "products_tn");
    add_where_any([](const GemmRow& row) { return row.gemm.unaligned; }, "products_unaligned");
    add_where_any([](const GemmRow& row) { return row.between_events && row.gemm.dtype == Dtype::fp32; }, "products_fp32");
    add_where_any([](const GemmRow& row) { return row.groups > 1; }, "products_grouped");
    return fit_priors(tables);
}

std::vector<FitParameter> collective_parameters(const Cluster& cluster) {
    const bool exchanges = has_exchange_law(cluster.intra), sockets = cluster.intra.socket_bandwidth > BytesPerSecond(0);
    return fit_priors({"links", exchanges ? "links_exchange" : "", exchanges && sockets ? "links_exchange_sockets" : "",
                       sockets ? "links_sockets" : "", cluster.intra.nvls_efficiency > 0 ? "links_nvls" : ""});
}

bool inside_one_node(const CollectiveRow& row, const Cluster& cluster) {
    return row.nodes == 1 && row.ranks <= cluster.gpus_per_node;
}

void leave_out_between_nodes(BuildingBlocks& blocks, const Cluster& cluster) {
    blocks.between_nodes_rows += static_cast<int>(
        std::erase_if(blocks.collectives, [&](const CollectiveRow& row) { return !inside_one_node(row, cluster); }));
}

std::vector<FitParameter> gemm_parameters_for(const Cluster& start, const BuildingBlocks& blocks, const TablesHow& how) {
    std::vector<FitParameter> parameters = gemm_parameters(blocks);
    const bool launch_known = how.keep_launch || !blocks.launches.empty() || !blocks.kernels.empty();
    if (launch_known) std::erase_if(parameters, [](const FitParameter& p) { return p.key == "kernel.launch"; });
    for (FitParameter& of_effect : fit_priors({start.kernel.event > Seconds(0) ? "products_event" : "",
                                               start.kernel.call_ahead > Seconds(0) ? "products_call_ahead" : "",
                                               start.kernel.gemm_reload > 0 ? "products_reload" : "",
                                               start.gpu.memory_interleave > Bytes(0) ? "products_interleave" : ""}))
        parameters.push_back(std::move(of_effect));
    // Such a library has one tile and whole waves. What its splits along k cost stays the file's: with tiles that do not change it would
    // decide for each shape whether there is one, and fits would end at different ones.
    std::erase_if(parameters, [&](const FitParameter& p) {
        return start.kernel.gemm_even_tiles && (p.key.starts_with("kernel.gemm_tile_") || p.key.starts_with("kernel.gemm_split") ||
                                                p.key == "kernel.gemm_wave_loss");
    });
    const bool one_reuse = start.kernel.gemm_tile_reuse > 0, power = start.power.limit > 0 && !start.power.in_rates;
    std::erase_if(parameters, [&](const FitParameter& p) {
        return (one_reuse ? p.key.starts_with("kernel.gemm_tile_") && p.key != "kernel.gemm_tile_reuse"
                          : p.key == "kernel.gemm_tile_reuse") ||
               (power ? p.key.starts_with("kernel.gemm_boost") : p.key.starts_with("power."));
    });
    return how.priors_from_start ? with_priors_of(start, parameters) : parameters;
}

std::vector<FitParameter> collective_parameters_for(const Cluster& start, const BuildingBlocks& blocks) {
    std::vector<FitParameter> parameters = collective_parameters(start);
    const bool shown = std::any_of(blocks.collectives.begin(), blocks.collectives.end(), [&](const CollectiveRow& row) {
        return row.op == "all_reduce" && row.in_switch && row.ranks > most_without_nvls && inside_one_node(row, start);
    });
    if (!shown) std::erase_if(parameters, [](const FitParameter& p) { return p.key.starts_with("link.intra.nvls"); });
    return parameters;
}

}  // namespace stepcast
