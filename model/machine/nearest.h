// Which measured machines an unmeasured one is like. Internal to model/machine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/cluster.h"

namespace stepcast {

using Machines = std::vector<Cluster>;

// The measured machines but for one, each laid in full.
Machines fitted_machines(const std::string& left_out);

// What a ring over both sockets reaches of a PCIe link, where no like machine tells (model/presets/priors.toml).
double rings_between_sockets();

std::string names_of(const Machines& machines);

// Whether one is of the fabric and the generation: forecasts from it are as good as those between measured machines.
bool any_of_its_kind(const Machines& machines, const Cluster& cluster);

// Machines whose SMs multiply as fast as `to`'s, or as nearly so as any.
Machines of_like_rate(const Machines& from, const Gpu& to);

// Whose constants a nameplate takes.
//   near     of the fabric and generation; where there are none, those with the same SMs (same_sms); then those of the fabric, one
//            generation away; then those whose SMs multiply as fast. What feeds a tensor core matters more to a kernel than its board.
//   narrow   the same of products in fewer than 16 bits and of casts: near, or where those have no such types the nearest in generation.
//   linked   of the fabric and, as far as there are any, of the maker, of the generation, and of as many ranks.
//   library  what collectives inside a node cost and which share of a link they reach is the maker's library's: linked's, or where those are
//            another maker's the nearest of its own. Only what a fabric has of its own is linked's: switches that add, kernels that dispatch.
struct Sources {
    Machines all, near, narrow, linked, library;

    // Of a key.
    const Machines& of(std::string_view path) const;
};

Sources sources_for(const Cluster& to, const Machines& all);

}  // namespace stepcast
