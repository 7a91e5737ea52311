#include "sim/explain/cluster_parameters.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "model/base/numbers.h"
#include "model/input/key_values.h"
#include "model/machine/measured_tables.h"
#include "model/machine/nameplate.h"

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
    const int scaled = as_int(std::lround(sms * factor));
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

// What was measured with a rate, as a faster or slower one would take: the shortest time of a table
// is its fixed cost, what a time has beyond it goes with the rate.
template <class Points>
void scale_measured(Points& points, double rate, double fixed) {
    if (points.empty()) return;
    const Seconds shortest =
        std::ranges::min_element(points, {}, [](const auto& p) { return p.time; })->time;
    for (auto& p : points) p.time = fixed * shortest + (p.time - shortest) / rate;
}

void scale_tables(const std::string& key, Cluster& c, double factor) {
    const bool fixed = key.ends_with(".latency");
    const std::vector<std::string> tables = tables_before(key);
    for (const Key& table : keys_in<Cluster>())
        if (std::ranges::count(tables, table.path) > 0)
            use_field<Curve, std::vector<GemmPoint>>(table, &c, [&](auto& points) {
                scale_measured(points, fixed ? 1 : factor, fixed ? factor : 1);
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
    scale_tables(key, scaled, factor);
    return scaled;
}

}  // namespace stepcast
