// A sweep's answer as a page.
#pragma once

#include "model/answers/sweep_answer.h"
#include "reports/page.h"

namespace stepcast {

// `origin`: where its numbers come from (cluster, framework, program).
Page sweep_page(const SweepAnswer& result, const std::vector<Fact>& origin);

// Writes top.csv, summary.md, the plots that the answer allows, and report.html with all of it; tables first, so that they
// are there when gnuplot fails (ConfigError).
void write_sweep(const std::string& folder, const SweepAnswer& result, const std::vector<Fact>& origin = {});

}  // namespace stepcast
