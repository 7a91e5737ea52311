#include "calibrate/solver.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace stepcast;

// J = [[1, 1], [1, -1], ..] has orthogonal columns: condition 1. [[1, 1], [1, 1 + e]] has nearly
// parallel ones.
TEST_CASE("the scaled condition ignores units and sees collinearity") {
    CHECK(scaled_condition({2, 2, {1, 1000, 1, -1000}}) == Approx(1));
    CHECK(scaled_condition({2, 2, {1, 1, 1, 1.001}}) > 1e6);
    CHECK(std::isinf(scaled_condition({2, 2, {1, 2, 1, 2}})));
    CHECK(std::isinf(scaled_condition({1, 2, {1, 2}})));
}

// f = (exp(x), 3 y, x y) at (0.5, 2) has the rows (e^0.5, 0), (0, 3), (2, 0.5).
TEST_CASE("a Jacobian is that of central differences") {
    const auto f = [](const Vector& x) { return Vector{std::exp(x[0]), 3 * x[1], x[0] * x[1]}; };
    const DenseMatrix j = differences(f, {0.5, 2});
    const double expected[] = {std::exp(0.5), 0, 0, 3, 2, 0.5};
    REQUIRE(j.values.size() == 6);
    for (std::size_t i = 0; i < 6; ++i)
        CHECK(j.values[i] == Approx(expected[i]).epsilon(1e-7).margin(1e-9));
}

// The cosine between the columns (3, 4) and (4, 3) is 0.96, so the squared singular values are 1.96
// and 0.04.
TEST_CASE("the condition of single and of empty columns") {
    CHECK(scaled_condition({2, 2, {3, 4, 4, 3}}) == Approx(49));
    CHECK(scaled_condition({1, 1, {7}}) == 1);
    CHECK(std::isinf(scaled_condition({2, 2, {0, 1, 0, 1}})));
}

// A loss that cuts nothing off, and a noise that a billion rows believe to be 1. (x - 1)^2 + (y -
// 2)^2 + (x + y - 6)^2 is smallest at x = 2, y = 3. With y <= 2.5: 2 (x - 1) + 2 (x - 3.5) = 0, so
// x = 2.25. The priors are a thousand wide.
TEST_CASE("the solver stops at bounds") {
    const auto solved = [](double most) {
        const auto errors = [](const Vector& x) {
            return Vector{x[0] - 1, x[1] - 2, x[0] + x[1] - 6};
        };
        const auto slopes = [](const Vector&) { return DenseMatrix{3, 2, {1, 0, 0, 1, 1, 1}}; };
        return solve({.errors = errors,
                      .slopes = slopes,
                      .priors = {{0, 1000, -9, 9}, {0, 1000, -9, most}},
                      .loss = {100, 1, 1, 1e9, 1e-4},
                      .first_noise = 1,
                      .again_at_bounds = true},
                     {0, 0});
    };
    const Posterior free = solved(9), bounded = solved(2.5);
    CHECK(free.x.at(0) == Approx(2).epsilon(1e-4));
    CHECK(free.x.at(1) == Approx(3).epsilon(1e-4));
    CHECK(free.at_bound == std::vector<bool>{false, false});
    CHECK(bounded.x.at(0) == Approx(2.25).epsilon(1e-3));
    CHECK(bounded.x.at(1) == Approx(2.5));
    CHECK(bounded.at_bound == std::vector<bool>{false, true});
}

TEST_CASE("of the most probable unknowns the covariance is that of rows and priors") {
    // With J^T J = [[5, 4], [4, 5]] and P = diag(1, 4): (J^T J + P)^-1 = [[9, -4], [-4, 6]] / 38.
    const auto errors = [](const Vector& x) { return Vector{x[0] + 2 * x[1], 2 * x[0] + x[1]}; };
    const auto slopes = [](const Vector&) { return DenseMatrix{2, 2, {1, 2, 2, 1}}; };
    const Problem rows{errors, slopes, {{0, 1, -9, 9}, {0, 0.5, -9, 9}}, {100, 1, 1, 1e9, 1e-4}};
    const Posterior at = posterior_at(rows, {0, 0}, 1);
    CHECK(at.sigma.at(0) == Approx(std::sqrt(9.0 / 38)));
    CHECK(at.sigma.at(1) == Approx(std::sqrt(6.0 / 38)));
    CHECK(at.covariance.at(0, 1) == Approx(-4.0 / 38));
}

// J = [[2, 0], [0, 0]]: the first variance is 1/4, the second infinite.
TEST_CASE("standard errors are infinite where the data do not speak") {
    CHECK(standard_errors({2, 2, {2, 0, 0, 0}})[0] == Approx(0.5));
    CHECK(std::isinf(standard_errors({2, 2, {2, 0, 0, 0}})[1]));
}

// Ten rows of one unknown, 0.1 and -0.1 off its mean, no belief in a noise: the sum of squares 0.1
// over 10 - 1 degrees of freedom, as a prior that wide takes none.
TEST_CASE("an unknown that the rows determine takes a degree of freedom from the noise") {
    const auto errors = [](const Vector& x) {
        Vector all;
        for (int i = 0; i < 10; ++i) all.push_back(x[0] - 0.4 + (i % 2 == 0 ? 0.1 : -0.1));
        return all;
    };
    const auto slopes = [](const Vector&) { return DenseMatrix{10, 1, Vector(10, 1)}; };
    const Posterior p = solve({errors, slopes, {{0, 1000, -9, 9}}, {2, 1, 0, 0, 1e-4}}, {0});
    CHECK(p.x.at(0) == Approx(0.4));
    CHECK(p.noise == Approx(std::sqrt(0.1 / 9)).epsilon(1e-3));
}
