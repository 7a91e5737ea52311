// A fit parameter between its text (a key of the cluster file with unit) and the number that a solver moves:
// log(value / prior).
#pragma once

#include <string>
#include <vector>

#include "calibrate/fit.h"

namespace stepcast {

struct ScaledParameter {
    enum class Unit { none, seconds, bytes, bytes_per_second, flops_per_second };
    std::string key;
    Unit unit = Unit::none;
    double prior = 0;                        // SI
    double sigma = 0, lower = 0, upper = 0;  // logarithms relative to the prior
    int machine = -1;                        // as FitParameter has it
};

// What a fit may move: the rows of these tables of model/presets/fit_priors.toml; "" is none.
std::vector<FitParameter> fit_priors(const std::vector<std::string>& tables);

ScaledParameter scale(const FitParameter& parameter);                // throws ConfigError
double value_in_si(const std::string& key, const std::string& text);     // throws ConfigError
std::string value_text(const ScaledParameter& parameter, double x);  // for a file: shortest with a fitting prefix
Cluster with_values(const Cluster& cluster, const std::vector<ScaledParameter>& parameters, const std::vector<double>& x);
// Of a key below "cluster.": with its value from text, and its value as text.
Cluster with_text(const Cluster& cluster, const std::string& key, const std::string& text);
std::string text_at(const Cluster& cluster, const std::string& key);

}  // namespace stepcast
