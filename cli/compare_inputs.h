// The verb compare up to what it prints: inputs read, every case predicted.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "cases/cases.h"
#include "cli/arguments.h"
#include "reports/compare.h"
#include "reports/kernel_tables.h"

namespace stepcast {

struct Compared {
    std::vector<Comparison> comparisons;
    KernelComparisons kernels;
    CompareSummary summary;
    bool steps;  // whether the inputs hold steps, or kernels alone
};
// Throws ConfigError on names and files that are wrong; single cases that are refused are in what it returns.
Compared compare_inputs(const Options& options, const std::function<void(std::string_view)>& progress);

// Throws ConfigError where nothing could be predicted, or with --strict not all.
void require_predicted(const Compared& compared, bool strict);

}  // namespace stepcast
