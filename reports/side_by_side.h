// One training step measured in more than one way: by this program's executor and by a PyTorch script, beside what was
// predicted for either; and the errors of phases over many cases.
#pragma once

#include <string>
#include <vector>

#include "cases/cases.h"

namespace stepcast {

// Cases of one shape (model, batch, type, attention) and different sources, side by side; "" when there are none.
std::string side_by_side_table(const std::vector<Comparison>& comparisons);

// "errors of phases (median, mean): forward 3.1 %, 4.0 %; .." over the cases that state them; "" for fewer than two cases.
std::string phase_errors_text(const std::vector<Comparison>& comparisons);

}  // namespace stepcast
