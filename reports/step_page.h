// A step as a page: forecast, several beside each other, or executed.
#pragma once

#include <optional>

#include "model/answers/campaign.h"
#include "model/answers/explanation.h"
#include "model/answers/gantt.h"
#include "model/experiment.h"
#include "model/records/measurement.h"
#include "reports/columns_table.h"
#include "reports/page.h"

namespace stepcast {

Page forecast_page(const Experiment& experiment, const Forecast& forecast, const std::optional<Explanation>& why,
                   const std::optional<Campaign>& training);
Page columns_page(const std::vector<ForecastColumn>& columns);
Page run_page(const Experiment& experiment, const Measurement& measurement);

// Write report.html with its plots: gantt, and with an explanation elasticity.
void write_forecast(const std::string& folder, Page page, const Gantt& gantt, const std::optional<Explanation>& why);
void write_columns(const std::string& folder, const std::vector<ForecastColumn>& columns, const std::vector<Gantt>& gantts,
                   const std::vector<Fact>& origin);

// Where the numbers of an experiment come from.
std::vector<Fact> origin_of(const Experiment& experiment, const std::string& program);

}  // namespace stepcast
