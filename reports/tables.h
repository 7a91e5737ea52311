// Results as text for a terminal, at most 110 columns; the answer first.
#pragma once

#include <string>
#include <vector>

#include "cases/cases.h"
#include "model/records/measurement.h"
#include "reports/compare.h"
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
std::string keys_table(const std::vector<KeyDoc>& keys, const std::string& word = "");  // lines with that word
std::string presets_table(const std::vector<Experiment>& experiments, const std::vector<std::string>& workloads,
                          const std::vector<std::string>& families, const std::vector<Framework>& frameworks,
                          const std::vector<Cluster>& clusters);

}  // namespace stepcast
