#include "reports/pages.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "model/files/plain_text.h"

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

// Seven digits: shown with four, ranked with all.
double rounded(double value) { return std::isfinite(value) ? as_number<double>(fmt::format("{:.7g}", value)).value_or(value) : 0; }

}  // namespace

std::string map_json(const SweepAnswer& r) {
    if (!r.points || r.points->points.empty() || r.points->keys.size() < 2) return "";
    Json keys = Json::array(), points = Json::array(), limits = Json::array();
    for (const MapKey& key : r.points->keys) keys.push_back({{"key", key.key}, {"values", key.values}});
    for (const MapPoint& p : r.points->points) {
        Json one = Json::array();
        for (const std::uint16_t at : p.at) one.push_back(at);
        one.insert(one.end(), {rounded(p.step.si()), rounded(p.peak.si()), p.ranks, rounded(p.tokens_per_second), p.simulated});
        points.push_back(std::move(one));
    }
    for (const Bytes limit : r.points->limits) limits.push_back(rounded(limit.si()));
    const Json all{{"experiment", r.experiment}, {"of_token", r.points->of_token}, {"keys", keys}, {"limits_bytes", limits}, {"points", points}};
    return all.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace stepcast
