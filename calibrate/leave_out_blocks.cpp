#include "calibrate/leave_out_blocks.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "calibrate/building_blocks.h"
#include "calibrate/exchange_tables.h"
#include "calibrate/fit_tables.h"
#include "calibrate/named_kernels.h"
#include "calibrate/table_cases.h"
#include "measured/nearest.h"
#include "measured/read.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"
#include "model/experiment.h"

namespace stepcast {
namespace {

constexpr long many_rows = 8192, wide = 16384, long_sequence = 8192;
constexpr int many_experts = 256, thirds = 3;

struct Halves {
    BuildingBlocks fitted, left_out;
};

// Adds the rows of one kind to the halves.
template <typename Row, typename Inside>
Halves halved(const BuildingBlocks& all, std::vector<Row> BuildingBlocks::*kind, Inside is_inside,
              Halves h = {}) {
    for (const Row& row : all.*kind)
        ((is_inside(row) ? h.left_out : h.fitted).*kind).push_back(row);
    return h;
}

// Splits products; casts that belong to a left-out product are left out with it.
template <typename Inside>
Halves by_products(const BuildingBlocks& all, Inside inside) {
    Halves h = halved(all, &BuildingBlocks::gemms, inside);
    std::set<RowHash> left_out;
    for (const GemmRow& row : h.left_out.gemms) left_out.insert(row.row);
    h.fitted.casts = casts_without(all.casts, left_out);
    return h;
}

// Splits all kinds by a hash of the shape; tenth 0 is the one that every fit holds out.
Halves by_tenth(BuildingBlocks all, int tenth, const Cluster& cluster) {
    const auto inside = [tenth](const FitCase& c) { return tenth_of(c) == tenth; };
    Halves h = by_products(all, [&](const GemmRow& row) { return inside(gemm_case(row)); });
    all.casts = std::move(h.fitted.casts);
    h.fitted.casts.clear();
    leave_out_part_nodes(all, cluster);
    const auto divide = [&](auto kind, auto is_inside) {
        h = halved(all, kind, is_inside, std::move(h));
    };
    divide(&BuildingBlocks::casts, [&](const CastRow& row) {
        return !row.of_product && inside(cast_cases({row}).front());
    });
    divide(&BuildingBlocks::attentions,
           [&](const AttentionRow& row) { return inside(attention_by_name(row)); });
    divide(&BuildingBlocks::moe_layers,
           [&](const MoeLayerRow& row) { return inside(expert_by_name(row)); });
    divide(&BuildingBlocks::collectives,
           [&](const CollectiveRow& row) { return inside(collective_case(row, cluster)); });
    divide(&BuildingBlocks::exchanges,
           [&](const ExchangeRow& row) { return inside(exchange_case(row)); });
    return h;
}

// Leaves out the collectives of the largest group of ranks inside a node.
Halves by_ranks(BuildingBlocks all) {
    std::erase_if(all.collectives, [](const CollectiveRow& row) { return row.nodes != 1; });
    int most = 0;
    for (const CollectiveRow& row : all.collectives) most = std::max(most, row.ranks);
    return halved(all, &BuildingBlocks::collectives,
                  [most](const CollectiveRow& row) { return row.ranks == most; });
}

struct Block {
    std::string name;
    Halves halves;
};

std::vector<Block> blocks_of(const BuildingBlocks& all) {
    std::vector<Block> blocks{
        {fmt::format("GEMMs of {} rows and more", many_rows),
         by_products(all, [](const GemmRow& row) { return row.gemm.m >= many_rows; })},
        {fmt::format("GEMMs with n or k from {} on", wide),
         by_products(all,
                     [](const GemmRow& row) { return std::max(row.gemm.n, row.gemm.k) >= wide; })},
        {fmt::format("attention from {} tokens on", long_sequence),
         halved(all, &BuildingBlocks::attentions,
                [](const AttentionRow& row) { return row.shape.op.seq_q >= long_sequence; })},
        {fmt::format("expert layers with {} experts and more", many_experts),
         halved(all, &BuildingBlocks::moe_layers,
                [](const MoeLayerRow& row) { return row.experts >= many_experts; })},
        {"collectives of the largest group", by_ranks(all)}};
    // The rows of one model differ only in tokens, so whole models are left out: a third of them,
    // chosen by their sizes.
    for (int third = 0; third < thirds; ++third)
        blocks.push_back({fmt::format("expert layers of a third of the models ({})", third + 1),
                          halved(all, &BuildingBlocks::moe_layers, [third](const MoeLayerRow& row) {
                              return (31 * (row.hidden / 64) + 7 * (row.ffn / 16) + row.experts) %
                                         thirds ==
                                     third;
                          })});
    return blocks;
}

// Leaves the same block out of the sisters' rows.
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
    for (const FitPlan& plan : exchange_fits(blocks)) append(cases, plan.cases);
    const std::vector<FitCase> casts = cast_cases(blocks.casts);
    append(cases, casts);
    return cases;
}

// Drops left-out rows of kernels whose name the fit has not seen: constants of another name say
// nothing of their law.
void drop_unseen_names(Halves& h) {
    std::set<std::string> seen;
    for (const AttentionRow& row : h.fitted.attentions) seen.insert(row.kernel);
    for (const MoeLayerRow& row : h.fitted.moe_layers) seen.insert(row.implementation);
    std::erase_if(h.left_out.attentions,
                  [&](const AttentionRow& row) { return !seen.contains(row.kernel); });
    std::erase_if(h.left_out.moe_layers,
                  [&](const MoeLayerRow& row) { return !seen.contains(row.implementation); });
}

int rows_of(const BuildingBlocks& b) {
    return as_int(b.gemms.size() + b.attentions.size() + b.moe_layers.size() +
                  b.collectives.size());
}

int all_rows_of(const BuildingBlocks& b) {
    return rows_of(b) + as_int(b.exchanges.size() + b.casts.size());
}

struct Machine {
    Cluster shipped;
    BuildingBlocks rows;
    std::vector<Sister> sisters;
};

// Starts without the shipped fit, which has read the rows that are left out.
Cluster fitted_anew(const Cluster& shipped, const BuildingBlocks& rows, const TablesHow& how) {
    Cluster start = shipped;
    start.fitted.reset();
    return fit_tables(start, rows, {}, how).cluster;
}

// Judges all ten tenths together; each row is predicted by constants that have not seen it.
std::vector<BlockLeftOut> tenths_of(const Machine& m, const Progress& progress) {
    std::vector<FitCase> cases;
    std::vector<double> log_errors;
    for (int tenth = 0; tenth < tenths; ++tenth) {
        Halves halves = by_tenth(m.rows, tenth, m.shipped);
        drop_unseen_names(halves);
        if (all_rows_of(halves.fitted) == 0 || all_rows_of(halves.left_out) == 0) continue;
        if (progress) progress(fmt::format("{}: fold {} of {}", m.shipped.name, tenth + 1, tenths));
        std::vector<Sister> sisters = m.sisters;
        for (Sister& sister : sisters)
            sister.blocks = by_tenth(sister.blocks, tenth, m.shipped).fitted;
        const Cluster fitted = fitted_anew(
            m.shipped, halves.fitted, {.share = HeldOutShare::none, .sisters = std::move(sisters)});
        std::vector<FitCase> left_out = cases_of(halves.left_out, m.shipped);
        append(log_errors, log_errors_on(left_out, fitted));
        append(cases, std::move(left_out));
    }
    const std::string name = "each fold in its turn";
    if (cases.empty()) return {};
    return {{m.shipped.name, name, all_rows_of(m.rows) * (tenths - 1) / tenths,
             errors_by_kind(cases, log_errors, name)}};
}

std::vector<BlockLeftOut> blocks_left_out_of(const Machine& m, const Progress& progress) {
    std::vector<BlockLeftOut> all;
    for (Block& block : blocks_of(m.rows)) {
        drop_unseen_names(block.halves);
        if (rows_of(block.halves.fitted) == 0 || rows_of(block.halves.left_out) == 0) continue;
        if (progress) progress(fmt::format("{}: {}", m.shipped.name, block.name));
        const Cluster fitted = fitted_anew(m.shipped, block.halves.fitted,
                                           {.sisters = without(block.name, m.sisters)});
        all.push_back({m.shipped.name, block.name, rows_of(block.halves.fitted),
                       errors_on(cases_of(block.halves.left_out, m.shipped), fitted, block.name)});
    }
    return all;
}

// Applies leave_out to each shipped machine with its rows of the tables, and its sisters with
// theirs.
template <typename LeaveOut>
std::vector<BlockLeftOut> of_each_machine(const std::vector<std::string>& tables,
                                          const std::string& cluster, const Progress& progress,
                                          LeaveOut leave_out, const char* what) {
    std::vector<BlockLeftOut> all;
    for (const std::string& name :
         cluster.empty() ? measured_machines() : std::vector<std::string>{cluster}) {
        Machine m{read_cluster(name), {}, {}};
        for (const std::string& path : tables) read_building_blocks(path, m.shipped.gpu, m.rows);
        m.sisters = read_sisters(tables, m.shipped);
        append(all, leave_out(m, progress));
    }
    if (all.empty())
        refuse("--cross-validate {}: no row of a measured machine in these tables", what);
    return all;
}

}  // namespace

std::vector<BlockLeftOut> leave_out_blocks(const std::vector<std::string>& tables,
                                           const std::string& cluster, const Progress& progress) {
    return of_each_machine(tables, cluster, progress, blocks_left_out_of, "block");
}

std::vector<BlockLeftOut> leave_out_tenths(const std::vector<std::string>& tables,
                                           const std::string& cluster, const Progress& progress) {
    return of_each_machine(tables, cluster, progress, tenths_of, "fold");
}

}  // namespace stepcast
