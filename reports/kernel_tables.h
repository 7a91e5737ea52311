// Measured kernels beside the laws' forecasts, summed up: tables for people, CSV and Markdown for files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/answers/kernel_comparison.h"
#include "reports/page.h"

namespace stepcast {

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

}  // namespace stepcast
