// Which constants a fit of steps may move, and their priors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calibrate/solver.h"
#include "import/tables/cases.h"

namespace stepcast {

// cluster: the target for a cluster file that other fits start from, when no --fit is given. It
// fits what hardware does, without attention when attention kernels were measured alone, and with
// the set-up of expert all-to-alls when no framework states it.
enum class FitTarget { framework, hardware, both, cluster };
FitTarget parse_fit_target(std::string_view text);  // throws ConfigError

// A constant that the fit may move.
struct StepConstant {
    std::string key;        // below "cluster.", or eager_traffic_key
    std::string framework;  // its key below "framework." if it belongs to the framework, else ""
    double start = 0;       // in SI units: the fit begins there, and x is relative to it
    Prior prior;            // of log(value / start)
    // the base has the value 0; it begins at the usual value of shipped files
    bool usual = false;
};

// The constants that the cases exercise and that the target may move. The prior's mean is the
// start's value, or the median of the shipped values where the start has 0. Its sigma is the
// standard deviation of the shipped values' logarithms.
std::vector<StepConstant> step_constants(FitTarget target, const std::vector<Case>& cases);

std::vector<Prior> priors_of(const std::vector<StepConstant>& constants);
std::string text_of(const StepConstant& c, double x);  // with unit, at x = log(value / start)

// The one constant that is no key below "cluster.": it changes the graph of the step.
inline constexpr const char* eager_traffic_key = "parallelism.eager_traffic";

}  // namespace stepcast
