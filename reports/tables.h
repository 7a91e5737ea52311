// Results as text for a terminal, at most 110 columns, and as CSV; the answer first.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cases/cases.h"
#include "model/answers/traced_step.h"
#include "model/answers/campaign.h"
#include "model/answers/explanation.h"
#include "model/answers/forecast.h"
#include "model/answers/kernel_comparison.h"
#include "model/answers/sweep_answer.h"
#include "model/records/measurement.h"
#include "reports/page.h"
#include "reports/table.h"

namespace stepcast {

// With `all_notes` every note, else what they come to in two lines.
std::string forecast_table(const Forecast& forecast, bool all_notes = true);
// The kernels of the median draw, longest first: time on the busiest rank and on the average rank.
Table kernel_times(const Forecast& forecast);
std::string kernel_table(const Forecast& forecast);
std::string measurement_table(const std::string& experiment, const Measurement& measurement);

// One line a case (measured, predicted p50, p10..p90, error), refused cases with their reasons, then the summary, the
// phases where they were measured, and what the clusters were fitted from.
std::string comparison_table(const std::vector<Comparison>& comparisons);
// The same as comma-separated values, SI seconds.
std::string comparison_csv(const std::vector<Comparison>& comparisons);

// "pcie-a100-x4: fitted 2026-11-21 to 11 samples of a.csv, b.csv; leave-one-out error of step 5.1 % mean, .."; says
// "uncalibrated" where nothing was fitted.
std::string provenance_text(const Cluster& cluster);

// What `list presets` prints: names with what they say.
std::string keys_table(const std::vector<KeyDoc>& keys, const std::string& word = "");  // lines with that word, in any case
// Of a table with headings and entries below them, indented by two: those that hold the word in any case, or whose heading does;
// continued lines included.
std::string entries_with(const std::string& table, const std::string& word);
std::string presets_table(const std::vector<Experiment>& experiments, const std::vector<std::string>& workloads,
                          const std::vector<std::string>& families, const std::vector<Framework>& frameworks,
                          const std::vector<Cluster>& clusters, const std::vector<std::string>& nameplates);

// The notes of a forecast: all of them, or what they come to in two lines.
std::string every_note(const std::vector<std::string>& notes);

// At most two lines: what is extrapolated and how much kept its prior; the first of the others and how many more there are.
std::string brief_notes(const std::vector<std::string>& notes);

// An explanation: critical path by kind and by link, idle time of two ranks, what more of each parameter does, what to measure next.
std::vector<Table> explanation_tables(const Explanation& explanation);
std::string explanation_table(const Explanation& explanation);

// "between nodes, across the spine": what a level means in tables and plots.
std::string_view link_text(LinkLevel level);

// Forecasts side by side, one a column.
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

// A whole training, days, money, energy: what `simulate --tokens` prints beneath the step.
std::string campaign_table(const Campaign& campaign);

// Cells of other tables: "41.2 d (38.9 .. 44.0)", the p50 with p10 and p90 behind it where they differ; "-" = not known.
std::string days_text(const Campaign& campaign);
std::string money_text(const Campaign& campaign);
std::string energy_text(const Campaign& campaign);

std::string duration_text(Seconds time);              // "41.2 d", "7.3 h", "12.0 min"
std::string spoken_count(double count);               // "15 T", "2.5 M"
std::string goodput_text(const Goodput& goodput);     // "94.2 %: a failure every 4.1 d, a checkpoint every 1.1 h"
std::string price_text(const Campaign& campaign);     // "6.16 USD an hour (CoreWeave, ..)", or what to set

// What a sweep found: the best, what they have in common, counts and the proof.
std::string sweep_table(const SweepAnswer& result);

// Parts of it, for pages. "" where there is nothing to say.
Table rows_table(const SweepAnswer& result, const std::vector<SweepRow>& rows);
std::string sweep_title(const SweepAnswer& result);
std::string sweep_counts(const SweepAnswer& result);   // lines
std::string sweep_doubts(const SweepAnswer& result);   // what the ranking leaves open
std::string within_text(const SweepAnswer& result);    // the least machines that end in time
std::string campaign_text(const SweepAnswer& result);  // what days, money and energy rest on, machine by machine

// The best as comma-separated values, SI units in the names.
std::string top_csv(const SweepAnswer& result);

// Measured kernels next to the laws' forecasts, summed up: tables for people, CSV and Markdown for files.

// Errors are predicted / measured - 1; inside_interval is empty where no row has an interval.
struct KernelSummary {
    std::string kind, device, dtype;
    int rows = 0, predicted = 0;
    double mape = 0, median_ape = 0, bias = 0, worst = 0;
    std::optional<double> inside_interval;
    friend bool operator==(const KernelSummary&, const KernelSummary&) = default;
};
KernelSummary kernel_summary_of(const std::vector<KernelComparison>& rows);

// One for each kind, device and dtype, in the order of their first rows.
std::vector<KernelSummary> kernel_summaries(const KernelComparisons& kernels);

// By kind, device and dtype; by size; fitted, seen and unseen rows apart; what was refused and why.
std::string kernel_table(const KernelComparisons& kernels);
PageSection kernel_section(const KernelComparisons& kernels);
std::string kernel_csv(const KernelComparisons& kernels);

// Cost error and schedule error of own runs: "cost error +3.1 %, schedule error -0.4 %".
std::string attribution_sentence(const ErrorAttribution& attribution);
// The sentence, then one line an op kind and phase: predicted and measured time on the slowest rank, error, and how
// much of the step the kind's error is.
std::string attribution_table(const std::string& name, const ErrorAttribution& attribution);

// Traced steps next to what was predicted of them: rank by rank the span and the exposed communication, then cost and schedule error by kind of work.
std::string traced_table(const TracedStep& step);

// One training step measured in more than one way: by this program's executor and by a PyTorch script, next to what was
// predicted for either; and the errors of phases over many cases.

// Cases of one shape (model, batch, type, attention) and different sources, side by side; "" when there are none.
std::string side_by_side_table(const std::vector<Comparison>& comparisons);

// "errors of phases (median, mean): forward 3.1 %, 4.0 %; .." over the cases that state them; "" for fewer than two cases.
std::string phase_errors_text(const std::vector<Comparison>& comparisons);

}  // namespace stepcast
