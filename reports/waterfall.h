// What each difference between two configurations costs, as a table, an object, a picture and a
// page.
#pragma once

#include <string>
#include <vector>

#include "reports/page.h"
#include "sim/results/waterfall.h"

namespace stepcast {

// Every line has what a difference costs and the step after it, rounded so that the printed lines
// add up to the printed ends.
Table waterfall_bars(const Waterfall& w);
std::string waterfall_table(const Waterfall& w);
std::string to_json(const Waterfall& w);
void plot_waterfall(const Waterfall& w, const std::string& path);

// Writes report.html, summary.md and the plot. `origin`: where the numbers come from.
void write_waterfall(const std::string& folder, const Waterfall& w,
                     const std::vector<Fact>& origin);

}  // namespace stepcast
