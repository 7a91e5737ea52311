// Tables of kernels that a PyTorch script timed one by one: batched products and attention, passes over memory, launches
// (docs/pytorch.md); its GEMMs are read as any others. Internal to calibrate/.
#pragma once

#include "calibrate/building_blocks.h"
#include "calibrate/table_row.h"

namespace stepcast {

// Adds a row of these kinds; others are left alone. Of an environment the row `gpu` must name the device.
void add_script_row(TableKind kind, const TableRow& row, const Gpu& gpu, BuildingBlocks& blocks);

}  // namespace stepcast
