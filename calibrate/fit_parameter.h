// Converts a fit parameter between its text in a cluster file (with unit) and the number that the
// solver moves: log(value / prior).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibrate/fit.h"

namespace stepcast {

struct ScaledParameter {
    std::string key;
    Exponents unit{};                        // all 0: a plain number
    double prior = 0;                        // SI
    double sigma = 0, lower = 0, upper = 0;  // in log(value / prior)
    // the only machine that has this parameter, as in FitCase; below 0: all machines share it
    int machine = -1;
};

// The parameters that a fit may move, from these tables of model/presets/fit_priors.toml; the empty
// name stands for no table.
std::vector<FitParameter> fit_priors(const std::vector<std::string>& tables);

// Frameworks whose host costs nobody measured (so listed in that file): they form no prior.
std::vector<std::string> assumed_frameworks();

ScaledParameter scale(const FitParameter& parameter);                 // throws ConfigError
double value_in_si(const std::string& key, const std::string& text);  // throws ConfigError
// for a file: the shortest text, with a suitable unit prefix
std::string value_text(const ScaledParameter& parameter, double x);
Cluster with_values(const Cluster& cluster, const std::vector<ScaledParameter>& parameters,
                    const std::vector<double>& x);
// `key` is below "cluster.": the cluster with this key set from text, and the key's value as text.
Cluster with_text(const Cluster& cluster, const std::string& key, const std::string& text);
std::string text_at(const Cluster& cluster, const std::string& key);

}  // namespace stepcast
