// Rows of published tables as cases of a fit, and the parameters that they may move: products,
// casts, collectives.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/building_blocks.h"
#include "calibrate/fit.h"

namespace stepcast {

// The case of one row. All rows are in one group, so that the fit leaves out no group; the held-out
// tenth judges it instead.
template <typename Row>
FitCase table_case(std::string name, std::string kind, const Row& row,
                   std::function<Seconds(const Cluster&)> predict) {
    return {std::move(name), std::move(kind), "tables", row.time, std::move(predict), 1, row.row};
}

// A row as a case. Its kind is "gemm", "sustained_gemm", "gemm_fp8" and so on, or the name of the
// collective; `name` holds the shape.
FitCase gemm_case(const GemmRow& row);
// Between nodes it is of as many nodes as the row has, and its kind is "all_reduce between nodes".
FitCase collective_case(const CollectiveRow& row, const Cluster& cluster);
// The nodes that it ran on; nothing if the cluster's have fewer devices.
std::optional<Cluster> machine_of(const CollectiveRow& row, Cluster cluster);

// "gemm_fp8", "gemm_fp8_blocks" or "gemm_fp4", with the prefix "sustained_" for long runs.
std::string narrow_kind(const GemmRow& row);
// includes the cast where the row's time does
Seconds narrow_time(const GemmRow& row, const Cluster& cluster);

// Free parameters with priors and bounds, the same for every device. Links are those inside a node;
// NVLS only where the switch has it.
std::vector<FitParameter> gemm_parameters(const BuildingBlocks& blocks);
std::vector<FitParameter> collective_parameters(const Cluster& cluster);

// The subset of gemm_parameters() that these tables can tell for this cluster. `launch_known`:
// other rows tell the launch time better than products do.
std::vector<FitParameter> gemm_parameters_for(const Cluster& start, const BuildingBlocks& blocks,
                                              bool launch_known);
// NCCL uses the switch's adders (NVLS) only above a number of ranks. Without all-reduces of more
// ranks their parameters stay as they are.
std::vector<FitParameter> collective_parameters_for(const Cluster& start,
                                                    const BuildingBlocks& blocks);
bool inside_one_node(const CollectiveRow& row, const Cluster& cluster);
// Between nodes, with all ranks of each.
bool fills_nodes(const CollectiveRow& row, const Cluster& cluster);
// The constants of link.inter. Priors are the cluster's values, and of the shares of the NICs' rate
// what the longest messages of the rows reach.
std::vector<FitParameter> parameters_between_nodes(const Cluster& cluster,
                                                   const std::vector<CollectiveRow>& rows);
// Removes and counts the collectives that are neither inside one node nor of all ranks of several,
// so that no record of the fit claims that it was fitted to them.
void leave_out_part_nodes(BuildingBlocks& blocks, const Cluster& cluster);
std::string part_nodes_text(const Cluster& cluster);  // why they are left out

std::vector<FitCase> cast_cases(const std::vector<CastRow>& rows);
// drops those beside `products`
std::vector<CastRow> casts_without(std::vector<CastRow> casts, const std::set<RowHash>& products);

}  // namespace stepcast
