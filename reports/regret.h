// Whether the predicted best mapping is the measured best one: what a planner would have lost by believing.
#pragma once

#include <string>
#include <vector>

#include "cases/cases.h"

namespace stepcast {

// One training job of a source that was measured under at least two mappings: the same workload, global batch, device
// and number of ranks, split differently. Rows of one mapping count once, with their mean measured step.
struct Decision {
    std::string source, model;
    int ranks = 0, mappings = 0;
    Seconds best;    // measured step of the mapping that was fastest
    Seconds chosen;  // of the one that was predicted to be; of several predicted alike, the slowest
    friend bool operator==(const Decision&, const Decision&) = default;
};
double regret(const Decision& decision);  // chosen / best - 1

// In the order of their first rows; cases without a forecast do not count.
std::vector<Decision> decisions_of(const std::vector<Comparison>& comparisons);

}  // namespace stepcast
