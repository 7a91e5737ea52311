// A handful of constants of a cluster from measured training steps: what kernel and link tables cannot tell, because it
// only shows when a whole step runs.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/fit.h"
#include "cases/cases.h"

namespace stepcast {

// At most six, in this order, of those that the cases exercise: GEMM rate in a step, the same of fp8, set-up of an
// expert exchange, partial rings, slow-down of kernels beside communication, memory passes, attention, rate of exchanges
// between nodes and inside one, the host's part of a layer. Priors: the start cluster's values.
std::vector<FitParameter> step_parameters(const Cluster& start, const std::vector<Case>& cases);

// One case as measured step against simulated one. Cases of one model and layout share a fold of five.
FitCase step_case(const Case& what);

// The rows of the cluster's device; other rows are passed over, rows that cannot be predicted are counted.
struct StepRows {
    std::vector<Case> cases;
    int other_devices = 0, refused = 0;
};
StepRows read_step_rows(const std::vector<std::string>& paths, const std::string& cluster);

struct StepsFit {
    FitResult result;
    std::vector<std::string> outliers;  // named, set aside: more than six times the noise off
    friend bool operator==(const StepsFit&, const StepsFit&) = default;
};
// Fits, sets outliers aside, fits again; errors of five folds left out in turn. The start's own [fitted] is kept for other
// keys and kinds; noise.step becomes the spread of what was left out.
StepsFit fit_steps(const Cluster& start, const std::vector<Case>& cases,
                   const std::function<void(std::string_view)>& progress = {});

}  // namespace stepcast
