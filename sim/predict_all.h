// Forecasts of measured cases.
#pragma once

#include <vector>

#include "model/base/progress.h"
#include "sim/results/comparison.h"

namespace stepcast {

// Predicts every comparison that was not refused. A case that prediction refuses keeps the reason,
// and the others go on.
void predict_all(std::vector<Comparison>& comparisons, const Progress& progress = {});

// The same on all cores, with times alone (predict_time()) and without the errors of single tasks.
void predict_times(std::vector<Comparison>& comparisons, const Progress& progress = {});

}  // namespace stepcast
