#include "model/priors.h"

#include <algorithm>
#include <array>

#include "model/keys.h"

namespace stepcast {
namespace {

// Fitted to measured kernels, collectives and steps; one a generation, and Hopper's two memories.
constexpr std::array machines{"dgx-a100", "dgx-h100", "dgx-h200", "b200-x8"};
constexpr const char* where = "median of dgx-a100, dgx-h100, dgx-h200 and b200-x8";

// Root mean square of the logarithm of forecast over forecast when each of A100, H100 and B200 is taken from its datasheet
// and the others' constants, over eight training steps of 8 to 64 GPUs: 0.11, 0.06 and 0.31.
constexpr double spread = 0.2;

constexpr std::array tables{"cluster.kernel.",       "cluster.host.",      "cluster.link.",
                            "cluster.interference.", "cluster.overheads.", "cluster.network.partial_ring"};

// Of the datasheet, not of measurements.
bool is_nameplate(std::string_view key) { return key.ends_with("bandwidth"); }

bool has_constants(const TomlFile& file, const std::string& prefix) {
    return std::ranges::any_of(
        file.entries, [&](const TomlEntry& e) { return prefix + e.path == "cluster.kernel.gemm_efficiency"; });
}
bool is_gpu(const TomlFile& file, const std::string& prefix) {
    return std::ranges::any_of(file.entries, [&](const TomlEntry& e) {
        return prefix + e.path == "cluster.gpu.peak.fp16" || prefix + e.path == "cluster.gpu.peak.bf16";
    });
}

std::vector<Layers> fitted_machines() {
    std::vector<Layers> found;
    const auto names = preset_names(PresetKind::cluster);
    for (const char* name : machines) {
        if (std::ranges::find(names, name) == names.end()) continue;
        const auto path = preset_path(PresetKind::cluster, name);
        const auto file = read_toml(path);
        if (std::ranges::any_of(file.entries, [](const TomlEntry& e) { return e.path.starts_with("fitted."); }))
            lay_cluster(found.emplace_back(), path);
    }
    return found;
}

double median(std::vector<double> values) {
    std::ranges::sort(values);
    const auto middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double number_in(double value) { return value; }
template <int S, int B, int F>
double number_in(Quantity<S, B, F> value) {
    return value.si();
}

// Over the machines whose value was fitted; where none was, over all.
template <class T>
T median_of(Field<T> get, const std::string& key, std::vector<Layers>& from) {
    std::vector<double> fitted, all;
    for (Layers& machine : from) {
        all.push_back(number_in(get(machine.experiment)));
        const auto origin = machine.origin.find(key);
        if (origin != machine.origin.end() && origin->second == Origin::fitted) fitted.push_back(all.back());
    }
    return T(median(fitted.empty() ? all : fitted));
}

}  // namespace

void lay_priors(Layers& layers, const TomlFile& cluster, const std::string& prefix) {
    if (!is_gpu(cluster, prefix) || has_constants(cluster, prefix)) return;
    auto from = fitted_machines();
    if (from.empty()) return;
    for (const auto& key : cluster_keys()) {
        const std::string path(key.path);
        if (is_nameplate(path) || std::ranges::none_of(tables, [&](const char* t) { return path.starts_with(t); }))
            continue;
        std::visit(
            [&]<class F>(F get) {
                if constexpr (std::is_same_v<F, Field<double>> || std::is_same_v<F, Field<Seconds>> ||
                              std::is_same_v<F, Field<Bytes>>) {
                    get(layers.experiment) = median_of(get, path, from);
                    layers.origin[path] = Origin::prior;
                    layers.set_at[path] = where;
                }
            },
            key.field);
    }
    layers.experiment.cluster.noise.step = spread;
    layers.origin["cluster.noise.step"] = Origin::prior;
    layers.set_at["cluster.noise.step"] = "spread of forecasts from these";
}

}  // namespace stepcast
