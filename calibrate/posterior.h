// The most probable constants under priors: robust, bounded, from residuals that come with their derivatives. Numerics only.
#pragma once

#include <functional>
#include <vector>

#include "calibrate/least_squares.h"

namespace stepcast {

// log(predicted / measured) of every row at x, and its derivatives by x (rows x unknowns).
struct RowErrors {
    Vector errors;
    DenseMatrix slopes;
};
// Rows without their flag may be left at nothing.
using RowModel = std::function<RowErrors(const Vector& x, const std::vector<bool>& rows)>;
// As if every row went on from x in a straight line: no row is asked again.
RowModel straight_lines(const Vector& x, const RowErrors& at);

// Of the logarithm of each unknown: where it is believed to be and how surely, and where it must stay.
struct PriorBelief {
    double mean = 0, sigma = 0.5, lower = -10, upper = 10;
};

struct Posterior {
    Vector x, sigma;           // most probable values and their standard deviations
    std::vector<bool> at_bound;
    DenseMatrix covariance;
    double noise = 0;          // scatter of a row about its prediction, one standard deviation
    double cost = 0;           // less is more probable, of solutions of one problem from different starts
    RowErrors rows;            // at x, of those used
    bool at_start = false;     // the caller wanted no more before a first pass had moved anything: no answer
};

// Minimises sum of rho(error / noise) over the rows in `used` + sum of ((x - mean) / sigma)^2 within the bounds; rho is Huber's.
// The noise is estimated with them, believed beforehand to be `usual_noise` as if from four rows. A pass over the rows is dear and
// algebra is not: each pass goes to where the rows' straight lines from the last one have their minimum (half of the way and so on where that
// is no better), until another promises nothing or the last brought nothing that counts on top of the constants' errors. `enough` after a pass may say that the
// caller wants no more.
Posterior most_probable(const RowModel& model, const std::vector<PriorBelief>& priors, const std::vector<bool>& used,
                        const Vector& start, const std::function<bool()>& enough = {});

inline constexpr double usual_noise = 0.06;

}  // namespace stepcast
