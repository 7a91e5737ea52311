// The solver of all fits: the most probable unknowns under priors, within bounds, with Huber's loss
// for rows that lie far off and the noise of the rows estimated beside (Ceres). Numerics only.
#pragma once

#include <functional>
#include <vector>

namespace stepcast {

using Vector = std::vector<double>;

// Row-major.
struct DenseMatrix {
    std::size_t rows = 0, columns = 0;
    Vector values;
    double& at(std::size_t r, std::size_t c) { return values[r * columns + c]; }
    [[nodiscard]] double at(std::size_t r, std::size_t c) const { return values[r * columns + c]; }
};

// The prior of an unknown, mostly of a logarithm: normal with `mean` and `sigma`, and bounds that
// it must keep.
struct Prior {
    double mean = 0, sigma = 0.5, lower = -10, upper = 10;
};

// How much a row counts, and what is known of the noise, one standard deviation of a row.
// `limit`: residuals beyond so many sigmas count linearly. `cut_square`: mean square of standard
// normal residuals cut off at the limit, 1 - P - 2 L phi(L) + L^2 P with P = P(|z| > L).
// `believed_rows`: as many rows as a belief in `noise` weighs; with none, unknowns that the rows
// determine take their degrees of freedom.
struct RobustLoss {
    double limit, cut_square, noise, believed_rows, least_noise;
};

// Minimises sum of rho(error / noise) + sum of ((x - mean) / sigma)^2 within the bounds; rho is
// Huber's loss. `slopes` are the errors' derivatives (rows x unknowns).
struct Problem {
    std::function<Vector(const Vector& x)> errors;
    std::function<DenseMatrix(const Vector& x)> slopes;
    std::vector<Prior> priors;
    RobustLoss loss;
    // other slopes for the way to the minimum
    std::function<DenseMatrix(const Vector& x)> search_slopes = {};
    double first_noise = 0.05;
    int most_rounds = 12;    // of new weights and noise
    double standing = 1e-3;  // changes of unknowns and of the noise's logarithm that end the search
    bool plain_first = true;  // the first round gives all rows the same weight
    // Searches again without the unknowns that ended at a bound, along which Ceres goes slowly.
    // Laws with kinks are better off without: the second search leads to other local minima.
    bool again_at_bounds = false;
};

// log(predicted / measured) of every row at x, and its derivatives with respect to x (rows x
// unknowns).
struct RowErrors {
    Vector errors;
    DenseMatrix slopes;
};

struct Posterior {
    Vector x, sigma;  // most probable values and their standard deviations
    std::vector<bool> at_bound;
    DenseMatrix covariance;
    double noise = 0;  // scatter of rows about their predictions, one standard deviation
    // compares solutions of one problem from different starts: lower is more probable
    double cost = 0;
    RowErrors rows;  // at x
    // a search that was stopped before a first pass had moved anything: no answer
    bool at_start = false;
};

// Alternates between the unknowns at fixed weights and noise and those of their residuals (Huber's
// proposal 2), from `start` and the first noise on, until both stand.
Posterior solve(const Problem& problem, Vector start);
// The same numbers for a given x and noise, without any search.
Posterior posterior_at(const Problem& problem, Vector x, double noise);
// The slopes in units of the noise, with the weights that the loss gives to the rows.
DenseMatrix weighted_slopes(const Problem& problem, const Vector& x, double noise);
// The minimised sum.
double objective(const Problem& problem, const Vector& errors, const Vector& x, double noise);

// By central differences, or by short forward ones: of laws with kinks the slope on one side.
DenseMatrix differences(const std::function<Vector(const Vector& x)>& errors, const Vector& x);
DenseMatrix forward_differences(const std::function<Vector(const Vector& x)>& errors,
                                const Vector& x);

// Standard deviation of each unknown from (J^T J)^-1; infinite along directions that nothing fixes.
Vector standard_errors(const DenseMatrix& jacobian);

// Condition number of J^T J with J's columns scaled to unit length; infinite when columns are
// dependent; 1 for none or one column.
double scaled_condition(const DenseMatrix& jacobian);

}  // namespace stepcast
