#include "calibrate/posterior.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace stepcast;

namespace {

// Rows that see the unknowns in proportion: error = slopes x - truth.
RowModel linear(const std::vector<Vector>& slopes, const Vector& truth) {
    return [=](const Vector& x) {
        RowErrors rows{{}, {slopes.size(), x.size(), {}}};
        for (std::size_t i = 0; i < slopes.size(); ++i) {
            double at = -truth[i];
            for (std::size_t j = 0; j < x.size(); ++j) at += slopes[i][j] * x[j];
            rows.errors.push_back(at);
            rows.slopes.values.insert(rows.slopes.values.end(), slopes[i].begin(), slopes[i].end());
        }
        return rows;
    };
}

}  // namespace

// Five rows see the first unknown alone and agree on 0.8; nothing sees the second, which stays where its prior is. With
// noise s the first has 5 / s^2 from the rows and 1 / 0.25 from its prior.
TEST_CASE("few rows move what they determine and leave the rest at its prior") {
    const RowModel rows = linear(std::vector<Vector>(5, {1, 0}), Vector(5, 0.8));
    const Posterior p = most_probable(rows, {{0, 0.5, -3, 3}, {0, 0.3, -3, 3}}, std::vector<bool>(5, true), {0, 0});
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
    const Posterior p =
        most_probable(linear(std::vector<Vector>(10, {1}), truth), {{0, 1, -9, 9}}, std::vector<bool>(10, true), {0});
    CHECK(p.x[0] == Approx(0.2).margin(0.03));
    const Posterior without = most_probable(linear(std::vector<Vector>(10, {1}), truth), {{0, 1, -9, 9}},
                                            {true, true, true, true, true, true, true, true, true, false}, {0});
    CHECK(without.x[0] == Approx(0.2).margin(0.005));
}

// Solutions from different starts are compared by it: a row 4.8 away counts 1.5 (2 r - 1.5) of its r sigmas, not their square;
// then the prior's own distance, and the noise of ten rows and the four that were believed.
TEST_CASE("the cost of a solution counts a wild row in proportion") {
    Vector truth(10, 0.2);
    truth.back() = 5;
    const Posterior p =
        most_probable(linear(std::vector<Vector>(10, {1}), truth), {{0, 1, -9, 9}}, std::vector<bool>(10, true), {0});
    double sum = p.x[0] * p.x[0];
    for (std::size_t i = 0; i < 9; ++i) sum += p.errors[i] * p.errors[i] / (p.noise * p.noise);
    REQUIRE(std::abs(p.errors.back()) > 10 * p.noise);
    sum += 1.5 * (2 * std::abs(p.errors.back()) / p.noise - 1.5);
    CHECK(p.cost == Approx(sum + 2 * 14 * std::log(p.noise)));
}
