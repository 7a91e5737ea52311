// Each verb's answer as a page, and the facts that pages state. Folders get tables first, so that they are there when gnuplot
// fails (ConfigError).
#pragma once

#include <optional>
#include <string>

#include "model/answers/campaign.h"
#include "model/answers/explanation.h"
#include "model/answers/forecast.h"
#include "model/answers/gantt.h"
#include "model/answers/kernel_comparison.h"
#include "model/answers/sweep_answer.h"
#include "model/experiment.h"
#include "model/records/measurement.h"
#include "reports/page.h"
#include "reports/tables.h"

namespace stepcast {

// Facts that pages of several verbs state.
// Memory with its verdict, what bounds the step, utilization, how far it is calibrated.
std::vector<Fact> facts_of(const Forecast& forecast);
Fact training_fact(const Campaign& training);
// "p10 .. p90 12.1 .. 13.0 s" or why there is none.
std::string interval_text(const Forecast& forecast);
// Notes of forecasts in plain words: alike ones in one sentence.
struct SortedNotes {
    std::vector<std::string> beyond;        // what is extrapolated
    std::vector<std::string> undetermined;  // parameters that kept their prior
    std::vector<std::string> others;
};
SortedNotes sorted_notes(const std::vector<std::string>& notes);
std::vector<std::string> plain_warnings(const std::vector<std::string>& notes);
// Cluster and framework: what they were fitted to and how well they predicted what was left out.
std::vector<Fact> provenance_of(const Cluster& cluster);
std::vector<Fact> provenance_of(const Framework& framework);

Fact program_fact(const std::string& version);  // its lines as one

Table breakdown_table(const Forecast& forecast);
Table memory_table(const Forecast& forecast);

// A step as a page: forecast, several side by side, or executed.
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

// A sweep's answer as a page.

// `origin`: where its numbers come from (cluster, framework, program).
Page sweep_page(const SweepAnswer& result, const std::vector<Fact>& origin);

// Writes top.csv, summary.md, the plots that the answer allows, and report.html with all of it.
void write_sweep(const std::string& folder, const SweepAnswer& result, const std::vector<Fact>& origin = {});

// The points of a sweep's map as the page's script reads them, one JSON object: keys with their values, points as positions along them with step and peak, the best as found. "" where
// there is no map.
std::string map_json(const SweepAnswer& result);

// A comparison as a page: what stepcast predicted of what was measured.
struct Comparison;

// `inputs`: the files that were compared, as named. Plots are added by who has made them.
Page compare_page(const std::string& title, const std::vector<std::string>& inputs, const std::vector<Comparison>& comparisons,
                  const KernelComparisons& kernels);

// Writes compare.csv (kernels.csv), summary.md (kernels.md), the plots that the cases allow, and report.html with all of
// it. `program`: its name and version.
void write_comparison(const std::string& folder, const std::vector<std::string>& inputs,
                      const std::vector<Comparison>& comparisons, const KernelComparisons& kernels, const std::string& program);

}  // namespace stepcast
