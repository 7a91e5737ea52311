// The page of one step: simulate and execute.
#pragma once

#include <optional>
#include <string>

#include "model/experiment.h"
#include "model/records/measurement.h"
#include "reports/forecast_tables.h"
#include "reports/page.h"
#include "sim/levers.h"
#include "sim/results/allocator_forecast.h"
#include "sim/results/campaign.h"
#include "sim/results/explanation.h"
#include "sim/results/forecast.h"
#include "sim/results/gantt.h"
#include "sim/results/lever.h"

namespace stepcast {

// Facts that pages of several commands state: memory with its verdict, what bounds the step,
// utilization, how far it is calibrated.
std::vector<Fact> facts_of(const Forecast& forecast);
Fact training_fact(const Campaign& training);

// "p10 .. p90 12.1 .. 13.0 s", or why there is none.
std::string interval_text(const Forecast& forecast);

// Notes in plain words, where similar ones become one sentence.
std::vector<std::string> plain_warnings(const std::vector<Note>& notes);

// For a cluster and a framework: what they were fitted to, and their errors on what was left out.
std::vector<Fact> provenance_of(const Cluster& cluster);
std::vector<Fact> provenance_of(const Framework& framework);

std::vector<Fact> facts_of(const Invocation& program);

// "128 sequences of 4,096 tokens, .."
Fact work_fact(int sequences, int seq, int micro_batch);

Table breakdown_table(const Forecast& forecast);
Table memory_table(const Forecast& forecast);

// A step as a page: a forecast, several side by side, or an executed one.
Page forecast_page(const Experiment& experiment, const Forecast& forecast,
                   const std::optional<Explanation>& why, const std::optional<Campaign>& training,
                   const std::optional<std::vector<Lever>>& levers = std::nullopt);
Page columns_page(const std::vector<ForecastColumn>& columns);
Page run_page(const Experiment& experiment, const Measurement& measurement);

// Write report.html with its plots: gantt, elasticity if there is an explanation, memory if it was
// replayed.
void write_forecast(const std::string& folder, Page page, const Gantt& gantt,
                    const std::optional<Explanation>& why,
                    const std::optional<AllocatorForecast>& memory = {});
void write_columns(const std::string& folder, const std::vector<ForecastColumn>& columns,
                   const std::vector<Gantt>& gantts, const std::vector<Fact>& origin);

// Where the numbers of an experiment come from.
std::vector<Fact> origin_of(const Experiment& experiment, const Invocation& program);

}  // namespace stepcast
