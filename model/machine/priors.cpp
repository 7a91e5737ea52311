#include "model/machine/priors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>

#include "model/errors.h"
#include "model/files/plain_text.h"
#include "model/keys/key_values.h"
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

bool has_constants(const TomlFile& file, const std::string& prefix) {
    return std::ranges::any_of(
        file.entries, [&](const TomlEntry& e) { return prefix + e.path == "cluster.kernel.gemm_efficiency"; });
}
bool is_gpu(const TomlFile& file, const std::string& prefix) {
    return std::ranges::any_of(file.entries, [&](const TomlEntry& e) {
        return prefix + e.path == "cluster.gpu.peak.fp16" || prefix + e.path == "cluster.gpu.peak.bf16";
    });
}

bool is_fitted(const TomlFile& file) {
    return std::ranges::any_of(file.entries, [](const TomlEntry& e) { return e.path.starts_with("fitted."); });
}

// Dies for NVSwitch and dies for PCIe differ more than generations do.
int likeness(const Cluster& a, const Cluster& b) {
    return (a.fabric == b.fabric ? 4 : 0) - std::abs(static_cast<int>(generation(a.gpu)) - static_cast<int>(generation(b.gpu)));
}

// Of the fabric and at most one generation away: kernels are like its. Of the same generation: and as well known.
enum Likeness : int { one_generation_away = 3, same_generation = 4 };

bool any_like(const std::vector<Layers>& machines, const Cluster& cluster, int least) {
    return std::ranges::any_of(machines, [&](const Layers& m) { return likeness(m.experiment.cluster, cluster) >= least; });
}

// Where no machine is of the fabric and generation, products scatter by so much more, and a step with them.
double spread_for(const std::vector<Layers>& machines, const Cluster& cluster) {
    if (any_like(machines, cluster, same_generation)) return spread_of_steps;
    const double alike = transfer_spread("gemm", true), alone = transfer_spread("gemm", false);
    return std::sqrt(spread_of_steps * spread_of_steps + std::max(0.0, alone * alone - alike * alike));
}

std::vector<Layers> fitted_machines(const std::string& left_out) {
    std::vector<Layers> found;
    for (const std::string& name : measured_machines()) {
        if (name == left_out || !has_preset(PresetKind::cluster, name)) continue;
        const auto path = preset_path(PresetKind::cluster, name);
        if (is_fitted(read_toml(path))) lay_cluster(found.emplace_back(), path);
    }
    return found;
}

std::vector<Layers> nearest(const std::vector<Layers>& from, const Cluster& to) {
    int most = likeness(from.front().experiment.cluster, to);
    for (const Layers& machine : from) most = std::max(most, likeness(machine.experiment.cluster, to));
    std::vector<Layers> like;
    for (const Layers& machine : from)
        if (likeness(machine.experiment.cluster, to) == most) like.push_back(machine);
    return like;
}

std::vector<Layers> those(const std::vector<Layers>& from, const auto& holds) {
    std::vector<Layers> found;
    std::ranges::copy_if(from, std::back_inserter(found), [&](const Layers& m) { return holds(m.experiment.cluster); });
    return found;
}

bool of_one_maker(const Cluster& a, const Cluster& b) {
    return (generation(a.gpu) == Generation::other) == (generation(b.gpu) == Generation::other);
}

// Links of the same fabric and, where there are any, of the same maker and of the same generation.
std::vector<Layers> with_links_like(const std::vector<Layers>& from, const Cluster& to) {
    const auto same_fabric = those(from, [&](const Cluster& c) { return c.fabric == to.fabric; });
    const auto own = those(same_fabric, [&](const Cluster& c) { return of_one_maker(c, to); });
    const auto like = those(own, [&](const Cluster& c) {
        return std::min(generation(c.gpu), Generation::blackwell) == std::min(generation(to.gpu), Generation::blackwell);
    });
    const auto as_many = those(like, [&](const Cluster& c) { return c.gpus_per_node == to.gpus_per_node; });
    return !as_many.empty() ? as_many : !like.empty() ? like : !own.empty() ? own : !same_fabric.empty() ? same_fabric : from;
}

// The nearest that run the same library of collectives, which is its maker's: its links', or where it has no such links any others'.
std::vector<Layers> with_library_of(const std::vector<Layers>& from, const std::vector<Layers>& linked, const Cluster& to) {
    if (of_one_maker(linked.front().experiment.cluster, to)) return linked;
    const auto own = those(from, [&](const Cluster& c) { return of_one_maker(c, to); });
    return own.empty() ? linked : nearest(own, to);
}

// Times of a call and of a round, and copies inside a device, are the library's; shares of a link's rate are the link's.
bool is_of_library(std::string_view path) {
    constexpr std::string_view link = "cluster.link.intra.";
    constexpr std::array keys{"launch", "latency", "slot_latency", "reduce_copy", "gather_copy", "pipelining", "exchange_launch",
                              "exchange_copy", "exchange.launch", "exchange.latency"};
    if (!path.starts_with(link)) return false;
    const std::string_view key = path.substr(link.size());
    return key.starts_with("low_latency") || std::ranges::find(keys, key) != keys.end();
}

std::string names_of(const std::vector<Layers>& from) {
    std::string names;
    for (const Layers& machine : from) names += (names.empty() ? "" : ", ") + machine.experiment.cluster.name;
    return names;
}

// Over the machines whose value was fitted; where none was, over all.
template <class T>
double median_of(const Key& key, std::vector<Layers>& from) {
    std::vector<double> fitted, all;
    for (Layers& machine : from) {
        all.push_back(number_in(field_in<T>(key, machine.experiment)));
        const auto origin = machine.origin.find(std::string(key.path));
        if (origin != machine.origin.end() && origin->second == Origin::fitted) fitted.push_back(all.back());
    }
    return median(fitted.empty() ? all : fitted);
}

bool is_narrow(std::string_view path) {
    constexpr std::array formats{"cluster.kernel.fp8", "cluster.kernel.fp4", "cluster.kernel.cast."};
    return std::ranges::any_of(formats, [&](const char* f) { return path.starts_with(f); });
}

// Whose constants a nameplate takes.
struct Sources {
    std::vector<Layers> all;
    std::vector<Layers> near;     // of kernels
    std::vector<Layers> narrow;   // of products in fewer than 16 bits, and of casts
    std::vector<Layers> linked;   // of links
    std::vector<Layers> library;  // of collectives' calls

    std::vector<Layers>& of(std::string_view path) {
        if (is_of_library(path)) return library;
        return path.starts_with("cluster.link.") ? linked : is_narrow(path) ? narrow : near;
    }
};

void lay_medians(Layers& layers, Sources& sources) {
    for (const auto& key : cluster_keys()) {
        const std::string path(key.path);
        if (is_nameplate(path) || std::ranges::none_of(tables, [&](const char* t) { return path.starts_with(t); }))
            continue;
        std::vector<Layers>& from = sources.of(path);
        use_field<double, Seconds, Bytes, BytesPerSecond>(key, layers.experiment, [&]<class T>(T& value) {
            value = T(median_of<T>(key, from));
            layers.origin[path] = Origin::prior;
            layers.set_at[path] = "median of " + names_of(from);
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
std::vector<Layers> of_like_rate(const std::vector<Layers>& from, const Gpu& to) {
    constexpr double same = 0.05;  // of a logarithm
    double least = INFINITY;
    for (const Layers& machine : from) least = std::min(least, rate_distance(machine.experiment.cluster.gpu, to));
    std::vector<Layers> like;
    for (const Layers& machine : from)
        if (rate_distance(machine.experiment.cluster.gpu, to) < least + same) like.push_back(machine);
    return like;
}

// Machines whose kernels a device is taken to run: the nearest, and where none is alike those whose SMs multiply as fast: what feeds a
// tensor core matters more to kernels than the generation or the fabric.
std::vector<Layers> kernels_like(const std::vector<Layers>& all, const Cluster& to) {
    return any_like(all, to, one_generation_away) ? nearest(all, to) : of_like_rate(all, to.gpu);
}

template <class Kernel>
void add_by_name(std::vector<Kernel>& all, const std::vector<Layers>& from, std::vector<Kernel> KernelCosts::*list,
                 const Gpu& to) {
    std::vector<std::string> names;
    for (const Layers& machine : from)
        for (const Kernel& kernel : machine.experiment.cluster.kernel.*list)
            if (std::ranges::find(names, kernel.name) == names.end()) names.push_back(kernel.name);
    for (const std::string& name : names) {
        if (std::ranges::any_of(all, [&](const Kernel& k) { return k.name == name; })) continue;
        std::vector<Layers> having;
        for (const Layers& machine : from)
            if (std::ranges::find(machine.experiment.cluster.kernel.*list, name, &Kernel::name) !=
                (machine.experiment.cluster.kernel.*list).end())
                having.push_back(machine);
        std::vector<Kernel> same;
        for (const Layers& machine : of_like_rate(having, to))
            for (const Kernel& kernel : machine.experiment.cluster.kernel.*list)
                if (kernel.name == name) same.push_back(moved(kernel, machine.experiment.cluster.gpu, to));
        all.push_back(middle(same));
    }
}

// The nearest machines' kernels first, then those that only others run. Where none is alike, attention is that of machines whose
// SMs are as fast: what feeds a tensor core matters more to it than the generation or the fabric.
void lay_kernels(Cluster& cluster, const std::vector<Layers>& near, const std::vector<Layers>& all) {
    KernelCosts& kernel = cluster.kernel;
    const std::string named = kernel.attention.name;
    std::vector<AttentionKernel> of_steps;
    for (const Layers& machine : near)
        if (machine.experiment.cluster.kernel.attention.tile > 0)
            of_steps.push_back(
                moved(machine.experiment.cluster.kernel.attention, machine.experiment.cluster.gpu, cluster.gpu));
    if (!of_steps.empty()) kernel.attention = middle(of_steps);
    for (const std::vector<Layers>* from : {&near, &all})
        add_by_name(kernel.attention_kernels, *from, &KernelCosts::attention_kernels, cluster.gpu);
    for (const std::vector<Layers>* from : {&near, &all})
        add_by_name(kernel.expert_kernels, *from, &KernelCosts::expert_kernels, cluster.gpu);
    for (const AttentionKernel& k : kernel.attention_kernels) {
        if (named.empty() || k.name != named) continue;
        kernel.attention = alone(k);
    }
}

std::vector<Cluster> clusters_of(const std::vector<Layers>& from) {
    std::vector<Cluster> clusters;
    for (const Layers& machine : from) clusters.push_back(machine.experiment.cluster);
    return clusters;
}

// Between two sockets runs the same share of a rank's link as on the machines whose links are alike. Rings over PCIe reach 11 to 12 GB/s of
// 32 between sockets (recorded runs on A100 and A40, docs/recorded-runs.md); where no like machine shows its share, this one counts.
void lay_sockets(Layers& layers, const std::vector<Layers>& linked) {
    constexpr double of_recorded_runs = 11.5 / 32;
    Link& intra = layers.experiment.cluster.intra;
    std::vector<double> shares;
    for (const Layers& machine : linked) {
        const Link& like = machine.experiment.cluster.intra;
        if (like.socket_bandwidth > BytesPerSecond(0)) shares.push_back(like.socket_bandwidth / like.bandwidth);
    }
    if (shares.empty() && layers.experiment.cluster.fabric != Fabric::pcie) return;
    intra.socket_bandwidth = intra.bandwidth * (shares.empty() ? of_recorded_runs / intra.ring_efficiency : median(shares));
    layers.origin["cluster.link.intra.socket_bandwidth"] = Origin::prior;
    layers.set_at["cluster.link.intra.socket_bandwidth"] = shares.empty() ? "share of recorded runs over PCIe" : "median share of " + names_of(linked);
}

double launch_ratio(const std::vector<Cluster>& from, const Gpu& to) {
    std::vector<double> ratios;
    for (const Cluster& c : from) ratios.push_back(launch_ratio(c.gpu, to));
    return median(ratios);
}

// What goes with the rates of an SM: model/machine/priors.h.
void lay_rates(Layers& layers, const Sources& from) {
    const std::vector<Cluster> of_all = clusters_of(from.all), of_near = clusters_of(from.near), of_narrow = clusters_of(from.narrow);
    Cluster& cluster = layers.experiment.cluster;
    KernelCosts& kernel = cluster.kernel;
    kernel.cast = moved_casts(of_all, kernel.cast, cluster.gpu);
    const auto most = [](double share) { return std::min(0.95, share); };
    kernel.gemm_traffic_efficiency = most(kernel.gemm_traffic_efficiency * traffic_ratio(of_all, of_near, cluster.gpu));
    kernel.gemm_efficiency = most(kernel.gemm_efficiency * efficiency_ratio(of_all, of_near, cluster.gpu, Dtype::bf16));
    kernel.launch = launch_ratio(of_near, cluster.gpu) * kernel.launch;
    // A row's cast is a kernel of a library: one machine's takes a hundred times the others' (docs/calibration.md).
    std::vector<double> rows;
    for (const Cluster& c : of_all)
        if (c.kernel.fp8_blocks.efficiency > 0) rows.push_back(c.kernel.fp8_blocks.cast_row.si());
    if (!rows.empty()) kernel.fp8_blocks.cast_row = Seconds(median(rows));
    const double casting = launch_ratio(of_narrow, cluster.gpu);
    for (Seconds* time : {&kernel.cast.launch, &kernel.cast.row, &kernel.narrow[Dtype::fp8].cast_launch, &kernel.fp8_blocks.cast_launch,
                          &kernel.narrow[Dtype::fp4].cast_launch, &kernel.narrow[Dtype::fp4].cast_row})
        *time = casting * *time;
    kernel.fp8_blocks.efficiency = most(kernel.fp8_blocks.efficiency * efficiency_ratio(of_all, of_narrow, cluster.gpu, Dtype::fp8));
    for (const Dtype dtype : {Dtype::fp8, Dtype::fp4}) {
        NarrowGemm& format = kernel.narrow[dtype];
        format.efficiency = most(format.efficiency * efficiency_ratio(of_all, of_narrow, cluster.gpu, dtype));
    }
}

// How tensor cores take their operands goes with the generation: there is no median of it.
void lay_operands(Layers& layers, const std::vector<Layers>& near) {
    const std::string key = "cluster.kernel.gemm_shared_operands";
    layers.experiment.cluster.kernel.gemm_shared_operands = near.front().experiment.cluster.kernel.gemm_shared_operands;
    layers.origin[key] = Origin::prior;
    layers.set_at[key] = "as " + names_of(near);
}

// What products at full clock would draw, relative to what the limit leaves on top of idle: alike for machines of a kind, as their
// makers choose clocks and limits together.
double full_draw(const Cluster& c) {
    return 1e-12 * c.power.flop * c.kernel.gemm_efficiency * std::max(c.gpu.peaks[Dtype::fp16], c.gpu.peaks[Dtype::bf16]).si() /
           (c.power.limit - c.power.idle);
}

// But an operation takes no more energy than on those: a board with fewer of them stays below its limit. Of machines that stay below theirs
// only the energy says something of another's.
// Where no limit is stated, steps run at the clock that such a draw leaves.
void lay_power(Layers& layers, const std::vector<Layers>& near) {
    std::vector<double> draws, bytes, energies;
    for (const Layers& machine : near) {
        const Cluster& c = machine.experiment.cluster;
        if (c.power.limit <= c.power.idle) continue;
        if (full_draw(c) > 1) draws.push_back(full_draw(c));
        bytes.push_back(c.power.byte);
        energies.push_back(c.power.flop);
    }
    Cluster& cluster = layers.experiment.cluster;
    if (energies.empty()) return;
    if (cluster.power.limit <= cluster.power.idle) {
        if (!draws.empty()) cluster.kernel.training_gemm /= std::sqrt(median(draws));
        return;
    }
    cluster.power.flop = 1;
    cluster.power.flop = draws.empty() ? median(energies) : std::min(median(draws) / full_draw(cluster), median(energies));
    cluster.power.byte = median(bytes);
    for (const char* key : {"cluster.power.flop_pj", "cluster.power.byte_pj"}) {
        layers.origin[key] = Origin::prior;
        layers.set_at[key] = "median of " + names_of(near);
    }
}

}  // namespace

void lay_priors(Layers& layers, const TomlFile& cluster, const std::string& prefix, const std::string& left_out) {
    if (!is_gpu(cluster, prefix) || has_constants(cluster, prefix)) return;
    const auto all = fitted_machines(left_out);
    if (all.empty()) return;
    Layers plate;  // which machines are near shows before the file is laid over the priors
    lay_file(plate, nameplate_of(cluster, prefix), prefix, Origin::preset);
    const Cluster& to = plate.experiment.cluster;
    Sources from{all, kernels_like(all, to), nearest(all, to), with_links_like(all, to), {}};
    from.library = with_library_of(all, from.linked, to);
    layers.experiment.cluster.gpu = plate.experiment.cluster.gpu;
    layers.experiment.cluster.intra.bandwidth = to.intra.bandwidth;
    layers.experiment.cluster.fabric = to.fabric;
    layers.experiment.cluster.power = plate.experiment.cluster.power;
    layers.experiment.cluster.kernel.attention.name = plate.experiment.cluster.kernel.attention.name;
    lay_medians(layers, from);
    lay_operands(layers, from.near);
    lay_sockets(layers, from.linked);
    lay_rates(layers, from);
    lay_power(layers, from.near);
    lay_kernels(layers.experiment.cluster, from.near, all);
    layers.experiment.cluster.noise.step = spread_for(all, plate.experiment.cluster);
    layers.origin["cluster.noise.step"] = Origin::prior;
    layers.set_at["cluster.noise.step"] = "spread of forecasts from these";
}

// An array of priors.toml.
static std::vector<std::string> listed(std::string_view wanted) {
    std::vector<std::string> names;
    const std::string path = home_folder() + "/model/presets/priors.toml";
    if (!std::filesystem::is_regular_file(path)) return names;
    for (const TomlEntry& entry : read_toml(path).entries) {
        if (entry.path != "machines" && entry.path != "sisters")
            throw ConfigError(entry.key_at + ": " + entry.path + ": expected machines and sisters, arrays of clusters");
        if (entry.path == wanted) read_value(entry.value, names);
    }
    return names;
}

std::vector<std::string> measured_machines() { return listed("machines"); }

std::vector<std::string> sisters_of(const std::string& machine) {
    for (const std::string& list : listed("sisters")) {
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
    return any_like(fitted_machines(cluster.name), cluster, same_generation);
}

}  // namespace stepcast
