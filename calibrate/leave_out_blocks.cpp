#include "calibrate/leave_out_blocks.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "calibrate/building_blocks.h"
#include "calibrate/fit_tables.h"
#include "model/experiment.h"
#include "model/errors.h"
#include "model/machine/priors.h"

namespace stepcast {
namespace {

constexpr long many_rows = 8192, wide = 16384, long_sequence = 8192;
constexpr int many_experts = 256;

struct Halves {
    BuildingBlocks fitted, left_out;
};

template <typename Row, typename Inside>
void divide(const std::vector<Row>& rows, std::vector<Row>& inside, std::vector<Row>& outside, Inside is_inside) {
    for (const Row& row : rows) (is_inside(row) ? inside : outside).push_back(row);
}

// Casts belong to the products that they precede.
template <typename Inside>
Halves by_products(const BuildingBlocks& all, Inside inside) {
    Halves h;
    divide(all.gemms, h.left_out.gemms, h.fitted.gemms, inside);
    std::set<RowHash> left_out;
    for (const GemmRow& row : h.left_out.gemms) left_out.insert(row.row);
    h.fitted.casts = casts_without(all.casts, left_out);
    return h;
}

Halves by_sequence(const BuildingBlocks& all) {
    Halves h;
    divide(all.attentions, h.left_out.attentions, h.fitted.attentions,
           [](const AttentionRow& row) { return row.shape.op.seq_q >= long_sequence; });
    return h;
}

Halves by_experts(const BuildingBlocks& all) {
    Halves h;
    divide(all.moe_layers, h.left_out.moe_layers, h.fitted.moe_layers,
           [](const MoeLayerRow& row) { return row.experts >= many_experts; });
    return h;
}

// The largest group of ranks, from the smaller ones.
Halves by_ranks(const BuildingBlocks& all) {
    Halves h;
    int most = 0;
    for (const CollectiveRow& row : all.collectives)
        if (row.nodes == 1) most = std::max(most, row.ranks);
    std::vector<CollectiveRow> inside_nodes;
    std::ranges::copy_if(all.collectives, std::back_inserter(inside_nodes), [](const CollectiveRow& row) { return row.nodes == 1; });
    divide(inside_nodes, h.left_out.collectives, h.fitted.collectives,
           [most](const CollectiveRow& row) { return row.ranks == most; });
    return h;
}

struct Block {
    std::string name;
    Halves halves;
};

std::vector<Block> blocks_of(const BuildingBlocks& all) {
    return {{fmt::format("products of {} rows and more", many_rows),
             by_products(all, [](const GemmRow& row) { return row.gemm.m >= many_rows; })},
            {fmt::format("products with n or k from {} on", wide),
             by_products(all, [](const GemmRow& row) { return std::max(row.gemm.n, row.gemm.k) >= wide; })},
            {fmt::format("attention from {} tokens on", long_sequence), by_sequence(all)},
            {fmt::format("expert layers with {} experts and more", many_experts), by_experts(all)},
            {"collectives of the largest group", by_ranks(all)}};
}

// The same block is left out of all.
std::vector<Sister> without(const std::string& block, std::vector<Sister> sisters) {
    for (Sister& sister : sisters)
        for (Block& own : blocks_of(sister.blocks))
            if (own.name == block) sister.blocks = own.halves.fitted;
    return sisters;
}

std::vector<FitCase> cases_of(const BuildingBlocks& blocks, const Cluster& cluster) {
    std::vector<FitCase> cases;
    for (const GemmRow& row : blocks.gemms) cases.push_back(gemm_case(row));
    for (const AttentionRow& row : blocks.attentions) cases.push_back(attention_by_name(row));
    for (const MoeLayerRow& row : blocks.moe_layers) cases.push_back(expert_by_name(row));
    for (const CollectiveRow& row : blocks.collectives)
        if (row.ranks <= cluster.gpus_per_node) cases.push_back(collective_case(row, cluster));
    return cases;
}

// Of named kernels only those that the fit has seen: another name's constants say nothing of its law.
void drop_unseen_names(Halves& h) {
    std::set<std::string> seen;
    for (const AttentionRow& row : h.fitted.attentions) seen.insert(row.kernel);
    for (const MoeLayerRow& row : h.fitted.moe_layers) seen.insert(row.implementation);
    std::erase_if(h.left_out.attentions, [&](const AttentionRow& row) { return !seen.contains(row.kernel); });
    std::erase_if(h.left_out.moe_layers, [&](const MoeLayerRow& row) { return !seen.contains(row.implementation); });
}

int rows_of(const BuildingBlocks& b) {
    return static_cast<int>(b.gemms.size() + b.attentions.size() + b.moe_layers.size() + b.collectives.size());
}

}  // namespace

std::vector<BlockLeftOut> leave_out_blocks(const std::vector<std::string>& tables, const std::string& cluster,
                                           const std::function<void(std::string_view)>& progress) {
    std::vector<BlockLeftOut> all;
    for (const std::string& name : cluster.empty() ? measured_machines() : std::vector<std::string>{cluster}) {
        const Cluster shipped = read_cluster(name);
        BuildingBlocks rows;
        for (const std::string& path : tables) read_building_blocks(path, shipped.gpu, rows);
        const std::vector<Sister> sisters = read_sisters(tables, shipped);
        for (Block& block : blocks_of(rows)) {
            drop_unseen_names(block.halves);
            if (rows_of(block.halves.fitted) == 0 || rows_of(block.halves.left_out) == 0) continue;
            if (progress) progress(fmt::format("{}: {}", name, block.name));
            Cluster start = shipped;
            start.fitted.reset();  // which has read what is left out
            const Cluster fitted = fit_tables(start, block.halves.fitted, {}, {.sisters = without(block.name, sisters)}).cluster;
            const std::vector<FitCase> cases = cases_of(block.halves.left_out, shipped);
            all.push_back({name, block.name, rows_of(block.halves.fitted), errors_on(cases, fitted, block.name)});
        }
    }
    if (all.empty()) throw ConfigError("--cross-validate block: no row of a measured machine in these tables");
    return all;
}

}  // namespace stepcast
