// Results as one JSON object with SI units in the keys. Values that are absent or not finite are
// null. Ends with a newline.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/records/measurement.h"
#include "reports/forecast_tables.h"
#include "sim/results/allocator_forecast.h"
#include "sim/results/comparison.h"
#include "sim/results/explanation.h"
#include "sim/results/lever.h"
#include "sim/results/sweep_answer.h"

namespace stepcast {

// `explain` holds the explanation, `training` the training that the step is part of, `allocator`
// its memory as the allocator sees it, `levers` what single changes make of it.
std::string to_json(const Forecast& forecast,
                    const std::optional<Explanation>& explanation = std::nullopt,
                    const std::optional<Campaign>& training = std::nullopt,
                    const std::optional<AllocatorForecast>& allocator = std::nullopt,
                    const std::optional<std::vector<Lever>>& levers = std::nullopt);

// `experiment`: name of what ran. step_s is over the accepted steps, or over all if none was
// accepted (`accepted` tells).
std::string to_json(const std::string& experiment, const Measurement& measurement);

// A JSON list of to_json() of each forecast, with its label.
std::string columns_json(const std::vector<ForecastColumn>& columns);

}  // namespace stepcast
