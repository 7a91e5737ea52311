// Measured cases -> the same with their forecasts.
#pragma once

#include <vector>

#include "cases/cases.h"
#include "model/progress.h"

namespace stepcast {

// Predicts every comparison that was not refused; what prediction refuses is noted there, and the rest goes on.
void predict_all(std::vector<Comparison>& comparisons, const Progress& progress = {});

}  // namespace stepcast
