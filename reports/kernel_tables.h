// The tables of measured kernels beside their laws.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/compare.h"
#include "reports/forecast_tables.h"
#include "reports/page.h"
#include "sim/results/kernel_comparison.h"

namespace stepcast {

// Summary of measured kernels and the laws' forecasts. Errors are predicted / measured - 1;
// inside_interval is empty if no row has one.
struct KernelSummary {
    std::string kind, device, dtype;
    int rows = 0, predicted = 0;
    double mape = 0, median_ape = 0, bias = 0, worst = 0;
    std::optional<double> inside_interval;
    friend bool operator==(const KernelSummary&, const KernelSummary&) = default;
};
KernelSummary kernel_summary_of(const std::vector<KernelComparison>& rows);

// One summary for each kind, device and dtype, in the order of their first rows.
std::vector<KernelSummary> kernel_summaries(const KernelComparisons& kernels);

// Errors by kind, device and dtype; by size; for fitted, seen and unseen rows apart; what was
// refused and why.
std::string kernel_table(const KernelComparisons& kernels);
PageSection kernel_section(const KernelComparisons& kernels);
std::string kernel_csv(const KernelComparisons& kernels);

}  // namespace stepcast
