// A step as a page: forecast, several beside each other, or executed.
#pragma once

#include <optional>

#include "model/campaign.h"
#include "model/experiment.h"
#include "model/explanation.h"
#include "model/measurement.h"
#include "reports/columns_table.h"
#include "reports/page.h"

namespace stepcast {

Page forecast_page(const Experiment& experiment, const Forecast& forecast, const std::optional<Explanation>& why,
                   const std::optional<Campaign>& training);
Page columns_page(const std::vector<ForecastColumn>& columns);
Page run_page(const Experiment& experiment, const Measurement& measurement);

// Where the numbers of an experiment come from.
std::vector<Fact> origin_of(const Experiment& experiment, const std::string& program);

}  // namespace stepcast
