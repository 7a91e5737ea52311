// Measured points beside the law that was fitted to them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/base/units.h"

namespace stepcast {

// A law evaluated where it was measured; predictions interpolate between these points.
struct FittedCurve {
    std::string name;
    std::vector<std::pair<double, double>> measured, fitted;
};

// One case of a fit beside its predictions. `held_out` is the prediction of a fit without the case;
// 0 if nothing was left out.
struct CaseResult {
    std::string name, kind;
    Seconds measured, fitted, held_out;
    friend bool operator==(const CaseResult&, const CaseResult&) = default;
};

}  // namespace stepcast
