// The tables of compare, for the terminal and the page.
#pragma once

#include <string>
#include <vector>

#include "reports/table.h"
#include "sim/results/comparison.h"

namespace stepcast {

// One line per case (measured, predicted p50, p10..p90, error), refused cases with their reasons,
// the summary, the measured phases, and what the clusters were fitted to.
std::string comparison_table(const std::vector<Comparison>& comparisons);

// A predicted case: measured, predicted, p10 .. p90, error, inside, role.
std::vector<Cell> case_cells(const Comparison& comparison);

// The cases as comma-separated values, in seconds.
std::string comparison_csv(const std::vector<Comparison>& comparisons);

// Cases of one shape (model, batch, type, attention) that both this program's executor and a
// PyTorch script measured, side by side with their predictions; "" if there are none.
std::string side_by_side_table(const std::vector<Comparison>& comparisons);

// "errors of phases (median, mean): forward 3.1 %, 4.0 %; .." over the cases that state them; ""
// for fewer than two cases.
std::string phase_errors_text(const std::vector<Comparison>& comparisons);

}  // namespace stepcast
