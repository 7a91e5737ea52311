#include "calibrate/fit_parameter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "model/errors.h"
#include "model/experiment.h"
#include "model/files/plain_text.h"

namespace stepcast {
namespace {

using Unit = ScaledParameter::Unit;

std::optional<double> read_as(Unit unit, const std::string& text) {
    try {
        switch (unit) {
            case Unit::none: return as_number<double>(text);
            case Unit::seconds: return parse_seconds(text).si();
            case Unit::bytes: return parse_bytes(text).si();
            case Unit::bytes_per_second: return parse_bandwidth(text).si();
            case Unit::flops_per_second: return parse_flop_rate(text).si();
        }
    } catch (const ConfigError&) {  // another unit's text
    }
    return std::nullopt;
}

const char* si_unit(Unit unit) {
    switch (unit) {
        case Unit::none: return "";
        case Unit::seconds: return " s";
        case Unit::bytes: return " B";
        case Unit::bytes_per_second: return " B/s";
        case Unit::flops_per_second: return " FLOP/s";
    }
    return "";
}

}  // namespace

ScaledParameter scale(const FitParameter& parameter) {
    const auto refuse = [&](const std::string& what) {
        throw ConfigError(fmt::format("fit: {}: {}", parameter.key, what));
    };
    ScaledParameter scaled;
    scaled.key = parameter.key;
    std::optional<double> prior;
    for (const Unit unit : {Unit::none, Unit::seconds, Unit::bytes, Unit::bytes_per_second, Unit::flops_per_second}) {
        if (prior) break;
        scaled.unit = unit;
        prior = read_as(unit, parameter.prior);
    }
    if (!prior || !(*prior > 0))
        refuse(fmt::format("prior \"{}\" is not a positive number with a unit", parameter.prior));
    const std::optional<double> lower = read_as(scaled.unit, parameter.lower),
                                upper = read_as(scaled.unit, parameter.upper);
    if (!lower || !upper || !(*lower > 0) || !(*lower < *prior) || !(*prior < *upper)) {
        refuse(fmt::format("bounds \"{}\" and \"{}\" do not enclose the prior \"{}\" in its unit", parameter.lower,
                           parameter.upper, parameter.prior));
    }
    if (!(parameter.prior_sigma > 0)) refuse(fmt::format("prior sigma {} is not above 0", parameter.prior_sigma));
    scaled.prior = *prior;
    scaled.sigma = parameter.prior_sigma;
    scaled.lower = std::log(*lower / *prior);
    scaled.upper = std::log(*upper / *prior);
    return scaled;
}

double value_in_si(const std::string& key, const std::string& text) {
    for (const Unit unit : {Unit::none, Unit::seconds, Unit::bytes, Unit::bytes_per_second, Unit::flops_per_second})
        if (const auto value = read_as(unit, text)) return *value;
    throw ConfigError(fmt::format("fit: {}: \"{}\" is no number with a unit", key, text));
}

// A difference quotient at a bound must not step outside it, nor rounding.
static double bounded(const ScaledParameter& p, double x) {
    const double least = p.prior * std::exp(p.lower), most = p.prior * std::exp(p.upper);
    constexpr double rounding = 1e-12;
    return std::clamp(p.prior * std::exp(std::clamp(x, p.lower, p.upper)), least * (1 + rounding), most * (1 - rounding));
}

std::string value_text(const ScaledParameter& parameter, double x) {
    const double value = parameter.prior * std::exp(x);
    switch (parameter.unit) {
        case Unit::none: return fmt::format("{:.6g}", value);
        case Unit::seconds: return to_string(Seconds(value));
        case Unit::bytes: return to_string(Bytes(value));
        case Unit::bytes_per_second: return to_string(BytesPerSecond(value));
        case Unit::flops_per_second: return to_string(FlopsPerSecond(value));
    }
    return "";
}

Cluster with_values(const Cluster& cluster, const std::vector<ScaledParameter>& parameters, const std::vector<double>& x) {
    Experiment carrier;
    carrier.cluster = cluster;
    for (std::size_t j = 0; j < x.size(); ++j)
        set_key(carrier, {"cluster." + parameters[j].key,
                          fmt::format("{:.17g}{}", bounded(parameters[j], x[j]), si_unit(parameters[j].unit))});
    return std::move(carrier.cluster);
}

Cluster with_text(const Cluster& cluster, const std::string& key, const std::string& text) {
    Experiment carrier;
    carrier.cluster = cluster;
    set_key(carrier, {"cluster." + key, text});
    return carrier.cluster;
}

}  // namespace stepcast
