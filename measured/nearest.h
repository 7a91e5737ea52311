// Finds the measured machines that an unmeasured machine resembles, and what to take from them.
// Internal to measured/.
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measured/medians.h"
#include "model/cluster.h"
#include "model/input/layers.h"

namespace stepcast {

using Machines = std::vector<Cluster>;

// The median of `value` over the machines for which it has a value.
std::optional<double> median_over(const Machines& machines, const auto& value) {
    std::vector<double> values;
    for (const Cluster& machine : machines)
        if (const std::optional<double> one = value(machine)) values.push_back(*one);
    return values.empty() ? std::nullopt : std::optional(median(std::move(values)));
}
inline std::optional<double> when(bool known, double value) {
    return known ? std::optional(value) : std::nullopt;
}

// The measured machines except `left_out`, each with all its values.
Machines fitted_machines(const std::string& left_out);

// Share of a PCIe link that a ring over both sockets reaches, if no similar machine shows it
// (model/presets/priors.toml).
double rings_between_sockets();

std::string names_of(const Machines& machines);

// True if a machine has the same maker, fabric and generation; forecasts from it are as good as
// those between measured machines.
bool any_of_its_kind(const Machines& machines, const Cluster& cluster);

// The machines whose SM rate is nearest to that of `to`, with all others about as near.
Machines of_like_rate(const Machines& from, const Gpu& to);

// The machines whose constants a nameplate takes.
//   near     same fabric and generation; else equal SMs (same_sms); else same fabric, one
//            generation away; else the nearest SM rate. How a tensor core is fed matters more to a
//            kernel than the board.
//   narrow   for products in fewer than 16 bits and casts: near, or the nearest in generation if
//            near lacks such types.
//   linked   same fabric and, as far as possible, the same maker, generation and number of ranks.
//   library  for costs of collectives inside a node, which depend on the maker's library: linked,
//            or the nearest of the own maker if linked is of another. What the fabric itself
//            provides (switches that add, kernels that dispatch) stays with linked.
struct Sources {
    Machines all, near, narrow, linked, library;

    const Machines& of(std::string_view path) const;
};

Sources sources_for(const Cluster& to, const Machines& all);

// Shipped clusters whose kernels and links were measured, one per device.
std::vector<std::string> measured_machines();

// Other measured machines whose chips have the same SMs as `machine`.
std::vector<std::string> sisters_of(const std::string& machine);

}  // namespace stepcast
