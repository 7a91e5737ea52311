#include "model/machine/calibration.h"

#include <cmath>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "model/keys/key_values.h"
#include "model/machine/priors.h"

namespace stepcast {
namespace {

constexpr std::string_view prefix = "cluster.";

// Scales a value; false if it is zero or nothing that can be scaled.
template <class T>
bool scale(T& value, double factor) {
    if constexpr (Measurable<T>) {
        if (value == T{}) return false;
        value *= factor;
        return true;
    } else {
        for (auto& point : value) point.time *= factor;
        return !value.empty();
    }
}

bool scale_sms(int& sms, double factor) {
    const int scaled = static_cast<int>(std::lround(sms * factor));
    return std::exchange(sms, scaled) > 0;
}

// Scales the key's field by `factor`; false if there is nothing to scale.
bool scale_key(const Key& key, Experiment& e, double factor) {
    if (key.path == "cluster.gpu.sms") return scale_sms(e.cluster.gpu.sms, factor);
    bool scaled = false;
    use_field<double, Seconds, Bytes, BytesPerSecond, FlopsPerSecond, Curve, std::vector<GemmPoint>>(
        key, e, [&](auto& value) { scaled = scale(value, factor); });
    return scaled;
}

std::string value_of(const Key& key, Experiment& e) {
    std::string text = text_of(key, e);
    use_field<Curve, std::vector<GemmPoint>>(key, e, [&](auto& points) { text = fmt::format("{} measured", points.size()); });
    use_field<double>(key, e, [&](double value) { text = fmt::format("{:.4g}", value); });
    use_field<Seconds, Bytes, BytesPerSecond, FlopsPerSecond>(key, e, [&](auto value) { text = to_string(value); });
    return text;
}

ClusterParameter::Kind kind_of_parameter(const Key& key, std::string_view name) {
    using Kind = ClusterParameter::Kind;
    if (is_nameplate(key.path) || name == "host.load") return Kind::stated;
    if (holds<Seconds>(key)) return Kind::time;
    const bool table = holds<Curve>(key) || holds<std::vector<GemmPoint>>(key);
    return table ? Kind::table : Kind::share;
}

}  // namespace

std::vector<ClusterParameter> cluster_parameters(const Cluster& cluster) {
    Experiment e;
    e.cluster = cluster;
    std::vector<ClusterParameter> parameters;
    for (const Key& key : keys_of(prefix)) {
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
    return std::move(e.cluster);
}

}  // namespace stepcast
