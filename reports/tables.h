// Results as text for a terminal, at most 110 columns; the answer first.
#pragma once

#include <string>
#include <vector>

#include "model/cases.h"
#include "model/measurement.h"
#include "reports/compare.h"

namespace stepcast {

std::string forecast_table(const Forecast& forecast);
std::string measurement_table(const std::string& experiment, const Measurement& measurement);
// One line a case (measured, predicted p50, p10..p90, error), refused cases with their reasons, then the summary.
std::string comparison_table(const std::vector<Comparison>& comparisons);
// The same as comma-separated values, SI seconds.
std::string comparison_csv(const std::vector<Comparison>& comparisons);
// The same as a Markdown table with its summary line.
std::string comparison_markdown(const std::vector<Comparison>& comparisons);

}  // namespace stepcast
