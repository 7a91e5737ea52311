// Rows that most others contradict.
#pragma once

#include <vector>

#include "calibrate/posterior.h"

namespace stepcast {

// Which rows are far from constants that most rows agree on; none if all rows scatter little, or if
// fewer are far than Huber's loss bears. Found by least trimmed squares (Rousseeuw, Least Median of
// Squares Regression, 1984): the half of the rows that one set of constants explains best, but for
// an error that they share: first without moving a constant from the start of the fit (x = 0), then
// from there, from `all`, the solution for all rows, and from what each three rows say.
std::vector<bool> far_from_most(const RowModel& model, const std::vector<Prior>& priors,
                                const Posterior& all);
inline constexpr double least_far = 0.25;  // of a log error
// rows that scatter no more agree
inline constexpr double little_noise = 1.5 * usual_noise;

}  // namespace stepcast
