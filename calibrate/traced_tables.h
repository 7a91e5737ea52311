// Tables that `import` makes of a profiler's trace: kernels and collectives as they ran inside steps. They refine what a cluster
// file says of steps, one constant a class of work; benchmarks' tables tell how a kernel's time follows from its shape.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calibrate/building_blocks.h"
#include "calibrate/fit.h"
#include "calibrate/table_row.h"
#include "model/framework.h"

namespace stepcast {

// Whether the row is of such a table; they count calls by rank, or ranks that were seen.
bool is_traced(TableKind kind, const TableRow& row);
// Adds the row to blocks.traced.
void add_traced_row(TableKind kind, const TableRow& row, const Gpu& gpu, BuildingBlocks& blocks);

struct TracedFit {
    std::vector<FitParameter> parameters;
    std::vector<FitCase> cases;
};
// Of GEMMs inside a step, passes, attention, and collectives inside and between nodes, as far as there are rows. The priors are
// the cluster's own values. A row counts by its share of the time.
std::vector<TracedFit> traced_fits(const Cluster& start, const BuildingBlocks& blocks);

// Rows of the table of launches, as import names them.
inline constexpr std::string_view launch_kind = "launch call", layer_kind = "host time of a layer beside its launches",
                                  single_passes = "passes, operator by operator", compiled_passes = "passes, compiled";
// What a framework's own code costs the host, and whether its passes run one by one, as far as launches tell; in words.
std::vector<std::string> take_framework(Framework& framework, const std::vector<LaunchRow>& launches);

}  // namespace stepcast
