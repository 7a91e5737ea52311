// What a machine without measurements is assumed to reach: what the fitted machines nearest to it have in common.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/keys/layers.h"

namespace stepcast {

// Lays them below a cluster file that states rates of a GPU but no constants of its own: efficiencies of kernels and links
// (shares of the datasheet's rates), costs of calls and hosts, the energy that full clock takes, memory beside the tensors; and
// as noise.step how far such forecasts of steps are off. Internal to model/.
void lay_priors(Layers& layers, const TomlFile& cluster, const std::string& prefix,
                const std::string& left_out = {});

// Shipped clusters whose kernels and links were measured, one a device.
std::vector<std::string> measured_machines();

// A shipped cluster from its nameplate and the constants of the others: how well they transfer.
Cluster cluster_from_others(const std::string& preset);

// Whether the measured machines, without itself, hold one of its fabric and at most a generation away.
bool has_like_machine(const Cluster& cluster);

}  // namespace stepcast
