// Each command's answer as a page, and the facts that pages state. Writers of folders write tables
// first, so that they exist when gnuplot fails (ConfigError).
#pragma once

#include <optional>
#include <string>

#include "model/experiment.h"
#include "model/records/measurement.h"
#include "reports/page.h"
#include "reports/tables.h"
#include "sim/results/campaign.h"
#include "sim/results/explanation.h"
#include "sim/results/forecast.h"
#include "sim/results/gantt.h"
#include "sim/results/kernel_comparison.h"
#include "sim/results/sweep_answer.h"

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

// What made a page: the text of --version and the command line, "" if there was none.
struct Invocation {
    std::string version, command = {};
};
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

// A sweep's answer as a page. `origin`: where its numbers come from (cluster, framework, program).
Page sweep_page(const SweepAnswer& result, const std::vector<Fact>& origin);

// Writes top.csv, summary.md, the plots that the answer allows, and report.html with all of them.
void write_sweep(const std::string& folder, const SweepAnswer& result,
                 const std::vector<Fact>& origin = {});

// The data of a sweep's map for page/map.js, one JSON object: the keys with their values, the
// limits of memory, and the points. A point has its index along each key, then step, peak memory,
// ranks, tokens/s, and whether it was simulated. "" if there is no map.
std::string map_json(const SweepAnswer& result);

// A comparison as a page: what stepcast predicted of what was measured.
struct Comparison;

// `inputs`: the compared files, as named by the user. The caller adds the plots.
Page compare_page(const std::string& title, const std::vector<std::string>& inputs,
                  const std::vector<Comparison>& comparisons, const KernelComparisons& kernels);

// Writes compare.csv (kernels.csv), summary.md (kernels.md), the plots that the cases allow, and
// report.html. `program`: name and version.
void write_comparison(const std::string& folder, const std::vector<std::string>& inputs,
                      const std::vector<Comparison>& comparisons, const KernelComparisons& kernels,
                      const Invocation& program);

}  // namespace stepcast
