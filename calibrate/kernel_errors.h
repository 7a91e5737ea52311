// Tables of kernels, layers and collectives against the laws of the shipped clusters: what `compare` says of them.
#pragma once

#include <string>
#include <vector>

#include "model/kernel_errors.h"

namespace stepcast {

bool is_building_blocks(const std::string& path);

// Each row by `cluster` where that is of its device; by the preset of its device that was fitted from most samples where
// `cluster` is empty. Rows of devices that no preset describes, and of operations without a law, count as not predicted.
std::vector<KernelErrors> kernel_errors(const std::vector<std::string>& paths, const std::string& cluster);

}  // namespace stepcast
