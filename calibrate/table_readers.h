// Readers of some kinds of building-block tables, and the fits that only these kinds have. Internal
// to calibrate/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calibrate/building_blocks.h"
#include "calibrate/fit_tables.h"
#include "import/profiles/table_words.h"
#include "import/tables/shelf.h"
#include "model/framework.h"
#include "model/records/table_row.h"

namespace stepcast {

// Rows of attention, latent attention, expert layers and casts of one device, from published
// tables.
AttentionRow attention_row(const TableRow& row);
void add_attention(const TableRow& row, const Gpu& gpu, BuildingBlocks& blocks,
                   const std::vector<SourceRow>& compilers);
void add_cast(const TableRow& row, BuildingBlocks& blocks);
void add_moe_layer(const TableRow& row, const Gpu& gpu, BuildingBlocks& blocks,
                   const std::vector<SourceRow>& tuned);

// The first word of a cell such as "bf16", "bf16 -> fp32" or "fp8 (128-wide scaling) -> bf16": the
// operands' dtype.
Dtype operand_dtype(const std::string& cell);
bool has_rate(const Gpu& gpu, Dtype dtype);

// Adds a row of the tables of a PyTorch script that timed kernels one by one (docs/pytorch.md):
// batched products and attention, passes over memory, launches. Ignores other kinds. In an
// environment table the row `gpu` must name the device.
void add_script_row(TableKind kind, const TableRow& row, const Gpu& gpu, BuildingBlocks& blocks);

// Tables of dispatch and combine of expert layers' tokens (sim/costs/dispatch_law.h). Leaves out
// rows over several nodes and of phases that move no tokens (nvlink_prepare).
void add_exchange(const TableRow& row, BuildingBlocks& blocks);

// the cluster has constants for the row's kernels
bool has_kernels(const Cluster& cluster, const ExchangeRow& row);

FitCase exchange_case(const ExchangeRow& row);

// One fit for each kind of kernels in the rows.
std::vector<FitPart> exchange_fits(const BuildingBlocks& blocks);

// Tables that `import` makes from a profiler's trace: kernels and collectives as they ran inside
// steps. They refine a cluster file's constants for steps, one for each class of work. How a
// kernel's time depends on its shape comes from tables of benchmarks.

// Whether the row is of such a table: only these count calls by rank, or state how many ranks were
// seen.
bool is_traced(TableKind kind, const TableRow& row);
// Adds the row to blocks.traced.
void add_traced_row(TableKind kind, const TableRow& row, const Gpu& gpu, BuildingBlocks& blocks);

// The fits to GEMMs inside a step, passes, attention, and collectives inside and between nodes,
// where there are rows. The priors are the cluster's own values. The weight of a row grows with its
// share of the time.
std::vector<FitPart> traced_fits(const Cluster& start, const BuildingBlocks& blocks);

// Sets the host costs of a framework's own code, and whether its passes run operator by operator,
// as launches tell; says so in words.
std::vector<std::string> take_framework(Framework& framework,
                                        const std::vector<LaunchRow>& launches);

}  // namespace stepcast
