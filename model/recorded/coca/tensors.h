// CoCa's parameters as tensors, and how its ZeRO-1 cuts them into slices.
#pragma once

#include <vector>

#include "model/recorded/coca/parts.h"

namespace stepcast {

// The groups that layer-wise learning rates create, with neighbours joined until
// runtime.optimizer.groups are left. Throws ConfigError with that key if there are fewer.
std::vector<ParameterGroup> parameter_groups(const Experiment& experiment);

// Elements of a list of groups, or only of the units of one tower.
double elements_of(const std::vector<ParameterGroup>& groups, std::string_view tower = "");

// per rank, with padding
double piece_elements(const ParameterGroup& group, int ranks);

// for each tensor, in order
std::vector<std::vector<Slice>> slices_of(const ParameterGroup& group, int ranks);

// number of tensors with a slice on the rank
int tensors_on(const ParameterGroup& group, int ranks, int rank);

}  // namespace stepcast
