#include "sim/results/campaign.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/input/fields.h"
#include "model/input/presets.h"

namespace stepcast {

double parse_count(const std::string& text) {
    constexpr std::pair<std::string_view, double> units[] = {{"", 1},    {"k", 1e3}, {"M", 1e6},
                                                             {"B", 1e9}, {"G", 1e9}, {"T", 1e12}};
    constexpr double largest = 1e18;  // 1000 times any training; larger sums would lose precision
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    std::string_view unit(end, as_index(text.data() + text.size() - end));
    unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
    const auto found = first_with(units, unit, &std::pair<std::string_view, double>::first);
    if (error != std::errc() || !found || !(value >= 0))
        throw ConfigError("\"" + text + "\": expected a number, for example 15T, 300B or 100k");
    if (!(value * found->second <= largest))
        throw ConfigError("\"" + text + "\": expected at most 1e18");
    return value * found->second;
}

Market read_market(const std::string& path) {
    auto market = read_table<Market>(
        path.empty() ? home_folder() + "/model/presets/market.toml" : path, "a market file");
    for (Offer& offer : market.offers) offer.building = std::max(1.0, offer.building);
    return market;
}

}  // namespace stepcast
