// Priors and bounds of what tables determine. The priors are the same for every device: what GEMM libraries and NCCL
// look like in general (tile rates and fill as a fit to A100 tables gave them; protocol latencies and shares of the order of NCCL's
// own tuning constants), wide enough for the tables to decide.
#include <algorithm>

#include "calibrate/fit_tables.h"
#include "sim/costs/collective_costs.h"
#include "sim/costs/exchange_law.h"

namespace stepcast {

std::vector<FitParameter> gemm_parameters(const BuildingBlocks& blocks) {
    std::vector<FitParameter> parameters{
        {"kernel.launch", "2.4 us", 0.3, "0.5 us", "10 us"},
        {"kernel.gemm_efficiency", "0.8", 0.5, "0.2", "1"},
        {"kernel.gemm_k0", "150", 0.5, "10", "2000"},
        {"kernel.gemm_tile_128", "0.9", 0.3, "0.2", "1.5"},
        {"kernel.gemm_tile_64", "0.75", 0.3, "0.1", "1.5"},
        {"kernel.gemm_tile_32", "0.5", 0.3, "0.05", "1.5"},
        {"kernel.gemm_tile_wide", "1", 0.1, "0.5", "1.5"},
        {"kernel.gemm_tile_192", "0.95", 0.2, "0.2", "1.5"},
        {"kernel.gemm_tile_narrow", "0.8", 0.3, "0.1", "1.5"},
        {"kernel.gemm_tile_reuse", "20", 1, "0.1", "300"},
        {"power.flop_pj", "1.2", 0.4, "0.2", "6"},
        {"kernel.gemm_wave_loss", "0.5", 1, "0.02", "1"},
        {"kernel.gemm_traffic_efficiency", "0.8", 0.3, "0.2", "1.2"},
        {"kernel.gemm_corner", "0.3", 0.5, "0.05", "0.9"},
        {"kernel.gemm_split", "1 us", 0.7, "0.05 us", "10 us"},
        {"kernel.gemm_split_traffic", "1", 0.7, "0.05", "8"},
        {"kernel.gemm_boost", "0.05", 1.5, "0.001", "1"},
        {"kernel.gemm_boost_time", "200 us", 0.5, "20 us", "5 ms"},
    };
    const auto any = [&](auto holds) { return std::any_of(blocks.gemms.begin(), blocks.gemms.end(), holds); };
    if (any([](const GemmRow& row) { return row.gemm.accumulate; }))
        parameters.push_back({"kernel.gemm_accumulate", "0.97", 0.1, "0.5", "1.2"});
    if (any([](const GemmRow& row) { return row.gemm.layout == Gemm::Layout::nn; }))
        parameters.push_back({"kernel.gemm_nn", "1", 0.1, "0.5", "1.5"});
    if (any([](const GemmRow& row) { return row.gemm.layout == Gemm::Layout::tn; }))
        parameters.push_back({"kernel.gemm_tn", "1", 0.1, "0.5", "1.5"});
    if (any([](const GemmRow& row) { return row.gemm.unaligned; }))
        parameters.push_back({"kernel.gemm_unaligned", "0.6", 0.5, "0.05", "0.999"});
    if (any([](const GemmRow& row) { return row.between_events && row.gemm.dtype == Dtype::fp32; }))
        parameters.push_back({"kernel.gemm_fp32", "0.9", 0.3, "0.2", "1.5"});
    if (any([](const GemmRow& row) { return row.groups > 1; }))
        parameters.push_back({"kernel.grouped_gemm", "0.9", 0.3, "0.05", "1.2"});
    return parameters;
}

std::vector<FitParameter> collective_parameters(const Cluster& cluster) {
    const bool exchanges = has_exchange_law(cluster.intra), sockets = cluster.intra.socket_bandwidth > BytesPerSecond(0);
    std::vector<FitParameter> parameters{
        {"link.intra.low_latency.launch", "6 us", 0.5, "0.5 us", "50 us"},
        {"link.intra.low_latency.latency", "0.9 us", 0.5, "0.1 us", "10 us"},
        {"link.intra.low_latency.efficiency", "0.25", 0.5, "0.01", "0.6"},
        {"link.intra.slot_latency", "1.5 us", 0.7, "0.01 us", "20 us"},
        {"link.intra.low_latency_128.launch", "6 us", 0.5, "0.5 us", "50 us"},
        {"link.intra.low_latency_128.latency", "1.3 us", 0.5, "0.1 us", "20 us"},
        {"link.intra.low_latency_128.efficiency", "0.5", 0.5, "0.05", "1"},
        {"link.intra.launch", "12 us", 0.7, "1 us", "100 us"},
        {"link.intra.latency", "2 us", 1, "0.1 us", "20 us"},
        {"link.intra.ring_efficiency", "0.85", 0.2, "0.2", "0.99"},
        {"link.intra.reduce_copy", "0.5", 0.7, "0.01", "5"},
        {"link.intra.gather_copy", "0.5", 0.7, "0.01", "5"},
        {"link.intra.pipelining", "0.3", 1, "0.005", "3"},
        {"link.intra.exchange.launch", "8 us", 0.5, "0.5 us", "50 us"},
        {"link.intra.exchange.latency", "0.2 us", 0.7, "0.01 us", "5 us"},
        {"link.intra.exchange.efficiency", exchanges ? "0.2" : "0.1", exchanges ? 1 : 1.5, "0.002", "0.6"},
        {"link.intra.exchange_launch", "12 us", 0.7, "1 us", "100 us"},
        {"link.intra.all_to_all_efficiency", "0.7", 0.3, "0.1", exchanges && sockets ? "2" : "0.99"},
        {"link.intra.exchange_copy", "0.5", 0.7, "0.01", "5"},
    };
    if (exchanges) {
        parameters.push_back({"link.intra.exchange_channel", "16 GB/s", 0.3, "1 GB/s", "100 GB/s"});
        parameters.push_back({"link.intra.exchange_small_channel", "5 GB/s", 0.5, "0.5 GB/s", "50 GB/s"});
        parameters.push_back({"link.intra.exchange_fill", "0.3", 1, "0.005", "3"});
    }
    if (sockets)  // whose rings and all-to-alls of all ranks cross it
        parameters.push_back({"link.intra.socket_bandwidth", "50 GB/s", 0.5, "5 GB/s", "200 GB/s"});
    if (cluster.intra.nvls_efficiency > 0) {
        parameters.push_back({"link.intra.nvls_launch", "30 us", 0.5, "5 us", "200 us"});
        parameters.push_back({"link.intra.nvls_efficiency", "0.6", 0.5, "0.1", "1.2"});
    }
    return parameters;
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
    if (start.kernel.event > Seconds(0)) parameters.push_back({"kernel.event", "20 us", 0.5, "1 us", "1 ms"});
    if (start.kernel.call_ahead > Seconds(0)) parameters.push_back({"kernel.call_ahead", "30 us", 0.5, "1 us", "1 ms"});
    if (start.kernel.gemm_reload > 0) {
        parameters.push_back({"kernel.gemm_reload", "0.2", 1, "0.01", "2"});
        parameters.push_back({"kernel.gemm_reload_cache", "20 MB", 1, "1 MB", "1 GB"});
    }
    if (start.gpu.memory_interleave > Bytes(0)) parameters.push_back({"kernel.gemm_camping", "0.5", 0.7, "0.05", "1"});
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
