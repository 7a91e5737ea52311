// An explanation as text for a terminal; the answer first.
#pragma once

#include <string>
#include <vector>

#include "model/answers/explanation.h"
#include "reports/table.h"

namespace stepcast {

// Critical path by kind and by link, idle time of two ranks, what more of each parameter does, what to measure next.
std::vector<Table> explanation_tables(const Explanation& explanation);
std::string explanation_table(const Explanation& explanation);

// "between nodes, across the spine": what a level means in tables and plots.
std::string_view link_text(LinkLevel level);

}  // namespace stepcast
