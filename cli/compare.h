// The verb compare without its printing, for the program and for Python.
#pragma once

#include <vector>

#include "cli/options.h"
#include "model/base/progress.h"
#include "reports/compare.h"
#include "sim/results/comparison.h"
#include "sim/results/kernel_comparison.h"

namespace stepcast {

// The inputs as read, with every case predicted.
struct Compared {
    std::vector<Comparison> comparisons;
    KernelComparisons kernels;
    CompareSummary summary;
    bool steps;  // whether the inputs hold steps, and not only kernels
};
// Throws ConfigError for wrong names and files. Single cases that are refused are part of the
// result.
Compared compare_inputs(const Options& options, const Progress& progress);

}  // namespace stepcast
