// The tables of simulate --explain and of traced steps.
#pragma once

#include <string>
#include <vector>

#include "reports/table.h"
#include "sim/results/explanation.h"
#include "sim/results/traced_step.h"

namespace stepcast {

// The tables of an explanation: critical path by kind and by resource, idle time of two ranks,
// effect of more of each parameter, and what to measure next.
std::vector<Table> explanation_tables(const Explanation& explanation);
std::string explanation_table(const Explanation& explanation);

// "between nodes", "across the spine": the name of a level in tables and plots.
std::string_view link_text(LinkLevel level);

// Cost and schedule error of an executed run: "cost error +3.1 %, schedule error -0.4 %".
std::string attribution_sentence(const ErrorAttribution& attribution);

// The sentence, then one line per op kind and phase: predicted and measured time on the slowest
// rank, their error, and the effect of that error on the step.
std::string attribution_table(const std::string& name, const ErrorAttribution& attribution);

// A traced step next to its prediction: span and exposed communication of each rank, then cost and
// schedule error by kind of work.
std::string traced_table(const TracedStep& step);

}  // namespace stepcast
