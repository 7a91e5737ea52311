// What the verb compare reads, and traces next to their forecasts.
#pragma once

#include <vector>

#include "cases/cases.h"
#include "cli/arguments.h"
#include "model/answers/kernel_comparison.h"
#include "model/progress.h"
#include "reports/compare.h"

namespace stepcast {

// The verb compare up to what it prints: inputs read, every case predicted.
struct Compared {
    std::vector<Comparison> comparisons;
    KernelComparisons kernels;
    CompareSummary summary;
    bool steps;  // whether the inputs hold steps, or kernels alone
};
// Throws ConfigError on names and files that are wrong; single cases that are refused are in what it returns.
Compared compare_inputs(const Options& options, const Progress& progress);

// Throws ConfigError where nothing could be predicted, or with --strict not all.
void require_predicted(const Compared& compared, bool strict);

// Whether the inputs are a profiler's traces; then they are compared, with the forecast of --model or with what follows from
// their own kernel tables, and printed.
bool compare_traces(const Options& options);

}  // namespace stepcast
