#include "measured/priors.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "measured/kernels_by_name.h"
#include "measured/medians.h"
#include "measured/nearest.h"
#include "measured/transfer.h"
#include "measured/transfer_links.h"
#include "measured/transfer_spreads.h"
#include "model/base/lists.h"
#include "model/input/key_table.h"
#include "model/input/key_values.h"
#include "model/input/keys.h"
#include "model/input/presets.h"
#include "model/machine/nameplate.h"

namespace stepcast {

namespace {

// Root mean square of the logarithm of forecast over forecast, when each of A100, H100 and B200 is
// predicted from its datasheet and the constants of the others, over eight training steps on 8 to
// 64 GPUs.
constexpr double spread_of_steps = 0.2;

constexpr std::array fitted_tables{"cluster.kernel.",    "cluster.host.",
                                   "cluster.link.",      "cluster.interference.",
                                   "cluster.overheads.", "cluster.network.partial_ring"};

// If no machine has the fabric and generation, products scatter more, and the step is assumed to
// scatter more by the same amount.
double spread_for(const Machines& machines, const Cluster& cluster) {
    if (any_of_its_kind(machines, cluster)) return spread_of_steps;
    const double alike = transfer_spread("gemm", true), alone = transfer_spread("gemm", false);
    return std::sqrt(spread_of_steps * spread_of_steps +
                     std::max(0.0, alone * alone - alike * alike));
}

// Median over the machines whose value was fitted, or over all machines if none was.
double median_of(const Key& key, const Machines& from) {
    std::vector<double> fitted, all;
    for (const Cluster& machine : from) {
        all.push_back(key.type->number(key.field(&machine)));
        const auto& parameters = machine.fitted->parameters;
        if (contains(parameters, key.path, &FittedParameter::key)) fitted.push_back(all.back());
    }
    return median(fitted.empty() ? all : fitted);
}

void lay_medians(Layers& layers, const Sources& sources) {
    for (const Key& key : keys_in<Cluster>()) {
        const std::string path = "cluster." + std::string(key.path);
        if (is_nameplate(path) ||
            std::ranges::none_of(fitted_tables, [&](const char* t) { return path.starts_with(t); }))
            continue;
        const Machines& from = sources.of(path);
        use_field<double, Seconds, Bytes, BytesPerSecond>(
            key, &layers.experiment.cluster, [&]<class T>(T& value) {
                value = T(median_of(key, from));
                layers.said[path] = {Origin::prior, "median of " + names_of(from)};
            });
    }
}

// Constants that depend on the rates of an SM. On all measured devices, A100 to Arc, an SM fills
// pipelines, takes exponentials and copies equally fast. The speeds of its tensor cores and of its
// share of the memory differ against that.
void lay_rates(KernelCosts& kernel, const Gpu& gpu, const Sources& from) {
    const auto move = [](double& share, double ratio) {
        share = std::min(most_of_rate, share * ratio);
    };
    move(kernel.gemm_traffic_efficiency, traffic_ratio(from.all, from.near, gpu));
    move(kernel.gemm_efficiency, efficiency_ratio(from.all, from.near, gpu, Dtype::bf16));
    kernel.gemm_tile_reuse *= reuse_ratio(from.near, gpu);
    kernel.gemm_unaligned = std::min(1.0, kernel.gemm_unaligned * slower_sms(from.near, gpu));
    kernel.launch = launch_ratio(from.near, gpu) * kernel.launch;
}

// The data size that casts find in the L2 scales with the L2: 0.6 to 1.2 of it on six devices
// (notes/kernel-laws.md). 1 if not stated.
double l2_ratio(const Machines& from, const Gpu& to) {
    const auto ratio = median_over(
        from, [&](const Cluster& c) { return when(c.gpu.l2 > Bytes(0), to.l2 / c.gpu.l2); });
    return to.l2 > Bytes(0) ? ratio.value_or(1) : 1;
}

// The same for products in fewer than 16 bits, and for casts.
void lay_narrow(KernelCosts& kernel, const Gpu& gpu, const Sources& from) {
    const auto move = [&](NarrowGemm& format, Dtype dtype) {
        format.efficiency = std::min(
            most_of_rate, format.efficiency * efficiency_ratio(from.all, from.narrow, gpu, dtype));
    };
    move(kernel.fp8, Dtype::fp8);
    move(kernel.fp4, Dtype::fp4);
    // Losses of narrow tiles scale with those of a machine's 16-bit tiles.
    const auto sixteen = median_over(from.narrow, [](const Cluster& c) {
        return when(c.kernel.gemm_tile_reuse > 0, c.kernel.gemm_tile_reuse);
    });
    for (NarrowGemm* format : {&kernel.fp8, &kernel.fp4, &kernel.fp8_blocks})
        if (sixteen) format->tile_reuse *= kernel.gemm_tile_reuse / *sixteen;
    kernel.cast = moved_casts(from.all, kernel.cast, gpu);
    kernel.cast.cache = l2_ratio(from.narrow, gpu) * kernel.cast.cache;
    for (Seconds* time :
         {&kernel.cast.launch, &kernel.cast.row, &kernel.fp8.cast_launch,
          &kernel.fp8_blocks.cast_launch, &kernel.fp4.cast_launch, &kernel.fp4.cast_row})
        *time = launch_ratio(from.narrow, gpu) * *time;
    // Products with one scale per block reach the same share of the peak at any SM rate. A row's
    // cast is a kernel of a library and not a property of the chip: on one machine it takes a
    // hundred times as long as on the others (notes/kernel-laws.md).
    const Machines scaled =
        where(from.all, [](const Cluster& c) { return c.kernel.fp8_blocks.efficiency > 0; });
    if (scaled.empty()) return;
    kernel.fp8_blocks.cast_row = Seconds(median_over(scaled, [](const Cluster& c) {
                                             return c.kernel.fp8_blocks.cast_row.si();
                                         }).value());
    kernel.fp8_blocks.efficiency = median_over(scaled, [](const Cluster& c) {
                                       return c.kernel.fp8_blocks.efficiency;
                                   }).value();
}

// How tensor cores read operands depends on the generation, so a median makes no sense.
void lay_operands(Layers& layers, const Machines& near) {
    const std::string key = "cluster.kernel.gemm_shared_operands";
    layers.experiment.cluster.kernel.gemm_shared_operands =
        near.front().kernel.gemm_shared_operands;
    layers.said[key] = {Origin::prior, "as " + names_of(near)};
}

// Power of products at full clock above idle, relative to the limit above idle. It is similar for
// machines of one kind, because makers choose clocks and limits together.
double full_draw(const Cluster& c) {
    return 1e-12 * c.power.flop * c.kernel.gemm_efficiency *
           std::max(c.gpu.peaks[Dtype::fp16], c.gpu.peaks[Dtype::bf16]).si() /
           (c.power.limit - c.power.idle);
}

// An operation takes at most the energy that it takes on `near`, so a board with fewer operations
// per second stays below its limit. Of machines below their limit, only the energy carries over.
// Without a stated limit, steps run at the clock that such a draw allows.
void lay_power(Layers& layers, const Machines& near) {
    const auto is_limited = [](const Cluster& c) { return c.power.limit > c.power.idle; };
    const Machines limited = where(near, is_limited);
    Cluster& cluster = layers.experiment.cluster;
    if (limited.empty()) return;
    const auto draw =
        median_over(limited, [](const Cluster& c) { return when(full_draw(c) > 1, full_draw(c)); });
    if (!is_limited(cluster)) {
        cluster.kernel.training_gemm /= std::sqrt(draw.value_or(1));
        return;
    }
    cluster.power.flop = 1;  // unit value: full_draw() is proportional to it
    const double energy =
        median_over(limited, [](const Cluster& c) { return c.power.flop; }).value();
    cluster.power.flop = draw ? std::min(*draw / full_draw(cluster), energy) : energy;
    cluster.power.byte =
        median_over(limited, [](const Cluster& c) { return c.power.byte; }).value();
    for (const char* key : {"cluster.power.flop_pj", "cluster.power.byte_pj"})
        layers.said[key] = {Origin::prior, "median of " + names_of(near)};
}

// Lays the priors below what was said: the keys that the priors say or that differ from the plate.
void lay_below(Layers& layers, const Layers& priors, const Cluster& of_plate) {
    Experiment plate;
    plate.cluster = of_plate;
    for (const Key& key : keys_of("cluster.")) {
        const std::string path(key.path);
        if (is_preset(key) || layers.said.contains(path)) continue;
        const void* const laid = key.field(&priors.experiment);
        const auto said = priors.said.find(path);
        if (said != priors.said.end())
            layers.said.insert(*said);
        else if (key.type->text(laid) == key.type->text(key.field(&plate)))
            continue;
        key.type->copy(key.field(&layers.experiment), laid);
    }
}

}  // namespace

void complete_machine(Layers& layers) {
    const Machines measured = layers.unmeasured ? fitted_machines({}) : Machines();
    if (!measured.empty()) {
        Layers priors;
        lay_priors(priors, *layers.unmeasured, measured);
        lay_below(layers, priors, *layers.unmeasured);
    }
    if (layers.starts.contains("cluster")) lay_network_priors(layers);
}

void lay_priors(Layers& layers, const Cluster& plate, const Machines& all) {
    if (all.empty()) return;
    Cluster& cluster = layers.experiment.cluster;
    const Sources from = sources_for(plate, all);
    cluster.gpu = plate.gpu;
    cluster.fabric = plate.fabric;
    cluster.intra.bandwidth = plate.intra.bandwidth;
    cluster.power = plate.power;
    cluster.kernel.attention.name = plate.kernel.attention.name;
    lay_medians(layers, from);
    lay_operands(layers, from.near);
    lay_links(layers, from);
    lay_rates(cluster.kernel, plate.gpu, from);
    lay_narrow(cluster.kernel, plate.gpu, from);
    lay_power(layers, from.near);
    lay_kernels(cluster, from.near, all);
    cluster.noise.step = spread_for(all, plate);
    layers.said["cluster.noise.step"] = {Origin::prior, "spread of forecasts from these"};
}

void lay_network_priors(Layers& layers) {
    Cluster& cluster = layers.experiment.cluster;
    const auto unsaid = [&](const std::string& path) {
        const auto said = value_in(layers.said, path);
        return !said || said->who == Origin::defaulted;
    };
    const std::string efficiency = "cluster.link.inter.ring_efficiency";
    if (cluster.nodes < 2 || cluster.inter.bandwidth == BytesPerSecond(0) || !unsaid(efficiency))
        return;
    const Machines networked = where(fitted_machines({}), [](const Cluster& c) {
        return c.inter.bandwidth > BytesPerSecond(0);
    });
    if (networked.empty()) return;
    for (const Key& key : keys_in<Cluster>()) {
        const std::string path = "cluster." + std::string(key.path);
        // corrects those machines' own laws
        const bool of_steps = path == "cluster.link.inter.training";
        if (!path.starts_with("cluster.link.inter.") || is_nameplate(path) || of_steps ||
            !unsaid(path))
            continue;
        use_field<double, Seconds, Bytes, BytesPerSecond>(key, &cluster, [&]<class T>(T& value) {
            value = T(median_of(key, networked));
            layers.said[path] = {Origin::prior, "median of " + names_of(networked)};
        });
    }
}

Cluster cluster_from_others(const std::string& preset) {
    TomlFile file = nameplate_of(read_toml(preset_path(PresetKind::cluster, preset)), "cluster.");
    // not in datasheets
    std::erase_if(file.entries,
                  [](const TomlEntry& e) { return e.path == "link.intra.socket_bandwidth"; });
    Layers layers;
    if (const auto plate = unmeasured_machine(file, "cluster."))
        lay_priors(layers, *plate, fitted_machines(preset));
    lay_file(layers, file, "cluster.", Origin::preset);
    return layers.experiment.cluster;
}

bool has_like_machine(const Cluster& cluster) {
    return any_of_its_kind(fitted_machines(cluster.name), cluster);
}

}  // namespace stepcast
