// Predicts the steps and layers that scripts/pytorch-truth.sh measured.
#pragma once

#include <string>
#include <vector>

#include "sim/results/comparison.h"

namespace stepcast {

// Tables of the PyTorch benchmarks: whole steps, or single MoE layers. The first function tells
// whether a header is of such a table.
bool holds_pytorch_steps(const std::vector<std::string>& header);
std::vector<Comparison> comparisons_of_pytorch(const std::string& path,
                                               const std::string& cluster = "");

}  // namespace stepcast
