// Tables that `import` makes from a profiler's trace: kernels and collectives as they ran inside
// steps. They refine a cluster file's constants for steps, one for each class of work. How a
// kernel's time depends on its shape comes from tables of benchmarks.
#pragma once

#include <string>
#include <vector>

#include "calibrate/building_blocks.h"
#include "calibrate/fit.h"
#include "model/framework.h"
#include "model/records/table_row.h"

namespace stepcast {

// Whether the row is of such a table: only these count calls by rank, or state how many ranks were
// seen.
bool is_traced(TableKind kind, const TableRow& row);
// Adds the row to blocks.traced.
void add_traced_row(TableKind kind, const TableRow& row, const Gpu& gpu, BuildingBlocks& blocks);

// The fits to GEMMs inside a step, passes, attention, and collectives inside and between nodes,
// where there are rows. The priors are the cluster's own values. The weight of a row grows with its
// share of the time.
std::vector<FitPlan> traced_fits(const Cluster& start, const BuildingBlocks& blocks);

// Sets the host costs of a framework's own code, and whether its passes run operator by operator,
// as launches tell; says so in words.
std::vector<std::string> take_framework(Framework& framework,
                                        const std::vector<LaunchRow>& launches);

}  // namespace stepcast
