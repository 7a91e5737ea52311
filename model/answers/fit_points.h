// Measured points next to a law that was fitted to them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/units.h"

namespace stepcast {

// A law at the places where it was measured: predictions interpolate the points.
struct FittedCurve {
    std::string name;
    std::vector<std::pair<double, double>> measured, fitted;
};

// One case of a fit next to its predictions; held_out is 0 when nothing was left out.
struct CaseResult {
    std::string name, kind;
    Seconds measured, fitted, held_out;
    friend bool operator==(const CaseResult&, const CaseResult&) = default;
};

}  // namespace stepcast
