#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>
#include <string_view>

#include "model/answers/campaign.h"
#include "model/keys/fields.h"
#include "model/presets.h"

namespace stepcast {
namespace {

struct NamedFactor {
    std::string_view unit;
    double factor;
};
constexpr NamedFactor time_units[] = {{"s", 1},     {"min", 60},     {"h", 3600},      {"d", 86400},
                                      {"w", 604800}, {"days", 86400}, {"weeks", 604800}};
constexpr NamedFactor count_units[] = {{"", 1}, {"k", 1e3}, {"M", 1e6}, {"B", 1e9}, {"G", 1e9}, {"T", 1e12}};
constexpr NamedFactor power_units[] = {{"W", 1}, {"kW", 1e3}};

// A thousand times what anyone trains on; beyond, sums lose what they add.
constexpr double largest = 1e18;
constexpr const char* largest_in_words = "1e18";

// A number of at least 0 with one of the units.
double parse(const std::string& text, std::span<const NamedFactor> units, const char* expected) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
    unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
    const auto found = std::ranges::find(units, unit, &NamedFactor::unit);
    if (error != std::errc() || found == units.end() || !(value >= 0)) throw ConfigError("\"" + text + "\": expected " + expected);
    if (!(value * found->factor <= largest)) throw ConfigError("\"" + text + "\": expected at most " + largest_in_words);
    return value * found->factor;
}

std::string text_of(const ConfigValue& value) {
    std::string text;
    read_value(value, text);
    return text;
}
auto duration(Seconds& field) {
    return [&field](const ConfigValue& value) { field = parse_duration(text_of(value)); };
}
auto power(Watts& field) {
    return [&field](const ConfigValue& value) {
        field = Watts(parse(text_of(value), power_units, "a power, for example \"700 W\""));
    };
}
auto number(double& field, double least = 0) {
    return [&field, least](const ConfigValue& value) {
        read_value(value, field);
        if (!(field >= 0) || !std::isfinite(field)) throw ConfigError("expected 0 or more");
        field = std::max(least, field);
    };
}

const std::vector<std::string> known{"currency", "failures.mtbf_per_gpu", "failures.checkpoint_time",
                                    "failures.restart_time", "failures.source", "gpu.name", "gpu.price_per_gpu_hour",
                                    "gpu.price_source", "gpu.board_power", "gpu.idle_power", "gpu.node_power",
                                    "gpu.building", "gpu.power_source"};

bool read_entry(const TomlEntry& entry, Market& market) {
    std::string name;
    if (Offer* o = row_of(market.offers, entry.path, "gpu", name)) {
        const auto price = number(o->price_per_gpu_hour), building = number(o->building, 1);
        const auto board = power(o->board), idle = power(o->idle), rest = power(o->rest);
        return read_field(name, entry.value, {{"name", o->gpu}, {"price_per_gpu_hour", price}, {"price_source", o->price_source},
                                              {"board_power", board}, {"idle_power", idle}, {"node_power", rest},
                                              {"building", building}, {"power_source", o->power_source}});
    }
    Failures& f = market.failures;
    const auto mtbf = duration(f.mtbf_per_gpu), checkpoint = duration(f.checkpoint_time), restart = duration(f.restart_time);
    return read_field(entry.path, entry.value, {{"currency", market.currency}, {"failures.source", f.source},
                                                {"failures.mtbf_per_gpu", mtbf}, {"failures.checkpoint_time", checkpoint},
                                                {"failures.restart_time", restart}});
}

}  // namespace

Seconds parse_duration(const std::string& text) {
    return Seconds(parse(text, time_units, "a time, for example \"60 d\", \"8 h\" or \"30 s\""));
}
double parse_count(const std::string& text) {
    return parse(text, count_units, "a number, for example 15T, 300B or 100k");
}

Market read_market(const std::string& path) {
    Market market;
    each_entry(read_toml(path.empty() ? home_folder() + "/model/presets/market.toml" : path).entries,
               [&](const TomlEntry& entry) { return read_entry(entry, market); },
               [](const TomlEntry& e) { return "\"" + e.path + "\" is no key of a market file" + did_you_mean(e.path, known); });
    return market;
}

}  // namespace stepcast
