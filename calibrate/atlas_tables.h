// Rows of attention, latent attention, expert layers and casts of one device, from published
// tables.
#pragma once

#include <string>
#include <vector>

#include "calibrate/building_blocks.h"
#include "import/tables/shelf.h"
#include "model/records/table_row.h"

namespace stepcast {

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

}  // namespace stepcast
