// A comparison as a page: what stepcast predicted of what was measured.
#pragma once

#include "model/answers/kernel_comparison.h"
#include "reports/page.h"

namespace stepcast {

struct Comparison;

// `inputs`: the files that were compared, as named. Plots are added by who has made them.
Page compare_page(const std::string& title, const std::vector<std::string>& inputs, const std::vector<Comparison>& comparisons,
                  const KernelComparisons& kernels);

// Writes compare.csv (kernels.csv), summary.md (kernels.md), the plots that the cases allow, and report.html with all of
// it. Tables first: when gnuplot fails (ConfigError) they are there, also as a page. `program`: its name and version.
void write_comparison(const std::string& folder, const std::vector<std::string>& inputs,
                      const std::vector<Comparison>& comparisons, const KernelComparisons& kernels, const std::string& program);

}  // namespace stepcast
