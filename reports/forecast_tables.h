// Results as text for a terminal, at most 110 columns wide with the answer first, and as CSV.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/records/measurement.h"
#include "reports/table.h"
#include "sim/results/campaign.h"
#include "sim/results/forecast.h"

namespace stepcast {

// `all_notes`: with every note, else with brief_notes().
std::string forecast_table(const Forecast& forecast, bool all_notes = true);

// "; counted 36.1 %" behind a utilization without the causal mask; "" where there is none.
std::string masked_text(const Forecast& forecast);

// "experts balanced; drawn by an untrained gate the step takes 1.4 x, ..".
std::string drawn_text(const Forecast& forecast);
std::string unequal_text(const UnequalStages& unequal, Seconds step);

// The kernels of the median draw, longest first, with their time on the busiest rank and on
// average.
Table kernel_times(const Forecast& forecast);
std::string kernel_table(const Forecast& forecast);

std::string measurement_table(const std::string& experiment, const Measurement& measurement);

std::string every_note(const std::vector<Note>& notes);

// At most two lines: what is extrapolated and how many parameters kept their prior; the first other
// note and the number of further ones.
std::string brief_notes(const std::vector<Note>& notes);

// Forecasts side by side, one per column.
struct ForecastColumn {
    std::string label;
    Forecast forecast;
    std::optional<Campaign> campaign = {};
};

// From top to bottom: step with interval and relative to the first, rates, where the step goes,
// memory, and the training if asked for.
Table columns_of(const std::vector<ForecastColumn>& columns);
std::string columns_table(const std::vector<ForecastColumn>& columns);

// "tp" for parallelism.tp, "experts.dispatch" for runtime.experts.dispatch: what --set takes.
inline std::string short_key(const std::string& key) { return key.substr(key.find('.') + 1); }

}  // namespace stepcast
