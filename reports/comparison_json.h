// compare --json.
#pragma once

#include <string>
#include <vector>

#include "reports/compare.h"
#include "reports/json.h"
#include "sim/results/comparison.h"
#include "sim/results/traced_step.h"

namespace stepcast {

std::string to_json(const CompareSummary& summary, const std::vector<Comparison>& comparisons,
                    const KernelComparisons& kernels = {});
std::string to_json(const TracedStep& step);

}  // namespace stepcast
