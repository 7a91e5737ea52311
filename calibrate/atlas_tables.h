// Rows of attention, latent attention, expert layers and casts of one device, as published tables state them. Internal to calibrate/.
#pragma once

#include "calibrate/building_blocks.h"
#include "calibrate/table_row.h"

namespace stepcast {

AttentionRow attention_row(const TableRow& row);
void add_attention(const TableRow& row, const Gpu& gpu, BuildingBlocks& blocks);
void add_cast(const TableRow& row, BuildingBlocks& blocks);
void add_moe_layer(const TableRow& row, const Gpu& gpu, BuildingBlocks& blocks);

// "bf16", "bf16 -> fp32", "fp8 (128-wide scaling) -> bf16": the first word is the operands'.
Dtype operand_dtype(const std::string& cell);
bool has_rate(const Gpu& gpu, Dtype dtype);

}  // namespace stepcast
