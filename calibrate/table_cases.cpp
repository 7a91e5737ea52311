#include "calibrate/table_cases.h"

#include <fmt/format.h>

#include <algorithm>

#include "calibrate/earlier_fit.h"
#include "calibrate/fit_parameter.h"
#include "model/base/numbers.h"
#include "sim/costs/collective_costs.h"
#include "sim/costs/exchange_law.h"
#include "sim/costs/gemm_law.h"

namespace stepcast {

namespace {

GemmSetting setting_of(const GemmRow& row) {
    return row.sustained  ? GemmSetting::sustained
           : row.in_steps ? GemmSetting::step
                          : GemmSetting::alone;
}

}  // namespace

std::string narrow_kind(const GemmRow& row) {
    const std::string format = row.gemm.dtype == Dtype::fp4 ? "fp4"
                               : row.scaled_blocks          ? "fp8_blocks"
                                                            : "fp8";
    return (row.sustained ? "sustained_gemm_" : "gemm_") + format;
}

Seconds narrow_time(const GemmRow& row, const Cluster& cluster) {
    const Seconds layout =
        row.layout_apart ? scale_layout_time(row.gemm.m, row.gemm.k, cluster) : Seconds(0);
    const Seconds product =
        layout + gemm_law_time(row.gemm, cluster, setting_of(row), row.scaled_blocks);
    if (!row.casts) return product;
    return product +
           input_cast_time(row.gemm.m, row.gemm.k, row.gemm.dtype, row.scaled_blocks, cluster);
}

FitCase gemm_case(const GemmRow& row) {
    const Gemm& g = row.gemm;
    const char* layout = g.layout == Gemm::Layout::nn   ? " nn"
                         : g.layout == Gemm::Layout::tn ? " tn"
                                                        : "";
    const std::string name =
        fmt::format("gemm {}x{}x{} {}{}{}{}", g.m, g.n, g.k, to_string(g.dtype), layout,
                    g.accumulate ? " to fp32" : "",
                    row.groups > 1 ? fmt::format(" {} groups", row.groups) : "");
    if (row.groups > 1) {
        const GroupedGemm grouped{std::vector<long>(as_index(row.groups), g.m), g.n, g.k, g.dtype};
        return table_case(name, "grouped_gemm", row, [grouped, row](const Cluster& c) {
            return grouped_gemm_law_time(grouped, c, setting_of(row));
        });
    }
    if (is_narrow(g.dtype))
        return table_case(name + (row.scaled_blocks ? " blocks" : ""), narrow_kind(row), row,
                          [row](const Cluster& c) { return narrow_time(row, c); });
    const GemmSetting setting = setting_of(row);
    return table_case(name, row.sustained ? "sustained_gemm" : "gemm", row,
                      [g, setting](const Cluster& c) { return gemm_law_time(g, c, setting); });
}

namespace {

RingPath path_of(int ranks, int nodes, Cluster cluster) {
    cluster.nodes = std::max(cluster.nodes, nodes);
    return ring_path(Group{ranks}, cluster);
}

}  // namespace

// The ring path follows from the datasheet and from socket_bandwidth, which a fit may move: it is
// found again only when that has changed.
FitCase collective_case(const CollectiveRow& row, const Cluster& cluster) {
    RingPath path = path_of(row.ranks, row.nodes, cluster);
    return table_case(fmt::format("{} of {} over {} ranks, {} nodes", row.op, to_string(row.bytes),
                                  row.ranks, row.nodes),
                      row.nodes > 1 ? row.op + " between nodes" : row.op, row,
                      [op = *collective_op(row.op, row.bytes, row.ranks, row.in_switch), path,
                       ranks = row.ranks, nodes = row.nodes, small = row.small,
                       socket = cluster.intra.socket_bandwidth](const Cluster& c) mutable {
                          if (c.intra.socket_bandwidth != socket) path = path_of(ranks, nodes, c);
                          socket = c.intra.socket_bandwidth;
                          return collective_time(op, path, c,
                                                 small.value_or(c.intra.exchange_small));
                      });
}

std::optional<Cluster> machine_of(const CollectiveRow& row, Cluster cluster) {
    const int each = row.ranks / row.nodes;
    if (each > cluster.gpus_per_node) return std::nullopt;
    cluster.nodes = row.nodes;
    if (row.nodes > 1) cluster.gpus_per_node = each;
    return cluster;
}

std::vector<FitCase> cast_cases(const std::vector<CastRow>& rows) {
    std::vector<FitCase> cases;
    for (const CastRow& row : rows)
        cases.push_back(table_case(fmt::format("cast {}x{} {} {}", row.rows, row.width,
                                               as_int(row.scale), row.implementation),
                                   "cast", row, [row](const Cluster& c) {
                                       return cast_time(row.rows, row.width, row.scale, c);
                                   }));
    return cases;
}

std::vector<CastRow> casts_without(std::vector<CastRow> casts, const std::set<RowHash>& products) {
    std::erase_if(casts,
                  [&](const CastRow& row) { return row.of_product && products.contains(row.row); });
    return casts;
}

std::vector<FitParameter> gemm_parameters(const BuildingBlocks& blocks) {
    std::vector<std::string> tables{"products"};
    const auto add_where_any = [&](auto shows, const char* table) {
        if (std::ranges::any_of(blocks.gemms, shows)) tables.emplace_back(table);
    };
    add_where_any([](const GemmRow& row) { return row.gemm.accumulate; }, "products_accumulated");
    add_where_any([](const GemmRow& row) { return row.gemm.layout == Gemm::Layout::nn; },
                  "products_nn");
    add_where_any([](const GemmRow& row) { return row.gemm.layout == Gemm::Layout::tn; },
                  "products_tn");
    add_where_any([](const GemmRow& row) { return row.gemm.alignment == Gemm::Alignment::even; },
                  "products_unaligned");
    add_where_any([](const GemmRow& row) { return row.gemm.alignment == Gemm::Alignment::odd; },
                  "products_odd");
    add_where_any(
        [](const GemmRow& row) {
            return (row.between_events || row.in_steps) && row.gemm.dtype == Dtype::fp32;
        },
        "products_fp32");
    add_where_any([](const GemmRow& row) { return row.groups > 1; }, "products_grouped");
    add_where_any([](const GemmRow& row) { return row.groups > 1 && row.in_steps; },
                  "products_spread");
    return fit_priors(tables);
}

std::vector<FitParameter> collective_parameters(const Cluster& cluster) {
    const bool exchanges = has_exchange_law(cluster.intra),
               sockets = cluster.intra.socket_bandwidth > BytesPerSecond(0);
    return fit_priors({"links", exchanges ? "links_exchange" : "",
                       exchanges && sockets ? "links_exchange_sockets" : "",
                       sockets ? "links_sockets" : "",
                       cluster.intra.nvls_efficiency > 0 ? "links_nvls" : ""});
}

bool inside_one_node(const CollectiveRow& row, const Cluster& cluster) {
    return row.nodes == 1 && row.ranks <= cluster.gpus_per_node;
}

bool fills_nodes(const CollectiveRow& row, const Cluster& cluster) {
    return row.nodes > 1 && row.ranks == row.nodes * cluster.gpus_per_node;
}

namespace {

// The largest share of the NICs' rate that long messages over whole nodes reach: of all-to-alls, or
// of the others. 0 where there is none.
double share_between_nodes(const Cluster& cluster, const std::vector<CollectiveRow>& rows,
                           bool exchanges) {
    constexpr double long_message = 64e6;
    double most = 0;
    for (const CollectiveRow& row : rows) {
        if (!fills_nodes(row, cluster) || row.bytes.si() < long_message ||
            (row.op == "all_to_all") != exchanges)
            continue;
        const RingPath path = path_of(row.ranks, row.nodes, cluster);
        const Bytes moved = exchanges ? row.bytes * (row.nodes - 1) / row.nodes
                                      : bus_factor(row.op, row.ranks) * row.bytes;
        most = std::max(most, moved / row.time / (exchanges ? path.between : path.inter));
    }
    return most;
}

// Begins at `share` of what was reached, and allows at most `most` of it; a network that moves more
// than its NICs were said to is at its whole rate.
void begin_at(std::vector<FitParameter>& parameters, std::string_view key, double reached,
              double share, double most) {
    const double upper = std::min(1.0, most * reached);
    for (FitParameter& p : parameters) {
        if (p.key != key) continue;
        const double prior = std::min(share * reached, 0.98 * upper);
        p.prior = fmt::format("{:.4g}", prior);
        p.lower = fmt::format("{:.4g}", prior / 20);
        p.upper = fmt::format("{:.4g}", upper);
    }
}

}  // namespace

// Where a start lies far above what the network reaches, the links inside the nodes would limit the
// law, and no slope would show the way. The protocols with flags in the data move less than the
// plain one.
std::vector<FitParameter> parameters_between_nodes(const Cluster& cluster,
                                                   const std::vector<CollectiveRow>& rows) {
    const bool handed_over = cluster.inter.slot_latency > Seconds(0);
    std::vector<FitParameter> parameters = with_priors_of(
        cluster, fit_priors({"links_between", handed_over ? "links_between_handed_over" : ""}));
    if (const double rings = share_between_nodes(cluster, rows, false); rings > 0) {
        begin_at(parameters, "link.inter.ring_efficiency", rings, 1, 1.5);
        begin_at(parameters, "link.inter.low_latency_128.efficiency", rings, 0.6, 0.95);
        begin_at(parameters, "link.inter.low_latency.efficiency", rings, 0.3, 0.6);
    }
    if (const double exchanges = share_between_nodes(cluster, rows, true); exchanges > 0) {
        begin_at(parameters, "link.inter.all_to_all_efficiency", exchanges, 1, 1.5);
        begin_at(parameters, "link.inter.exchange.efficiency", exchanges, 0.5, 0.95);
    }
    return parameters;
}

void leave_out_part_nodes(BuildingBlocks& blocks, const Cluster& cluster) {
    blocks.part_nodes_rows +=
        as_int(std::erase_if(blocks.collectives, [&](const CollectiveRow& row) {
            return !inside_one_node(row, cluster) && !fills_nodes(row, cluster);
        }));
}

std::string part_nodes_text(const Cluster& cluster) {
    return fmt::format(
        "they have neither at most {0} ranks on one node nor {0} on each of several, "
        "the GPUs of a node of {1}",
        cluster.gpus_per_node, cluster.name);
}

// Whether a law that the cluster does not use has this parameter. A library with gemm_even_tiles
// has one tile and whole waves. The costs of its splits along k stay the file's: with an unchanging
// tile they would decide for each shape whether it is split, and fits would end at different local
// minima.
static bool is_of_other_law(const FitParameter& p, const Cluster& start) {
    const bool of_tiles = p.key.starts_with("kernel.gemm_tile_"),
               is_reuse = p.key == "kernel.gemm_tile_reuse";
    if (start.kernel.gemm_even_tiles &&
        (of_tiles || p.key.starts_with("kernel.gemm_split") || p.key == "kernel.gemm_wave_loss"))
        return true;
    const bool one_reuse = start.kernel.gemm_tile_reuse > 0,
               power = start.power.limit > 0 && !start.power.in_rates;
    return (one_reuse ? of_tiles && !is_reuse : is_reuse) ||
           p.key.starts_with(power ? "kernel.gemm_boost" : "power.");
}

std::vector<FitParameter> gemm_parameters_for(const Cluster& start, const BuildingBlocks& blocks,
                                              bool launch_known) {
    std::vector<FitParameter> parameters = gemm_parameters(blocks);
    if (launch_known || !blocks.launches.empty() || !blocks.kernels.empty())
        std::erase_if(parameters, [](const FitParameter& p) { return p.key == "kernel.launch"; });
    for (FitParameter& of_effect :
         fit_priors({start.kernel.event > Seconds(0) ? "products_event" : "",
                     start.kernel.call_ahead > Seconds(0) ? "products_call_ahead" : "",
                     start.kernel.gemm_reload > 0 ? "products_reload" : "",
                     start.gpu.memory_interleave > Bytes(0) ? "products_interleave" : ""}))
        parameters.push_back(std::move(of_effect));
    std::erase_if(parameters, [&](const FitParameter& p) { return is_of_other_law(p, start); });
    return parameters;
}

std::vector<FitParameter> collective_parameters_for(const Cluster& start,
                                                    const BuildingBlocks& blocks) {
    std::vector<FitParameter> parameters = collective_parameters(start);
    const bool shown = std::ranges::any_of(blocks.collectives, [&](const CollectiveRow& row) {
        return row.op == "all_reduce" && row.in_switch && row.ranks > most_without_nvls &&
               inside_one_node(row, start);
    });
    if (!shown)
        std::erase_if(parameters,
                      [](const FitParameter& p) { return p.key.starts_with("link.intra.nvls"); });
    return parameters;
}

}  // namespace stepcast
