// Forecasts beside each other, one a column.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/answers/campaign.h"
#include "model/answers/forecast.h"
#include "reports/table.h"

namespace stepcast {

struct ForecastColumn {
    std::string label;
    Forecast forecast;
    std::optional<Campaign> campaign = {};
};

// What differs most first: step with interval and against the first, rates, where the step goes, memory, and the training
// where one was asked.
Table columns_of(const std::vector<ForecastColumn>& columns);
std::string columns_table(const std::vector<ForecastColumn>& columns);
// A list of what to_json() makes of each forecast, with its label.
std::string columns_json(const std::vector<ForecastColumn>& columns);

}  // namespace stepcast
