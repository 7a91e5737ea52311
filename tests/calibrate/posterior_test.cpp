#include "calibrate/posterior.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>

#include "tests/calibrate/linear_rows.h"

using namespace stepcast;

// Five rows depend on the first unknown only and agree on 0.8. No row depends on the second, so it
// stays at its prior. With noise s the first has the precision 5 / s^2 from the rows and 1 / 0.25
// from its prior.
TEST_CASE("few rows move what they determine and leave the rest at its prior") {
    const RowModel rows = linear(std::vector<Vector>(5, {1, 0}), Vector(5, 0.8));
    const Posterior p =
        most_probable(rows, {{0, 0.5, -3, 3}, {0, 0.3, -3, 3}}, std::vector<bool>(5, true), {0, 0});
    CHECK(p.x[0] == Approx(0.8).epsilon(0.01));
    CHECK(p.x[1] == Approx(0).margin(1e-9));
    CHECK(p.sigma[0] == Approx(1 / std::sqrt(5 / (p.noise * p.noise) + 4)));
    CHECK(p.sigma[1] == Approx(0.3));
}

TEST_CASE("a bounded unknown stops at its bound, whatever the rows say") {
    const RowModel rows = linear(std::vector<Vector>(6, {1}), Vector(6, 0.8));
    const Posterior p = most_probable(rows, {{0, 0.5, -1, 0}}, std::vector<bool>(6, true), {0});
    CHECK(p.x[0] == 0);
    CHECK(p.at_bound[0]);
}

// Nine rows say 0.2 and one says 5: the mean would be 0.68.
TEST_CASE("a wild row has little weight") {
    Vector truth(10, 0.2);
    truth.back() = 5;
    const Posterior p = most_probable(linear(std::vector<Vector>(10, {1}), truth), {{0, 1, -9, 9}},
                                      std::vector<bool>(10, true), {0});
    CHECK(p.x[0] == Approx(0.2).margin(0.03));
    const Posterior without =
        most_probable(linear(std::vector<Vector>(10, {1}), truth), {{0, 1, -9, 9}},
                      {true, true, true, true, true, true, true, true, true, false}, {0});
    CHECK(without.x[0] == Approx(0.2).margin(0.005));
}

// The cost compares solutions from different starts: a row 4.8 off, r sigmas, counts 1.5 (2 r
// - 1.5), not r^2; added are the distance from the prior, and the noise of ten rows and the four of
// the prior belief.
TEST_CASE("the cost of a solution counts a wild row in proportion") {
    Vector truth(10, 0.2);
    truth.back() = 5;
    const Posterior p = most_probable(linear(std::vector<Vector>(10, {1}), truth), {{0, 1, -9, 9}},
                                      std::vector<bool>(10, true), {0});
    double sum = p.x[0] * p.x[0];
    for (std::size_t i = 0; i < 9; ++i)
        sum += p.rows.errors[i] * p.rows.errors[i] / (p.noise * p.noise);
    REQUIRE(std::abs(p.rows.errors.back()) > 10 * p.noise);
    sum += 1.5 * (2 * std::abs(p.rows.errors.back()) / p.noise - 1.5);
    CHECK(p.cost == Approx(sum + 2 * 14 * std::log(p.noise)));
}

// At the solution the pulls balance: sum of w e s / noise^2 + (x - mean) / sigma^2 = 0 for each
// free unknown (w = 1.5 noise / |e| beyond 1.5 sigmas, else 1). The covariance is the inverse of
// sum of w s s / noise^2 + 1 / sigma^2. The noise is that of the rows (cut at 1.5 sigmas) and of
// four believed ones, divided by 0.78.
TEST_CASE("correlated unknowns balance their rows and their priors") {
    const std::vector<Vector> slopes{{1, 2, 0.5}, {3, 1, 0.2}, {1, 1, 0.7}, {2, 5, 0.1},
                                     {4, 1, 0.3}, {1, 3, 0.9}, {7, 7, 7}};
    const Vector truth{0.71, 0.77, 0.49, 1.31, 0.97, 1.13, 99};
    const std::vector<bool> used{true, true, true, true, true, true, false};
    const RowModel rows = linear(slopes, truth);
    const auto check = [&](const std::vector<Prior>& priors, const std::vector<std::size_t>& free) {
        const Posterior p = most_probable(rows, priors, used, {0, 0, 0});
        double squares = 4 * usual_noise * usual_noise;
        const auto weight = [&](std::size_t i) {
            return std::min(1.0, 1.5 * p.noise / std::abs(p.rows.errors[i]));
        };
        for (std::size_t i = 0; i < 6; ++i)
            squares += std::pow(std::min(std::abs(p.rows.errors[i]), 1.5 * p.noise), 2);
        // up to the convergence limit
        CHECK(p.noise == Approx(std::sqrt(squares / 10 / 0.78)).epsilon(0.02));
        for (const std::size_t j : free) {
            double pull = (p.x[j] - priors[j].mean) / (priors[j].sigma * priors[j].sigma),
                   size = std::abs(pull);
            for (std::size_t i = 0; i < 6; ++i) {
                const double of_row =
                    weight(i) * p.rows.errors[i] * slopes[i][j] / (p.noise * p.noise);
                pull += of_row;
                size += std::abs(of_row);
            }
            CHECK(std::abs(pull) < 0.02 * size);
        }
        for (std::size_t j = 0; j < 3; ++j) {
            CHECK(p.sigma[j] == Approx(std::sqrt(p.covariance.at(j, j))));
            for (std::size_t k = 0; k < 3; ++k) {
                double unit = 0;
                for (std::size_t l = 0; l < 3; ++l) {
                    double normal = l == k ? 1 / (priors[l].sigma * priors[l].sigma) : 0;
                    for (std::size_t i = 0; i < 6; ++i)
                        normal += weight(i) * slopes[i][l] * slopes[i][k] / (p.noise * p.noise);
                    unit += p.covariance.at(j, l) * normal;
                }
                CHECK(unit == Approx(j == k ? 1 : 0).margin(1e-6));
            }
        }
        return p;
    };
    const Posterior open =
        check({{0.05, 0.5, -3, 3}, {0.1, 0.3, -3, 3}, {0.2, 0.4, -3, 3}}, {0, 1, 2});
    CHECK(open.at_bound == std::vector<bool>{false, false, false});
    // One unknown is at a bound and the rows pull it beyond: the others settle around it.
    const double bound = open.x[0] - 0.1;
    const Posterior above =
        check({{0.05, 0.5, -3, bound}, {0.1, 0.3, -3, 3}, {0.2, 0.4, -3, 3}}, {1, 2});
    CHECK(above.x[0] == bound);
    CHECK(above.at_bound == std::vector<bool>{true, false, false});
    CHECK(above.x[1] > open.x[1]);
    const Posterior below =
        check({{0.05, 0.5, -3, 3}, {0.1, 0.3, open.x[1] + 0.1, 3}, {0.2, 0.4, -3, 3}}, {0, 2});
    CHECK(below.x[1] == open.x[1] + 0.1);
    CHECK(below.at_bound == std::vector<bool>{false, true, false});
    // The start lies beyond a bound that the rows do not want: the search leaves it again.
    const Posterior back = most_probable(
        rows, {{0.05, 0.5, -3, 3}, {0.1, 0.3, -3, 3}, {0.2, 0.4, -3, 3}}, used, {-9, 9, 9});
    for (std::size_t j = 0; j < 3; ++j)
        CHECK(back.x[j] == Approx(open.x[j]).margin(0.1 * open.sigma[j]));
}

// errors = e^x - 3, so x = log 3 = 1.0986 (the prior of width 10 has no influence). From 0 the line
// 1 + x - 3 ends at 2; this is more than the limit of 1.5, so the first pass goes to 1.5. Newton's
// x - 1 + 3 / e^x gives 1.169, 1.101, 1.0986. The last step promises (with a noise of 0.005 or
// more) (e^x 0.0024 / 0.03)^2 x 5 < 0.3 and the next one nothing: at most six passes.
TEST_CASE("a curved model takes a handful of passes over its rows") {
    int passes = 0;
    const RowModel curved = [&](const Vector& x, const std::vector<bool>&) {
        ++passes;
        return RowErrors{Vector(5, std::exp(x[0]) - 3), {5, 1, Vector(5, std::exp(x[0]))}};
    };
    CHECK(most_probable(curved, {{0, 10, -3, 3}}, std::vector<bool>(5, true), {0}).x[0] ==
          Approx(std::log(3)).epsilon(1e-3));
    CHECK(passes >= 4);
    CHECK(passes <= 6);
}

// From x = (1, 2) with the error 0.5 and slopes 3 and -1: at (1.1, 2.5) the error is 0.5 + 0.3 -
// 0.5.
TEST_CASE("rows go on in straight lines") {
    const RowErrors there = straight_lines({1, 2}, {{0.5}, {1, 2, {3, -1}}})({1.1, 2.5}, {true});
    CHECK(there.errors[0] == Approx(0.3));
    CHECK(there.slopes.values == Vector{3, -1});
}

// If asked to stop at once, it returns the start.
TEST_CASE("an interrupted search keeps the best so far") {
    const Posterior p = most_probable(linear({{1}, {1}}, {0.3, 0.5}), {{0, 1, -3, 3}}, {true, true},
                                      {0.25}, [] { return true; });
    CHECK(p.x == Vector{0.25});
    CHECK(p.noise == 2 * usual_noise);
    CHECK(p.rows.errors[0] == Approx(-0.05));
}
