#include "model/machine/priors.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "model/keys/key_values.h"
#include "model/machine/nearest.h"
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

// Where no machine is of the fabric and generation, products scatter by so much more, and a step with them.
double spread_for(const std::vector<Layers>& machines, const Cluster& cluster) {
    if (any_of_its_kind(machines, cluster)) return spread_of_steps;
    const double alike = transfer_spread("gemm", true), alone = transfer_spread("gemm", false);
    return std::sqrt(spread_of_steps * spread_of_steps + std::max(0.0, alone * alone - alike * alike));
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

// The nearest machines' kernels first, then those that only others run.
void lay_kernels(Cluster& cluster, const std::vector<Layers>& near, const std::vector<Layers>& all) {
    KernelCosts& kernel = cluster.kernel;
    const std::string named = kernel.attention.name;
    std::vector<AttentionKernel> of_steps;
    for (const Layers& machine : near)
        if (machine.experiment.cluster.kernel.attention.tile > 0)
            of_steps.push_back(
                moved(machine.experiment.cluster.kernel.attention, machine.experiment.cluster.gpu, cluster.gpu));
    if (!of_steps.empty()) kernel.attention = middle(of_steps);
    for (const std::vector<Layers>* from : {&near, &all}) {
        add_by_name(kernel.attention_kernels, *from, &KernelCosts::attention_kernels, cluster.gpu);
        add_by_name(kernel.expert_kernels, *from, &KernelCosts::expert_kernels, cluster.gpu);
    }
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

constexpr double most_of_rate = 0.95;

// What goes with the rates of an SM: model/machine/priors.h.
void lay_rates(KernelCosts& kernel, const Gpu& gpu, const Sources& from) {
    const std::vector<Cluster> all = clusters_of(from.all), near = clusters_of(from.near);
    const auto move = [](double& share, double ratio) { share = std::min(most_of_rate, share * ratio); };
    move(kernel.gemm_traffic_efficiency, traffic_ratio(all, near, gpu));
    move(kernel.gemm_efficiency, efficiency_ratio(all, near, gpu, Dtype::bf16));
    kernel.launch = launch_ratio(near, gpu) * kernel.launch;
}

// The same of products in fewer than 16 bits, and of casts.
void lay_narrow(KernelCosts& kernel, const Gpu& gpu, const Sources& from) {
    const std::vector<Cluster> all = clusters_of(from.all), narrow = clusters_of(from.narrow);
    const auto move = [&](NarrowGemm& format, Dtype dtype) {
        format.efficiency = std::min(most_of_rate, format.efficiency * efficiency_ratio(all, narrow, gpu, dtype));
    };
    move(kernel.narrow[Dtype::fp8], Dtype::fp8);
    move(kernel.fp8_blocks, Dtype::fp8);
    move(kernel.narrow[Dtype::fp4], Dtype::fp4);
    kernel.cast = moved_casts(all, kernel.cast, gpu);
    for (Seconds* time : {&kernel.cast.launch, &kernel.cast.row, &kernel.narrow[Dtype::fp8].cast_launch, &kernel.fp8_blocks.cast_launch,
                          &kernel.narrow[Dtype::fp4].cast_launch, &kernel.narrow[Dtype::fp4].cast_row})
        *time = launch_ratio(narrow, gpu) * *time;
    // A row's cast is a kernel of a library, no trait of a chip: one machine's takes a hundred times the others' (docs/calibration.md).
    std::vector<double> rows;
    for (const Cluster& c : all)
        if (c.kernel.fp8_blocks.efficiency > 0) rows.push_back(c.kernel.fp8_blocks.cast_row.si());
    if (!rows.empty()) kernel.fp8_blocks.cast_row = Seconds(median(rows));
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
    Sources from = sources_for(to, all);
    layers.experiment.cluster.gpu = to.gpu;
    layers.experiment.cluster.fabric = to.fabric;
    layers.experiment.cluster.intra.bandwidth = to.intra.bandwidth;
    layers.experiment.cluster.power = to.power;
    layers.experiment.cluster.kernel.attention.name = to.kernel.attention.name;
    lay_medians(layers, from);
    lay_operands(layers, from.near);
    lay_sockets(layers, from.linked);
    lay_rates(layers.experiment.cluster.kernel, to.gpu, from);
    lay_narrow(layers.experiment.cluster.kernel, to.gpu, from);
    lay_power(layers, from.near);
    lay_kernels(layers.experiment.cluster, from.near, all);
    layers.experiment.cluster.noise.step = spread_for(all, to);
    layers.origin["cluster.noise.step"] = Origin::prior;
    layers.set_at["cluster.noise.step"] = "spread of forecasts from these";
}

Cluster cluster_from_others(const std::string& preset) {
    TomlFile file = nameplate_of(read_toml(preset_path(PresetKind::cluster, preset)), "cluster.");
    std::erase_if(file.entries, [](const TomlEntry& e) { return e.path == "link.intra.socket_bandwidth"; });  // no datasheet's
    Layers layers;
    lay_priors(layers, file, "cluster.", preset);
    lay_file(layers, file, "cluster.", Origin::preset);
    return layers.experiment.cluster;
}

bool has_like_machine(const Cluster& cluster) {
    return any_of_its_kind(fitted_machines(cluster.name), cluster);
}

}  // namespace stepcast
