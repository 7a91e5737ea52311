#include "model/machine/cluster_parameters.h"

#include <cmath>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "model/keys/keys.h"

namespace stepcast {
namespace {

constexpr std::string_view prefix = "cluster.";

template <class T>
concept Table = std::is_same_v<T, Curve> || std::is_same_v<T, std::vector<GemmPoint>>;
template <class T>
concept Number = std::is_same_v<T, double> || requires(T v) {
    v.si();
};

// False where the value is none that can be scaled, or is zero.
template <class T>
bool scale(T& value, double factor) {
    if constexpr (Number<T>) {
        if (value == T{}) return false;
        value *= factor;
        return true;
    } else if constexpr (std::is_same_v<T, Curve> || std::is_same_v<T, std::vector<GemmPoint>>) {
        for (auto& point : value) point.time *= factor;
        return !value.empty();
    } else {
        return false;
    }
}

bool scale_sms(int& sms, double factor) {
    const int scaled = static_cast<int>(std::lround(sms * factor));
    return std::exchange(sms, scaled) > 0;
}

// The field of the key times `factor`; false where it has none to scale.
bool scale_key(const Key& key, Experiment& e, double factor) {
    if (key.path == "cluster.gpu.sms") return scale_sms(e.cluster.gpu.sms, factor);
    return std::visit(
        [&]<class F>(F get) {
            if constexpr (std::is_same_v<F, PresetField>)
                return false;
            else
                return scale(get(e), factor);
        },
        key.field);
}

std::string value_of(const Key& key, Experiment& e) {
    return std::visit(
        [&]<class F>(F get) -> std::string {
            if constexpr (!std::is_same_v<F, PresetField>) {
                using T = std::remove_cvref_t<decltype(get(e))>;
                if constexpr (Table<T>) return fmt::format("{} measured", get(e).size());
                if constexpr (std::is_same_v<T, double>) return fmt::format("{:.4g}", get(e));
                if constexpr (Number<T> && !std::is_same_v<T, double>) return to_string(get(e));
            }
            return text_of(key, e);
        },
        key.field);
}

ClusterParameter::Kind kind_of_parameter(const Key& key, std::string_view name) {
    using Kind = ClusterParameter::Kind;
    if (name.starts_with("gpu.") || name == "network.oversubscription" || name == "host.load" ||
        name.ends_with("bandwidth"))
        return Kind::stated;
    if (std::holds_alternative<Field<Seconds>>(key.field)) return Kind::time;
    const bool table = std::holds_alternative<Field<Curve>>(key.field) ||
                       std::holds_alternative<Field<std::vector<GemmPoint>>>(key.field);
    return table ? Kind::table : Kind::share;
}

}  // namespace

std::vector<ClusterParameter> cluster_parameters(const Cluster& cluster) {
    Experiment e;
    e.cluster = cluster;
    std::vector<ClusterParameter> parameters;
    for (const Key& key : cluster_keys()) {
        if (!scale_key(key, e, 1)) continue;
        const std::string name(key.path.substr(prefix.size()));
        parameters.push_back({name, value_of(key, e), kind_of_parameter(key, name)});
    }
    return parameters;
}

Cluster with_scaled(const Cluster& cluster, const std::string& key, double factor) {
    const Key* found = find_key(std::string(prefix) + key);
    Experiment e;
    e.cluster = cluster;
    if (!found || !scale_key(*found, e, factor)) throw std::logic_error("with_scaled: " + key + " is no parameter");
    return e.cluster;
}

}  // namespace stepcast
