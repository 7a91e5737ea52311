// The tables of a PyTorch script that timed kernels one by one (notes/pytorch.md): their rows, and
// the fits that only they have.
#pragma once

#include <string_view>
#include <vector>

#include "calibrate/building_blocks.h"
#include "calibrate/fit.h"
#include "model/records/table_row.h"

namespace stepcast {

// Adds a row of batched products and attention, passes over memory or launches. Ignores other
// kinds. In an environment table the row `gpu` must name the device.
void add_script_row(TableKind kind, const TableRow& row, const Gpu& gpu, BuildingBlocks& blocks);

// How a pass of the script ("softmax") meets the memory; a stream where the name is none.
MemoryPass::Access access_of_call(std::string_view name);

// Constants that rows of launches state directly. host.call: calls issued one by one, in batches of
// 10 to 1000 (shorter batches show the resolution of the clock, longer ones wait for a full queue).
// kernel.launch: one kernel of a replayed graph of empty kernels. host.read. The error is half of
// the range of the rows. Without such rows the result has no parameters.
FitResult launch_fit(const Cluster& start, const BuildingBlocks& blocks);

// The rows that tell the kernel's own time. Between two events a kernel shorter than its own call
// shows the time of the call. So of the rows of one call (`KernelRow::call`, or all GEMMs of a
// script) those within a quarter of the fastest are dropped.
std::vector<KernelRow> above_floor(std::vector<KernelRow> rows);
std::vector<GemmRow> above_floor(std::vector<GemmRow> rows);

FitCase kernel_case(const KernelRow& row);

// The parts in order: streams and rows together with what events add, then batched GEMMs, then
// attention.
std::vector<FitPlan> kernel_fits(const BuildingBlocks& blocks);

}  // namespace stepcast
