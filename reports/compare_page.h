// The page of compare: predicted against measured.
#pragma once

#include <string>
#include <vector>

#include "reports/page.h"
#include "sim/results/comparison.h"
#include "sim/results/kernel_comparison.h"

namespace stepcast {

// `inputs`: the compared files, as named by the user. The caller adds the plots.
Page compare_page(const std::string& title, const std::vector<std::string>& inputs,
                  const std::vector<Comparison>& comparisons, const KernelComparisons& kernels);

// Writes compare.csv (kernels.csv), summary.md (kernels.md), the plots that the cases allow, and
// report.html. `program`: name and version.
void write_comparison(const std::string& folder, const std::vector<std::string>& inputs,
                      const std::vector<Comparison>& comparisons, const KernelComparisons& kernels,
                      const Invocation& program);

}  // namespace stepcast
