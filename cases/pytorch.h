// What ../scripts/pytorch-truth.sh reads: whole training steps and MoE layers that a plain eager PyTorch script measured on
// one GPU. Internal to cases/.
#pragma once

#include <string>
#include <vector>

#include "cases/cases.h"

namespace stepcast {

// Whether the header is that of such a table: steps.csv (case_id,layers,..,optimizer_s,..) or moe.csv (experts,tokens,..,gate,..).
bool holds_pytorch_steps(const std::vector<std::string>& header);

// One comparison a row, on the cluster named or else h200-x1. An "oom" in forward_s is a case without a step: refused. The
// routing of MoE layers is in moe_routing.csv next to the file. Throws ConfigError with file:line.
std::vector<Comparison> comparisons_of_pytorch(const std::string& path, const std::string& cluster);

}  // namespace stepcast
