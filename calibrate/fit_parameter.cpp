#include "calibrate/fit_parameter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/plain_text.h"
#include "model/experiment.h"
#include "model/input/key_values.h"
#include "model/input/presets.h"
#include "model/input/toml_reader.h"

namespace stepcast {
namespace {

constexpr Exponents plain_number{};
constexpr Exponents units[] = {plain_number, Seconds::exponents, Bytes::exponents,
                               BytesPerSecond::exponents, FlopsPerSecond::exponents};

std::optional<double> read_as(const Exponents& unit, const std::string& text) {
    try {
        return unit == plain_number ? as_number<double>(text) : parse_si(text, unit);
    } catch (const ConfigError&) {  // the text has another unit
        return std::nullopt;
    }
}

std::optional<std::pair<Exponents, double>> read_any(const std::string& text) {
    for (const Exponents& unit : units)
        if (const auto value = read_as(unit, text)) return std::pair(unit, *value);
    return std::nullopt;
}

FitParameter prior_in(const TomlEntry& entry, std::string key) {
    FitParameter parameter;
    parameter.key = std::move(key);
    at_place(entry.value_at + ": " + entry.path, [&] {
        const std::vector<ConfigValue>& row =
            list_in(entry.value, "a prior, its sigma and two bounds");
        if (row.size() != 4) throw ConfigError("expected [PRIOR, SIGMA, LOWER, UPPER]");
        read_value(row[0], parameter.prior);
        read_value(row[1], parameter.prior_sigma);
        read_value(row[2], parameter.lower);
        read_value(row[3], parameter.upper);
    });
    return parameter;
}

}  // namespace

namespace {

TomlFile priors_file() { return read_toml(home_folder() + "/model/presets/fit_priors.toml"); }

}  // namespace

std::vector<std::string> assumed_frameworks() {
    std::vector<std::string> names;
    for (const TomlEntry& entry : priors_file().entries)
        if (entry.path == "assumed_frameworks") read_value(entry.value, names);
    for (const std::string& name : names) (void)preset_path(PresetKind::framework, name);
    return names;
}

std::vector<FitParameter> fit_priors(const std::vector<std::string>& tables) {
    const TomlFile file = priors_file();
    std::vector<FitParameter> found;
    for (const std::string& table : tables) {
        if (!table.empty() && !file.tables.contains(table))
            throw ConfigError(file.path + ": expected a table [" + table + "]");
        for (const TomlEntry& entry : file.entries) {
            if (table.empty() || !entry.path.starts_with(table + ".")) continue;
            put(found, prior_in(entry, entry.path.substr(table.size() + 1)), &FitParameter::key);
        }
    }
    return found;
}

ScaledParameter scale(const FitParameter& parameter) {
    const auto refuse = [&](const std::string& what) {
        throw ConfigError(fmt::format("fit: {}: {}", parameter.key, what));
    };
    ScaledParameter scaled;
    scaled.key = parameter.key;
    const auto prior = read_any(parameter.prior);
    if (!prior || !(prior->second > 0))
        refuse(fmt::format("prior \"{}\" is not a positive number with a unit", parameter.prior));
    std::tie(scaled.unit, scaled.prior) = *prior;
    const auto lower = read_as(scaled.unit, parameter.lower),
               upper = read_as(scaled.unit, parameter.upper);
    if (!lower || !upper || !(*lower > 0) || !(*lower < scaled.prior) || !(scaled.prior < *upper)) {
        refuse(fmt::format("bounds \"{}\" and \"{}\" do not enclose the prior \"{}\" in its unit",
                           parameter.lower, parameter.upper, parameter.prior));
    }
    if (!(parameter.prior_sigma > 0))
        refuse(fmt::format("prior sigma {} is not above 0", parameter.prior_sigma));
    scaled.sigma = parameter.prior_sigma;
    scaled.lower = std::log(*lower / scaled.prior);
    scaled.upper = std::log(*upper / scaled.prior);
    return scaled;
}

double value_in_si(const std::string& key, const std::string& text) {
    if (const auto value = read_any(text)) return value->second;
    throw ConfigError(fmt::format("fit: {}: \"{}\" is no number with a unit", key, text));
}

// Difference quotients at a bound and rounding must not step outside the bounds.
static double bounded(const ScaledParameter& p, double x) {
    const double least = p.prior * std::exp(p.lower), most = p.prior * std::exp(p.upper);
    constexpr double rounding = 1e-12;
    return std::clamp(p.prior * std::exp(std::clamp(x, p.lower, p.upper)), least * (1 + rounding),
                      most * (1 - rounding));
}

std::string value_text(const ScaledParameter& parameter, double x) {
    const double value = parameter.prior * std::exp(x);
    return parameter.unit == plain_number ? fmt::format("{:.6g}", value)
                                          : text_of_si(value, parameter.unit, 1e-6);
}

Cluster with_values(const Cluster& cluster, const std::vector<ScaledParameter>& parameters,
                    const std::vector<double>& x) {
    Cluster moved = cluster;
    for (const std::size_t j : indices_of(x)) {
        const auto key = std::ranges::find(keys_in<Cluster>(), parameters[j].key, &Key::path);
        const auto set = [&]<class T>(T& field) {
            check_range(field = T(bounded(parameters[j], x[j])), key->least, key->most);
        };
        if (key == keys_in<Cluster>().end() ||
            !use_field<double, Seconds, Bytes, BytesPerSecond, FlopsPerSecond>(*key, &moved, set))
            throw ConfigError(fmt::format("fit: {}: is no number of a cluster", parameters[j].key));
    }
    return moved;
}

Cluster with_text(const Cluster& cluster, const std::string& key, const std::string& text) {
    Experiment carrier;
    carrier.cluster = cluster;
    set_key(carrier, {"cluster." + key, text});
    return carrier.cluster;
}

std::string text_at(const Cluster& cluster, const std::string& key) {
    Experiment carrier;
    carrier.cluster = cluster;
    return get_key(carrier, "cluster." + key);
}

}  // namespace stepcast
