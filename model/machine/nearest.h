// Finds the measured machines that an unmeasured machine resembles, and what to take from them.
// Internal to model/machine.
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/cluster.h"
#include "model/input/layers.h"
#include "model/records/measurements.h"

namespace stepcast {

using Machines = std::vector<Cluster>;

Machines those(const Machines& from, const auto& holds) {
    Machines found;
    std::ranges::copy_if(from, std::back_inserter(found), holds);
    return found;
}

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
//   generation away; else the nearest SM rate. How
//            a tensor core is fed matters more to a kernel than the board.
//   narrow   for products in fewer than 16 bits and casts: near, or the nearest in generation if
//   near lacks such types. linked   same fabric and, as far as possible, the same maker, generation
//   and number of ranks. library  for costs of collectives inside a node, which depend on the
//   maker's library: linked, or the nearest of the own maker if
//            linked is of another. What the fabric itself provides (switches that add, kernels that
//            dispatch) stays with linked.
struct Sources {
    Machines all, near, narrow, linked, library;

    const Machines& of(std::string_view path) const;
};

Sources sources_for(const Cluster& to, const Machines& all);

// Adapts the medians of `from` for collectives inside a node, after the datasheet gave gpu, fabric
// and bandwidth:
//   sockets      a ring over both reaches the share of a rank's link that it reaches on machines
//   with similar links, or if none of
//                those shows it, the share of recorded runs (model/presets/priors.toml).
//   all-to-alls  reach the library's share of the narrowest links, which include the link between
//   sockets: their many flows fill
//                it, while a ring has only one flow each way.
//   launches     take a number of cycles, like those of kernels (launch_ratio).
//   copies       of a rank's own piece are made by the SMs of channels, at a fixed rate each. With
//   NVSwitch all channels are used; over
//                PCIe, NCCL uses as many as the link's rate requires. The number in other libraries
//                is unknown.
void lay_links(Layers& layers, const Sources& from);

// Kernels by name: first those of the machines in `near`, then those that only others run, each
// taken whole from one machine. For attention from others, only machines count whose tensor cores
// are fed as near's are: from registers (A100, cards) or from shared memory (Hopper, data-centre
// Blackwell). Libraries use one name ("FlashInfer prefill", "Triton extend attention", "unmasked
// TRT-LLM FMHA") for a different kernel on either kind, so constants of one say nothing about the
// other.
void lay_kernels(Cluster& cluster, const Machines& near, const Machines& all);

// Adds fp8 to a kernel from a machine without fp8: the change is that of the kernel with its name
// on machines that have fp8, with bytes and launches of the casts from that kernel. What fp8
// products lose against 16 bits is work outside the tensor cores. This takes the same time on every
// SM, so it costs less of the rate where tensor cores are slower.
AttentionKernel with_eight_bits(AttentionKernel kernel, const Machines& all, const Gpu& to);

}  // namespace stepcast
