#include "model/machine/priors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <ranges>

#include "model/errors.h"
#include "model/files/plain_text.h"
#include "model/keys/fields.h"
#include "model/machine/generation.h"
#include "model/machine/scatter.h"
#include "model/presets.h"
#include "model/records/measurements.h"

namespace stepcast {
bool is_nameplate(std::string_view key) {
    constexpr std::array stated{"cluster.name",  "cluster.source", "cluster.nodes",   "cluster.gpus_per_node",
                                "cluster.fabric", "cluster.gpu.",  "cluster.network.nics", "cluster.network.rails",
                                "cluster.network.nodes_per_leaf",  "cluster.network.oversubscription",
                                "cluster.power.limit_w",           "cluster.power.idle_w",
                                "cluster.kernel.attention_kernel"};
    return key.ends_with("bandwidth") ||
           std::ranges::any_of(stated, [&](const char* s) { return key == s || (std::string_view(s).ends_with('.') && key.starts_with(s)); });
}

namespace {

// Root mean square of the logarithm of forecast over forecast when each of A100, H100 and B200 is taken from its datasheet
// and the others' constants, over eight training steps of 8 to 64 GPUs.
constexpr double spread_of_steps = 0.2;

constexpr std::array tables{"cluster.kernel.",       "cluster.host.",      "cluster.link.",
                            "cluster.interference.", "cluster.overheads.", "cluster.network.partial_ring"};

// What of a file its nameplate says.
TomlFile nameplate_of(TomlFile file, const std::string& prefix) {
    std::erase_if(file.entries, [&](const TomlEntry& e) { return !is_nameplate(prefix + e.path); });
    file.tables.clear();
    return file;
}

bool states_any(const TomlFile& file, const std::string& prefix, std::initializer_list<std::string_view> keys) {
    return std::ranges::any_of(file.entries, [&](const TomlEntry& e) { return std::ranges::find(keys, prefix + e.path) != keys.end(); });
}

bool is_fitted(const TomlFile& file) {
    return std::ranges::any_of(file.entries, [](const TomlEntry& e) { return e.path.starts_with("fitted."); });
}

using Machines = std::vector<Cluster>;

Machines those(const Machines& from, const auto& which) {
    Machines found;
    std::ranges::copy_if(from, std::back_inserter(found), which);
    return found;
}

// Dies for NVSwitch and dies for PCIe differ more than generations do.
int likeness(const Cluster& a, const Cluster& b) {
    return (a.fabric == b.fabric ? 4 : 0) - std::abs(static_cast<int>(generation(a.gpu)) - static_cast<int>(generation(b.gpu)));
}

constexpr int least_likeness = 3;  // of a machine's like: its fabric, and at most one generation away

bool any_like(const Machines& machines, const Cluster& cluster) {
    return std::ranges::any_of(machines, [&](const Cluster& m) { return likeness(m, cluster) >= least_likeness; });
}

// Where no machine is alike, products scatter by so much more, and a step with them.
double spread_for(const Machines& machines, const Cluster& cluster) {
    if (any_like(machines, cluster)) return spread_of_steps;
    const double alike = transfer_spread("gemm", true), alone = transfer_spread("gemm", false);
    return std::sqrt(spread_of_steps * spread_of_steps + std::max(0.0, alone * alone - alike * alike));
}

Machines fitted_machines(const std::string& left_out) {
    Machines found;
    for (const std::string& name : measured_machines()) {
        if (name == left_out || !has_preset(PresetKind::cluster, name)) continue;
        const auto path = preset_path(PresetKind::cluster, name);
        if (!is_fitted(read_toml(path))) continue;
        Layers layers;
        lay_cluster(layers, path);
        found.push_back(std::move(layers.experiment.cluster));
    }
    return found;
}

Machines nearest(const Machines& from, const Cluster& to) {
    const auto alike = [&](const Cluster& m) { return likeness(m, to); };
    const int most = std::ranges::max(from | std::views::transform(alike));
    return those(from, [&](const Cluster& m) { return alike(m) == most; });
}

// Links of the same fabric and, where there are any, of the same generation.
Machines with_links_like(const Machines& from, const Cluster& to) {
    const auto links = [](const Cluster& c) { return std::min(generation(c.gpu), Generation::blackwell); };
    const Machines same = those(from, [&](const Cluster& c) { return c.fabric == to.fabric; });
    const Machines like = those(same, [&](const Cluster& c) { return links(c) == links(to); });
    return !like.empty() ? like : !same.empty() ? same : from;
}

std::string names_of(const Machines& from) {
    std::string names;
    for (const Cluster& machine : from) names += (names.empty() ? "" : ", ") + machine.name;
    return names;
}

// Over the machines whose value was fitted; where none was, over all.
template <class T>
double median_of(const Key& key, std::vector<Experiment>& from) {
    std::vector<double> fitted, all;
    for (Experiment& machine : from) {
        all.push_back(number_in(field_in<T>(key, machine)));
        const auto& parameters = machine.cluster.fitted->parameters;
        if (std::ranges::find(parameters, key.path.substr(std::string_view("cluster.").size()), &FittedParameter::key) != parameters.end())
            fitted.push_back(all.back());
    }
    return median(fitted.empty() ? all : fitted);
}

void lay_medians(Layers& layers, const Machines& near, const Machines& linked) {
    const auto holders = [](const Machines& of) {
        std::vector<Experiment> all(of.size());
        for (std::size_t i = 0; i < of.size(); ++i) all[i].cluster = of[i];
        return all;
    };
    auto near_ones = holders(near), linked_ones = holders(linked);
    for (const auto& key : cluster_keys()) {
        const std::string path(key.path);
        if (is_nameplate(path) || std::ranges::none_of(tables, [&](const char* t) { return path.starts_with(t); }))
            continue;
        const bool link = path.starts_with("cluster.link.");
        use_field<double, Seconds, Bytes, BytesPerSecond>(key, layers.experiment, [&]<class T>(T& value) {
            value = T(median_of<T>(key, link ? linked_ones : near_ones));
            layers.said[path] = {Origin::prior, "median of " + names_of(link ? linked : near)};
        });
    }
}

// Constants of one kernel belong together: those of the machine whose efficiency is the median.
template <class Kernel>
Kernel middle(std::vector<Kernel> kernels) {
    std::ranges::sort(kernels, {}, &Kernel::efficiency);
    return kernels[(kernels.size() - 1) / 2];
}

// Machines whose SMs multiply as fast as `to`'s, or as nearly so as any.
Machines of_like_rate(const Machines& from, const Gpu& to) {
    constexpr double same = 0.05;  // of a logarithm
    double least = INFINITY;
    for (const Cluster& machine : from) least = std::min(least, rate_distance(machine.gpu, to));
    return those(from, [&](const Cluster& m) { return rate_distance(m.gpu, to) < least + same; });
}

template <class Kernel>
void add_by_name(std::vector<Kernel>& all, const Machines& from, std::vector<Kernel> KernelCosts::*list, const Gpu& to) {
    for (const Cluster& first : from)
        for (const Kernel& named : first.kernel.*list) {
            const auto is_it = [&](const Kernel& k) { return k.name == named.name; };
            if (std::ranges::any_of(all, is_it)) continue;
            std::vector<Kernel> same;
            for (const Cluster& m : of_like_rate(those(from, [&](const Cluster& c) { return std::ranges::any_of(c.kernel.*list, is_it); }), to))
                for (const Kernel& kernel : m.kernel.*list)
                    if (is_it(kernel)) same.push_back(moved(kernel, m.gpu, to));
            all.push_back(middle(same));
        }
}

// The nearest machines' kernels first, then those that only others run. Where none is alike, attention is that of machines whose
// SMs are as fast: what feeds a tensor core matters more to it than the generation or the fabric.
void lay_kernels(Cluster& cluster, const Machines& near, const Machines& all) {
    KernelCosts& kernel = cluster.kernel;
    const std::string named = kernel.attention.name;
    const bool alike = likeness(near.front(), cluster) >= least_likeness;
    const Machines attending = alike ? near : of_like_rate(all, cluster.gpu);
    std::vector<AttentionKernel> of_steps;
    for (const Cluster& m : attending)
        if (m.kernel.attention.tile > 0) of_steps.push_back(moved(m.kernel.attention, m.gpu, cluster.gpu));
    if (!of_steps.empty()) kernel.attention = middle(of_steps);
    for (const Machines* from : {&attending, &all})
        add_by_name(kernel.attention_kernels, *from, &KernelCosts::attention_kernels, cluster.gpu);
    for (const Machines* from : {&near, &all}) add_by_name(kernel.expert_kernels, *from, &KernelCosts::expert_kernels, cluster.gpu);
    for (const AttentionKernel& k : kernel.attention_kernels)
        if (!named.empty() && k.name == named) kernel.attention = alone(k);
}

// Between two sockets runs the same share of a rank's link as on the machines whose links are alike.
void lay_sockets(Layers& layers, const Machines& linked) {
    Link& intra = layers.experiment.cluster.intra;
    std::vector<double> shares;
    for (const Cluster& machine : linked)
        if (machine.intra.socket_bandwidth > BytesPerSecond(0)) shares.push_back(machine.intra.socket_bandwidth / machine.intra.bandwidth);
    if (shares.empty()) return;
    intra.socket_bandwidth = intra.bandwidth * median(shares);
    layers.said["cluster.link.intra.socket_bandwidth"] = {Origin::prior, "median share of " + names_of(linked)};
}

// What goes with the rates of an SM: model/machine/priors.h.
void lay_rates(Cluster& cluster, const Machines& near, const Machines& all) {
    KernelCosts& kernel = cluster.kernel;
    kernel.cast = moved_casts(all, kernel.cast, cluster.gpu);
    const double ratio = efficiency_ratio(all, near, cluster.gpu);
    const auto move = [&](double& efficiency) { efficiency = std::min(0.95, efficiency * ratio); };
    move(kernel.gemm_efficiency);
    move(kernel.fp8_blocks.efficiency);
    for (NarrowGemm& narrow : kernel.narrow.values) move(narrow.efficiency);
}

// How tensor cores take their operands goes with the generation: there is no median of it.
void lay_operands(Layers& layers, const Machines& near) {
    layers.experiment.cluster.kernel.gemm_shared_operands = near.front().kernel.gemm_shared_operands;
    layers.said["cluster.kernel.gemm_shared_operands"] = {Origin::prior, "as " + names_of(near)};
}

// What products at full clock would draw, relative to what the limit leaves on top of idle: alike for machines of a kind, as their
// makers choose clocks and limits together.
double full_draw(const Cluster& c) {
    return 1e-12 * c.power.flop * c.kernel.gemm_efficiency * std::max(c.gpu.peaks[Dtype::fp16], c.gpu.peaks[Dtype::bf16]).si() /
           (c.power.limit - c.power.idle);
}

// But an operation takes no more energy than on those: a board with fewer of them stays below its limit.
// Where no limit is stated, steps run at the clock that such a draw leaves.
void lay_power(Layers& layers, const Machines& near) {
    std::vector<double> draws, bytes, energies;
    for (const Cluster& c : near) {
        if (c.power.limit <= c.power.idle) continue;
        draws.push_back(full_draw(c));
        bytes.push_back(c.power.byte);
        energies.push_back(c.power.flop);
    }
    Cluster& cluster = layers.experiment.cluster;
    if (draws.empty()) return;
    if (cluster.power.limit <= cluster.power.idle) {
        cluster.kernel.training_gemm /= std::sqrt(std::max(1.0, median(draws)));
        return;
    }
    cluster.power.flop = 1;
    cluster.power.flop = std::min(median(draws) / full_draw(cluster), median(energies));
    cluster.power.byte = median(bytes);
    for (const char* key : {"cluster.power.flop_pj", "cluster.power.byte_pj"}) layers.said[key] = {Origin::prior, "median of " + names_of(near)};
}

struct PriorLists {
    KEY(std::vector<std::string>, machines, {}, "whose constants others are taken from");
    KEY(std::vector<std::string>, sisters, {}, "lists of machines whose chips have the same SMs");
};
PriorLists read_lists() {
    const std::string path = home_folder() + "/model/presets/priors.toml";
    return std::filesystem::is_regular_file(path) ? read_table<PriorLists>(path, "a file of priors") : PriorLists{};
}

}  // namespace

void lay_priors(Layers& layers, const TomlFile& file, const std::string& prefix, const std::string& left_out) {
    if (!states_any(file, prefix, {"cluster.gpu.peak.fp16", "cluster.gpu.peak.bf16"}) ||
        states_any(file, prefix, {"cluster.kernel.gemm_efficiency"}))
        return;
    const auto all = fitted_machines(left_out);
    if (all.empty()) return;
    Layers before;  // which machines are near shows before the file is laid over the priors
    lay_file(before, nameplate_of(file, prefix), prefix, Origin::preset);
    const Cluster& plate = before.experiment.cluster;
    Cluster& cluster = layers.experiment.cluster;
    const auto near = nearest(all, plate), linked = with_links_like(all, plate);
    cluster.gpu = plate.gpu;
    cluster.intra.bandwidth = plate.intra.bandwidth;
    cluster.power = plate.power;
    cluster.kernel.attention.name = plate.kernel.attention.name;
    lay_medians(layers, near, linked);
    lay_operands(layers, near);
    lay_sockets(layers, linked);
    lay_rates(cluster, near, all);
    lay_power(layers, near);
    lay_kernels(cluster, near, all);
    cluster.noise.step = spread_for(all, plate);
    layers.said["cluster.noise.step"] = {Origin::prior, "spread of forecasts from these"};
}

std::vector<std::string> measured_machines() { return read_lists().machines; }

std::vector<std::string> sisters_of(const std::string& machine) {
    for (const std::string& list : read_lists().sisters) {
        std::vector<std::string> names = words_of(list);
        if (std::erase(names, machine) > 0) return names;
    }
    return {};
}

Cluster cluster_from_others(const std::string& preset) {
    const TomlFile file = nameplate_of(read_toml(preset_path(PresetKind::cluster, preset)), "cluster.");
    Layers layers;
    lay_priors(layers, file, "cluster.", preset);
    lay_file(layers, file, "cluster.", Origin::preset);
    return layers.experiment.cluster;
}

bool has_like_machine(const Cluster& cluster) {
    return any_like(fitted_machines(cluster.name), cluster);
}

}  // namespace stepcast
