// Results as text for a terminal, at most 110 columns wide with the answer first, and as CSV.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/records/measurement.h"
#include "reports/page.h"
#include "reports/table.h"
#include "sim/results/allocator_forecast.h"
#include "sim/results/campaign.h"
#include "sim/results/comparison.h"
#include "sim/results/explanation.h"
#include "sim/results/forecast.h"
#include "sim/results/kernel_comparison.h"
#include "sim/results/lever.h"
#include "sim/results/sweep_answer.h"
#include "sim/results/traced_step.h"

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
// Peaks, the tensor that fails and what would help, the fullest moment by kind, layer and stage.
std::string allocator_table(const AllocatorForecast& forecast);
std::string allocator_words(const AllocatorForecast& forecast);
std::vector<Table> allocator_tables(const AllocatorForecast& forecast);
// Levers beside the forecast that they change.
Table levers_of(const std::vector<Lever>& levers, const Forecast& forecast);
// "+1.2 .. +8.0 %"; "~" where the two are not distinguishable.
std::string difference_text(const Behind& behind);
std::string lever_table(const std::vector<Lever>& levers, const Forecast& forecast);
std::string measurement_table(const std::string& experiment, const Measurement& measurement);

// One line per case (measured, predicted p50, p10..p90, error), refused cases with their reasons,
// the summary, the measured phases, and what the clusters were fitted to.
std::string comparison_table(const std::vector<Comparison>& comparisons);
// A predicted case: measured, predicted, p10 .. p90, error, inside, role.
std::vector<Cell> case_cells(const Comparison& comparison);
// The cases as comma-separated values, in seconds.
std::string comparison_csv(const std::vector<Comparison>& comparisons);

// "cluster pcie-a100-x4: fitted 2026-11-21 to 11 samples of a.csv, b.csv; ..", or "UNCALIBRATED" if
// nothing was fitted.
std::string provenance_text(const Cluster& cluster);
// A fit in a row of fits_of(): name, date, samples, tables, errors on steps, parameters assumed.
std::vector<Cell> fit_row(const std::string& name, const Fitted& fitted,
                          const std::string& unmeasured);
std::vector<std::string> source_names(const Fitted& fitted);  // the tables behind a fit, each once

// What `list keys` prints, only lines with the word, in any case.
std::string keys_table(const std::vector<KeyDoc>& keys, const std::string& word = "");
// From a table with headings and entries indented by two below them: the entries that have the
// word, in any case, or whose heading has it, with their continuation lines.
std::string entries_with(const std::string& table, const std::string& word);
// What `list presets` prints.
std::string presets_table(const std::vector<Experiment>& experiments,
                          const std::vector<std::string>& workloads,
                          const std::vector<std::string>& families,
                          const std::vector<Framework>& frameworks,
                          const std::vector<Cluster>& clusters,
                          const std::vector<std::string>& nameplates);

std::string every_note(const std::vector<Note>& notes);
// At most two lines: what is extrapolated and how many parameters kept their prior; the first other
// note and the number of further ones.
std::string brief_notes(const std::vector<Note>& notes);

// The tables of an explanation: critical path by kind and by resource, idle time of two ranks,
// effect of more of each parameter, and what to measure next.
std::vector<Table> explanation_tables(const Explanation& explanation);
std::string explanation_table(const Explanation& explanation);

// "between nodes", "across the spine": the name of a level in tables and plots.
std::string_view link_text(LinkLevel level);

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
// A JSON list of to_json() of each forecast, with its label.
std::string columns_json(const std::vector<ForecastColumn>& columns);

// A whole training in days, money and energy, as `simulate --tokens` prints it below the step.
std::string campaign_table(const Campaign& campaign);

// Cells of other tables: "41.2 d (38.9 .. 44.0)", the p50 and, if different, p10 and p90; "-" =
// unknown.
std::string days_text(const Campaign& campaign);
std::string money_text(const Campaign& campaign);
std::string energy_text(const Campaign& campaign);

std::string duration_text(Seconds time);  // "41.2 d", "7.3 h", "12.0 min"
std::string spoken_count(double count);   // "15 T", "2.5 M"
// "94.2 %: a failure every 4.1 d, a checkpoint every 1.1 h"
std::string goodput_text(const Goodput& goodput);
// "6.16 USD an hour (CoreWeave, ..)", or what to set
std::string price_text(const Campaign& campaign);

// The answer of a sweep: the best configurations, what they have in common, counts and the proof.
std::string sweep_table(const SweepAnswer& result);

// Parts of it, for pages. "" if there is nothing to say.
Table rows_table(const SweepAnswer& result, const std::vector<SweepRow>& rows);
std::string sweep_title(const SweepAnswer& result);
std::string sweep_counts(const SweepAnswer& result);  // several lines
std::string sweep_doubts(const SweepAnswer& result);  // what the ranking leaves open
std::string within_text(const SweepAnswer& result);   // the smallest machines that finish in time
std::string each_of_text(const SweepAnswer& result);  // "moe_system and nodes"
// the basis of days, money and energy for each machine
std::string campaign_text(const SweepAnswer& result);

// "tp" for parallelism.tp
inline std::string short_key(const std::string& key) {
    return key.substr(key.find_last_of('.') + 1);
}

// The best configurations as comma-separated values, with SI units in the names.
std::string top_csv(const SweepAnswer& result);

// Summary of measured kernels and the laws' forecasts. Errors are predicted / measured - 1;
// inside_interval is empty if no row has one.
struct KernelSummary {
    std::string kind, device, dtype;
    int rows = 0, predicted = 0;
    double mape = 0, median_ape = 0, bias = 0, worst = 0;
    std::optional<double> inside_interval;
    friend bool operator==(const KernelSummary&, const KernelSummary&) = default;
};
KernelSummary kernel_summary_of(const std::vector<KernelComparison>& rows);

// One summary for each kind, device and dtype, in the order of their first rows.
std::vector<KernelSummary> kernel_summaries(const KernelComparisons& kernels);

// Errors by kind, device and dtype; by size; for fitted, seen and unseen rows apart; what was
// refused and why.
std::string kernel_table(const KernelComparisons& kernels);
PageSection kernel_section(const KernelComparisons& kernels);
std::string kernel_csv(const KernelComparisons& kernels);

// Cost and schedule error of an executed run: "cost error +3.1 %, schedule error -0.4 %".
std::string attribution_sentence(const ErrorAttribution& attribution);
// The sentence, then one line per op kind and phase: predicted and measured time on the slowest
// rank, their error, and the effect of that error on the step.
std::string attribution_table(const std::string& name, const ErrorAttribution& attribution);

// A traced step next to its prediction: span and exposed communication of each rank, then cost and
// schedule error by kind of work.
std::string traced_table(const TracedStep& step);

// Cases of one shape (model, batch, type, attention) that both this program's executor and a
// PyTorch script measured, side by side with their predictions; "" if there are none.
std::string side_by_side_table(const std::vector<Comparison>& comparisons);

// "errors of phases (median, mean): forward 3.1 %, 4.0 %; .." over the cases that state them; ""
// for fewer than two cases.
std::string phase_errors_text(const std::vector<Comparison>& comparisons);

}  // namespace stepcast
