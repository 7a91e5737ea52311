// Results as one JSON object, SI units in the keys; what is absent or not finite is null. Ends with a newline.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cases/cases.h"
#include "model/answers/explanation.h"
#include "model/answers/sweep_answer.h"
#include "model/answers/traced_step.h"
#include "model/records/measurement.h"
#include "reports/compare.h"
#include "reports/tables.h"

namespace stepcast {

// With an explanation as `explain`, and the training that the step is part of as `training`.
std::string to_json(const Forecast& forecast, const std::optional<Explanation>& explanation = std::nullopt,
                    const std::optional<Campaign>& training = std::nullopt);
std::string to_json(const CompareSummary& summary, const std::vector<Comparison>& comparisons,
                    const KernelComparisons& kernels = {});
std::string to_json(const TracedStep& step);
// `experiment` names what ran. step_s is over the accepted steps (over all when none was accepted: see `accepted`).
std::string to_json(const std::string& experiment, const Measurement& measurement);

// The best configurations with what was varied, counts, reasons and the proof.
std::string to_json(const SweepAnswer& result);

}  // namespace stepcast
