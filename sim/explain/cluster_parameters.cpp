#include "sim/explain/cluster_parameters.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "model/input/key_values.h"
#include "model/machine/priors.h"

namespace stepcast {
namespace {

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
bool scale_key(const Key& key, Cluster& c, double factor) {
    if (key.path == "gpu.sms") return scale_sms(c.gpu.sms, factor);
    bool scaled = false;
    use_field<double, Seconds, Bytes, BytesPerSecond, FlopsPerSecond, Curve,
              std::vector<GemmPoint>>(key, &c, [&](auto& value) { scaled = scale(value, factor); });
    return scaled;
}

// What was measured on a link, as a faster or slower one of its kind would take: of a message, the
// part beyond the shortest one's time scales with the rate, and that time with the latency.
void scale_measured(const std::string& link, Cluster& c, double bandwidth, double latency) {
    for (const Key& key : keys_in<Cluster>())
        if (key.path.starts_with(link) && holds<Curve>(key))
            use_field<Curve>(key, &c, [&](Curve& curve) {
                const Seconds shortest = curve.empty() ? Seconds(0) : curve.front().time;
                for (auto& point : curve)
                    point.time = latency * shortest + (point.time - shortest) / bandwidth;
            });
}

std::string value_of(const Key& key, Cluster& c) {
    std::string text = key.type->text(key.field(&c));
    use_field<Curve, std::vector<GemmPoint>>(
        key, &c, [&](auto& points) { text = fmt::format("{} measured", points.size()); });
    use_field<double>(key, &c, [&](double value) { text = fmt::format("{:.4g}", value); });
    use_field<Seconds, Bytes, BytesPerSecond, FlopsPerSecond>(
        key, &c, [&](auto value) { text = to_string(value); });
    return text;
}

ClusterParameter::Kind kind_of_parameter(const Key& key) {
    using Kind = ClusterParameter::Kind;
    if (is_nameplate("cluster." + std::string(key.path)) || key.path == "host.load")
        return Kind::stated;
    if (holds<Seconds>(key)) return Kind::time;
    const bool table = holds<Curve>(key) || holds<std::vector<GemmPoint>>(key);
    return table ? Kind::table : Kind::share;
}

}  // namespace

std::vector<ClusterParameter> cluster_parameters(const Cluster& cluster) {
    Cluster scaled = cluster;
    std::vector<ClusterParameter> parameters;
    for (const Key& key : keys_in<Cluster>())
        if (scale_key(key, scaled, 1))
            parameters.push_back(
                {std::string(key.path), value_of(key, scaled), kind_of_parameter(key)});
    return parameters;
}

Cluster with_scaled(const Cluster& cluster, const std::string& key, double factor) {
    const auto found = std::ranges::find(keys_in<Cluster>(), key, &Key::path);
    Cluster scaled = cluster;
    if (found == keys_in<Cluster>().end() || !scale_key(*found, scaled, factor))
        throw std::logic_error("with_scaled: " + key + " is no parameter");
    const std::string link = key.substr(0, key.rfind('.') + 1);
    if (key == link + "bandwidth") scale_measured(link, scaled, factor, 1);
    if (key == link + "latency") scale_measured(link, scaled, 1, factor);
    return scaled;
}

}  // namespace stepcast
