// Which measured machines an unmeasured one is like, and what it takes of them. Internal to model/machine.
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/cluster.h"
#include "model/keys/layers.h"
#include "model/records/measurements.h"

namespace stepcast {

using Machines = std::vector<Cluster>;

Machines those(const Machines& from, const auto& holds) {
    Machines found;
    std::ranges::copy_if(from, std::back_inserter(found), holds);
    return found;
}

// The median of what `value` says of the machines, over those of which it says something.
std::optional<double> median_over(const Machines& machines, const auto& value) {
    std::vector<double> values;
    for (const Cluster& machine : machines)
        if (const std::optional<double> one = value(machine)) values.push_back(*one);
    return values.empty() ? std::nullopt : std::optional(median(std::move(values)));
}
inline std::optional<double> when(bool known, double value) { return known ? std::optional(value) : std::nullopt; }

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

// Of collectives inside a node what the medians of `from` leave to be said, where gpu, fabric and bandwidth are the datasheet's:
//   sockets      a ring over both reaches the share of a rank's link that it reaches on machines whose links are alike;
//                where none of those shows its share, that of recorded runs (model/presets/priors.toml).
//   all-to-alls  reach the library's share of the narrowest links, of which what joins the sockets is one: their many
//                flows fill it, a ring's one flow each way does not.
//   launches     take cycles, as those of kernels (launch_ratio).
//   copies       of a rank's own piece are made by the SMs of channels, so many bytes a second each. Machines with
//                NVSwitch have all of them, over PCIe NCCL has as many as the link's rate asks for. How many other
//                libraries have is not known.
void lay_links(Layers& layers, const Sources& from);

// Named kernels: those of the machines in `near` first, then those that only others run, each from one machine whole. Of attention's others only machines whose
// tensor cores are fed as near's count: from registers (A100, cards) or from shared memory (Hopper, data-centre Blackwell). Under one name
// ("FlashInfer prefill", "Triton extend attention", "unmasked TRT-LLM FMHA") libraries hold another kernel for either, so that one's constants
// say nothing of the other.
void lay_kernels(Cluster& cluster, const Machines& near, const Machines& all);

// A kernel from a machine without fp8: what 8 bits change is what they change in the kernel of its name on machines that have them. Bytes and
// launches of the casts are that kernel's. What fp8 products lose against those in 16 bits is work outside the tensor cores, the same time on
// every SM, and so less of the rate where tensor cores are slower.
AttentionKernel with_eight_bits(AttentionKernel kernel, const Machines& all, const Gpu& to);

}  // namespace stepcast
