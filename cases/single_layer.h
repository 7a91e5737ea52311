// Rows of one feed-forward layer with or without experts, trained by itself. Internal to cases/.
#pragma once

#include "cases/cases.h"
#include "cases/cluster.h"

namespace stepcast {

// The model's name begins with "single-moe-layer".
bool is_single_layer(const CaseRow& row);

// `mbs` samples of `seq` tokens through experts of width `ffn` (capacity factor 1), or through one dense block of that width.
// Throws ConfigError for dispatch by products with one-hot masks, whose cost grows with the square of the tokens.
Case single_layer_case(const CaseRow& row, const std::string& cluster, Shelf& shelf);

}  // namespace stepcast
