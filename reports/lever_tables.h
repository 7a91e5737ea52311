// What single changes make of a step, for a terminal and a page.
#pragma once

#include <string>
#include <vector>

#include "reports/table.h"
#include "sim/levers.h"
#include "sim/results/forecast.h"
#include "sim/results/lever.h"
#include "sim/results/sweep_answer.h"

namespace stepcast {

// Levers beside the forecast that they change, without those whose difference has no digit here,
// and without those that the framework lacks where they gain neither time nor memory.
Table levers_of(const std::vector<Lever>& levers, const Forecast& forecast);

// "+1.2 .. +8.0 %"; "~" where the two are not distinguishable.
std::string difference_text(const Behind& behind);
std::string lever_table(const std::vector<Lever>& levers, const Forecast& forecast);

}  // namespace stepcast
