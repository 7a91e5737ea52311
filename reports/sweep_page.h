// The page of a search.
#pragma once

#include <string>

#include "reports/page.h"
#include "sim/results/sweep_answer.h"

namespace stepcast {

// A sweep's answer as a page. `origin`: where its numbers come from (cluster, framework, program).
Page sweep_page(const SweepAnswer& result, const std::vector<Fact>& origin);

// Writes top.csv, summary.md, the plots that the answer allows, and report.html with all of them.
void write_sweep(const std::string& folder, const SweepAnswer& result,
                 const std::vector<Fact>& origin = {});

}  // namespace stepcast
