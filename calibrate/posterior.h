// The most probable constants under priors, from residuals that come with their derivatives and are
// expensive: each pass over them goes to the solver's minimum on straight lines. Numerics only.
#pragma once

#include <functional>
#include <vector>

#include "calibrate/solver.h"

namespace stepcast {

// Rows without a flag in `rows` may be left at 0.
using RowModel = std::function<RowErrors(const Vector& x, const std::vector<bool>& rows)>;
// The linearisation at x: evaluating it simulates no row.
RowModel straight_lines(const Vector& x, const RowErrors& at);
// The solver's problem of the rows in `used` on these lines.
Problem on_lines(const Vector& x, const RowErrors& at, const std::vector<bool>& used,
                 const std::vector<Prior>& priors);

// Solves for the rows in `used`. The prior belief in `usual_noise` weighs as much as four rows. A
// pass simulates all rows and is expensive, algebra is cheap. So each pass goes to the minimum for
// the rows linearised at the last point (half of the way, a quarter and so on where the minimum is
// no better). It ends when the next pass promises too little, or when the last one gained too
// little relative to the constants' errors, or when `enough`, asked after each pass, returns true.
Posterior most_probable(const RowModel& model, const std::vector<Prior>& priors,
                        const std::vector<bool>& used, const Vector& start,
                        const std::function<bool()>& enough = {});

inline constexpr double usual_noise = 0.06;

}  // namespace stepcast
