// Results as one JSON object, SI units in the keys (docs/formats.md).
#pragma once

#include <string>
#include <vector>

#include "model/cases.h"
#include "model/measurement.h"
#include "reports/compare.h"

namespace stepcast {

std::string to_json(const Forecast& forecast);
std::string to_json(const CompareSummary& summary, const std::vector<Comparison>& comparisons);
// `experiment` names what ran.
std::string to_json(const std::string& experiment, const Measurement& measurement);

}  // namespace stepcast
