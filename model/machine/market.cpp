#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>
#include <string_view>

#include "model/answers/campaign.h"
#include "model/errors.h"
#include "model/keys/key_values.h"
#include "model/keys/toml_reader.h"
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
double number_of(const ConfigValue& value) {
    double number = 0;
    read_value(value, number);
    if (!(number >= 0) || !std::isfinite(number)) throw ConfigError("expected 0 or more");
    return number;
}

// One key of the file; false where there is none of this name.
bool read_failures(const std::string& key, const ConfigValue& value, Failures& f) {
    if (key == "source")
        f.source = text_of(value);
    else if (key == "mtbf_per_gpu")
        f.mtbf_per_gpu = parse_duration(text_of(value));
    else if (key == "checkpoint_time")
        f.checkpoint_time = parse_duration(text_of(value));
    else if (key == "restart_time")
        f.restart_time = parse_duration(text_of(value));
    else
        return false;
    return true;
}
bool read_offer(const std::string& key, const ConfigValue& value, Offer& o) {
    const auto watts = [&] { return Watts(parse(text_of(value), power_units, "a power, for example \"700 W\"")); };
    if (key == "name")
        o.gpu = text_of(value);
    else if (key == "price_per_gpu_hour")
        o.price_per_gpu_hour = number_of(value);
    else if (key == "price_source")
        o.price_source = text_of(value);
    else if (key == "board_power")
        o.board = watts();
    else if (key == "idle_power")
        o.idle = watts();
    else if (key == "node_power")
        o.rest = watts();
    else if (key == "building")
        o.building = std::max(1.0, number_of(value));
    else if (key == "power_source")
        o.power_source = text_of(value);
    else
        return false;
    return true;
}

const std::vector<std::string> known{"currency",
                                     "failures.mtbf_per_gpu",
                                     "failures.checkpoint_time",
                                     "failures.restart_time",
                                     "failures.source",
                                     "gpu.name",
                                     "gpu.price_per_gpu_hour",
                                     "gpu.price_source",
                                     "gpu.board_power",
                                     "gpu.idle_power",
                                     "gpu.node_power",
                                     "gpu.building",
                                     "gpu.power_source"};

bool read_entry(const TomlEntry& entry, Market& market) {
    constexpr std::string_view failures = "failures.", gpu = "gpu.";
    if (entry.path == "currency") {
        market.currency = text_of(entry.value);
        return true;
    }
    if (entry.path.starts_with(failures))
        return read_failures(entry.path.substr(failures.size()), entry.value, market.failures);
    if (!entry.path.starts_with(gpu)) return false;
    std::size_t index = 0;  // "gpu.2.name" of [[gpu]]
    const char* const begin = entry.path.data() + gpu.size();
    const auto [end, error] = std::from_chars(begin, entry.path.data() + entry.path.size(), index);
    if (error != std::errc() || *end != '.' || index > 10'000) return false;
    if (index >= market.offers.size()) market.offers.resize(index + 1);
    return read_offer(std::string(end + 1), entry.value, market.offers[index]);
}

}  // namespace

Seconds parse_duration(const std::string& text) {
    return Seconds(parse(text, time_units, "a time, for example \"60 d\", \"8 h\" or \"30 s\""));
}
double parse_count(const std::string& text) {
    return parse(text, count_units, "a number, for example 15T, 300B or 100k");
}

Market read_market(const std::string& path) {
    const TomlFile file = read_toml(path.empty() ? home_folder() + "/model/presets/market.toml" : path);
    Market market;
    for (const TomlEntry& entry : file.entries) {
        try {
            if (read_entry(entry, market)) continue;
        } catch (const ConfigError& error) {
            throw ConfigError(entry.value_at + ": " + entry.path + ": " + error.what());
        }
        throw ConfigError(entry.key_at + ": \"" + entry.path + "\" is no key of a market file" +
                          did_you_mean(entry.path, known));
    }
    return market;
}

}  // namespace stepcast
