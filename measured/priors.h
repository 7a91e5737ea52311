// What a machine without measurements is assumed to reach, from the fitted machines nearest to it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "measured/nearest.h"
#include "model/cluster.h"
#include "model/input/layers.h"

namespace stepcast {

// Completes a machine that nobody measured (Layers::unmeasured): below all that was said of it,
// lays the priors of its datasheet, and those of its network where it has none of its own.
void complete_machine(Layers& layers);

// Lays what a machine with this datasheet is assumed to reach, from `measured` machines:
// efficiencies of kernels and links (shares of datasheet rates), costs of calls and hosts, energy
// at full clock, memory beside the tensors, and in noise.step the error of such forecasts. Nothing
// if `measured` is empty.
void lay_priors(Layers& layers, const Cluster& plate, const Machines& measured);

// Sets the constants of link.inter that nobody stated, where a network was stated beside a machine
// that has none: the medians of the fitted machines. Without them rings would reach the whole
// bandwidth, without a start.
void lay_network_priors(Layers& layers);

// A shipped cluster predicted from its nameplate and the constants of the others, which shows how
// well constants transfer.
Cluster cluster_from_others(const std::string& preset);

// Whose device it is, by its names (model/presets/priors.toml).
std::string maker_of(const Gpu& gpu);
// Its maker, if no machine of that was measured, so that its kernels and links are forecast as
// another maker's; else "".
std::string unmeasured_maker(const Gpu& gpu);

// True if the other measured machines include one of its maker, fabric and generation.
bool has_like_machine(const Cluster& cluster);

// the largest share of a datasheet rate that a prior may be
inline constexpr double most_of_rate = 0.95;

}  // namespace stepcast
