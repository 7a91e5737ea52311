// What a machine without measurements is assumed to reach: the median of those that were fitted. Internal to model/.
#pragma once

#include "model/layers.h"

namespace stepcast {

// Lays them below a cluster file that states rates of a GPU but no constants of its own: efficiencies of kernels and links,
// costs of calls and hosts, memory beside the tensors; and as noise.step how far such forecasts are off.
void lay_priors(Layers& layers, const TomlFile& cluster, const std::string& prefix);

}  // namespace stepcast
