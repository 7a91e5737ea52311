// Measured cases -> the same with their forecasts.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "cases/cases.h"

namespace stepcast {

// Predicts every comparison that was not refused; what prediction refuses is noted there, and the rest goes on.
void predict_all(std::vector<Comparison>& comparisons, const std::function<void(std::string_view)>& progress = {});

}  // namespace stepcast
