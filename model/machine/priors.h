// What a machine without measurements is assumed to reach, from the fitted machines nearest to it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/cluster.h"
#include "model/input/layers.h"

namespace stepcast {

// Sets priors below a cluster file that states rates of a GPU: efficiencies of kernels and links
// (shares of datasheet rates), costs of calls and hosts, energy at full clock, memory beside the
// tensors, and in noise.step the error of such forecasts. Values that the file states win. A file
// with constants of products, memory and links is complete and gets none. Internal to model/.
void lay_priors(Layers& layers, const TomlFile& cluster, const std::string& prefix,
                const std::string& left_out = {});

// Sets the constants of link.inter that nobody stated, where a network was stated beside a machine
// that has none: the medians of the fitted machines. Without them rings would reach the whole
// bandwidth, without a start.
void lay_network_priors(Layers& layers);

// True if a key ("cluster.gpu.sms") belongs to the datasheet and not to measurements.
bool is_nameplate(std::string_view key);

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

// Adapts the constants of one GPU's kernels to another. On all measured devices, A100 to Arc, an SM
// fills pipelines, takes exponentials and copies equally fast. The speeds of its tensor cores and
// of its share of the memory differ against that.

}  // namespace stepcast
