// Readers of the kinds of building-block tables, and the fits of those that have one of their own. Internal to calibrate/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calibrate/building_blocks.h"
#include "calibrate/fit_tables.h"
#include "cases/shelf.h"
#include "model/framework.h"
#include "model/records/table_row.h"

namespace stepcast {

// Rows of attention, latent attention, expert layers and casts of one device, as published tables state them.
AttentionRow attention_row(const TableRow& row);
void add_attention(const TableRow& row, const Gpu& gpu, BuildingBlocks& blocks, const std::vector<SourceRow>& compilers);
void add_cast(const TableRow& row, BuildingBlocks& blocks);
void add_moe_layer(const TableRow& row, const Gpu& gpu, BuildingBlocks& blocks, const std::vector<SourceRow>& tuned);

// "bf16", "bf16 -> fp32", "fp8 (128-wide scaling) -> bf16": the first word is the operands'.
Dtype operand_dtype(const std::string& cell);
bool has_rate(const Gpu& gpu, Dtype dtype);

// Tables of kernels that a PyTorch script timed one by one: batched products and attention, passes over memory, launches
// (docs/pytorch.md); its GEMMs are read as any others.

// Adds a row of these kinds; others are left alone. Of an environment the row `gpu` must name the device.
void add_script_row(TableKind kind, const TableRow& row, const Gpu& gpu, BuildingBlocks& blocks);

// Tables of dispatch and combine of expert layers' tokens (sim/costs/dispatch_law.h).

// Rows over several nodes and of steps that move no tokens (nvlink_prepare) are passed over.
void add_exchange(const TableRow& row, BuildingBlocks& blocks);

bool has_kernels(const Cluster& cluster, const ExchangeRow& row);  // its constants are known

FitCase exchange_case(const ExchangeRow& row);

// One fit for each kind of kernels that the rows hold.
std::vector<FitPart> exchange_fits(const BuildingBlocks& blocks);

// Tables that `import` makes of a profiler's trace: kernels and collectives as they ran inside steps. They refine what a cluster
// file says of steps, one constant a class of work; benchmarks' tables tell how a kernel's time follows from its shape.

// Whether the row is of such a table; they count calls by rank, or ranks that were seen.
bool is_traced(TableKind kind, const TableRow& row);
// Adds the row to blocks.traced.
void add_traced_row(TableKind kind, const TableRow& row, const Gpu& gpu, BuildingBlocks& blocks);

// Of GEMMs inside a step, passes, attention, and collectives inside and between nodes, as far as there are rows. The priors are
// the cluster's own values. A row counts by its share of the time.
std::vector<FitPart> traced_fits(const Cluster& start, const BuildingBlocks& blocks);

// Rows of the table of launches, as import names them.
inline constexpr std::string_view launch_kind = "launch call", layer_kind = "host time of a layer beside its launches",
                                  single_passes = "passes, operator by operator", compiled_passes = "passes, compiled";
// What a framework's own code costs the host, and whether its passes run one by one, as far as launches tell; in words.
std::vector<std::string> take_framework(Framework& framework, const std::vector<LaunchRow>& launches);

}  // namespace stepcast
