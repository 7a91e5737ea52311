// The most probable constants under priors: robust and bounded, from residuals that come with their
// derivatives. Numerics only.
#pragma once

#include <functional>
#include <vector>

#include "calibrate/least_squares.h"

namespace stepcast {

// log(predicted / measured) of every row at x, and its derivatives with respect to x (rows x
// unknowns).
struct RowErrors {
    Vector errors;
    DenseMatrix slopes;
};
// Rows without a flag in `rows` may be left at 0.
using RowModel = std::function<RowErrors(const Vector& x, const std::vector<bool>& rows)>;
// The linearisation at x: evaluating it simulates no row.
RowModel straight_lines(const Vector& x, const RowErrors& at);

// The prior of each unknown's logarithm: normal with `mean` and `sigma`, and bounds that it must
// keep.
struct PriorBelief {
    double mean = 0, sigma = 0.5, lower = -10, upper = 10;
};

struct Posterior {
    Vector x, sigma;  // most probable values and their standard deviations
    std::vector<bool> at_bound;
    DenseMatrix covariance;
    double noise = 0;  // scatter of rows about their predictions, one standard deviation
    // compares solutions of one problem from different starts: lower is more probable
    double cost = 0;
    RowErrors rows;         // at x, for the rows used
    bool at_start = false;  // stopped before a first pass had moved anything: no answer
};

// Minimises sum of rho(error / noise) over the rows in `used` + sum of ((x - mean) / sigma)^2
// within the bounds; rho is Huber's loss. It also estimates the noise; the prior belief in
// `usual_noise` weighs as much as four rows. A pass simulates all rows and is expensive, algebra is
// cheap. So each pass goes to the minimum for the rows linearised at the last point (half of the
// way, a quarter and so on where the minimum is no better). It ends when the next pass promises too
// little, or when the last one gained too little relative to the constants' errors, or when
// `enough`, asked after each pass, returns true.
Posterior most_probable(const RowModel& model, const std::vector<PriorBelief>& priors,
                        const std::vector<bool>& used, const Vector& start,
                        const std::function<bool()>& enough = {});

// Which rows are far from constants that most rows agree on; none if all rows scatter little, or if
// fewer are far than Huber's loss bears. Found by least trimmed squares (Rousseeuw, Least Median of
// Squares Regression, 1984): the half of the rows that one set of constants explains best, but for
// an error that they share: first without moving a constant from the start of the fit (x = 0), then
// from there and from `all`, the solution for all rows.
std::vector<bool> far_from_most(const RowModel& model, const std::vector<PriorBelief>& priors,
                                const Posterior& all);
inline constexpr double least_far = 0.25;  // of a log error

inline constexpr double usual_noise = 0.06;

}  // namespace stepcast
