// Two causes at once, where none alone agrees with what was measured.
#pragma once

#include <vector>

#include "sim/why/evidence.h"

namespace stepcast {

struct TwoCauses {
    std::size_t first = 0, second = 0;  // in TriedCauses::all
    CauseGuess guess;                   // of both, the likeliest
    double first_share = 0.5;           // of what both add to the step
    double log_weight = 0;              // their mean likelihood, and how often both are met
};

// The guess under both: what lengthens all that ranks compute multiplies, other times add up.
CauseGuess combined(const CauseGuess& a, const CauseGuess& b, const CauseGuess& plain);

// All pairs of causes whose weight is above 0; `weights` are of TriedCauses::all, the first that of
// a run without a cause.
std::vector<TwoCauses> two_causes(const TriedCauses& tried, const std::vector<double>& weights,
                                  const Observed& seen, Seconds step);

}  // namespace stepcast
