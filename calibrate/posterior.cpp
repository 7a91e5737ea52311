#include "calibrate/posterior.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace stepcast {
namespace {

constexpr double huber_limit = 1.5;   // residuals beyond this many sigmas count linearly
constexpr double rows_of_belief = 4;  // how many rows the prior belief in usual_noise counts as
constexpr double least_noise = 0.01;
constexpr int most_passes = 12, most_halvings = 4, most_steps = 60;
constexpr double reach = 1.5;       // of a logarithm: slopes hold for a change of at most this
constexpr double immovable = 1e30;  // a precision that fixes an unknown
// in units of a constant's error: smaller steps end the iteration on straight lines
constexpr double standing = 1e-4;
// Of the objective, which rises by 1 at one standard deviation: the least gain that a next pass
// must promise, and of the last pass.
constexpr double least_promise = 0.02, least_gain = 0.1;

// Inverse of a symmetric positive definite matrix, by Cholesky.
DenseMatrix inverse(const DenseMatrix& a) {
    const std::size_t n = a.rows;
    DenseMatrix l{n, n, Vector(n * n)}, out{n, n, Vector(n * n)};
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j <= i; ++j) {
            double sum = a.at(i, j);
            for (std::size_t k = 0; k < j; ++k) sum -= l.at(i, k) * l.at(j, k);
            if (i == j && !(sum > 0))
                throw std::logic_error("posterior: the normal matrix is not positive");
            l.at(i, j) = i == j ? std::sqrt(sum) : sum / l.at(j, j);
        }
    for (std::size_t c = 0; c < n; ++c) {
        Vector y(n, 0.0);
        for (std::size_t i = 0; i < n; ++i) {
            double sum = i == c ? 1 : 0;
            for (std::size_t k = 0; k < i; ++k) sum -= l.at(i, k) * y[k];
            y[i] = sum / l.at(i, i);
        }
        for (std::size_t i = n; i-- > 0;) {
            double sum = y[i];
            for (std::size_t k = i + 1; k < n; ++k) sum -= l.at(k, i) * out.at(k, c);
            out.at(i, c) = sum / l.at(i, i);
        }
    }
    return out;
}

struct Problem {
    const std::vector<PriorBelief>& priors;
    const std::vector<bool>& used;
    double noise = 2 * usual_noise;
};

double weight(const Problem& p, double error) {
    return std::min(1.0, huber_limit * p.noise / std::max(1e-12, std::abs(error)));
}

double objective(const Problem& p, const Vector& errors, const Vector& x) {
    double sum = 0;
    for (std::size_t i = 0; i < errors.size(); ++i) {
        if (!p.used[i]) continue;
        const double r = std::abs(errors[i]) / p.noise;
        sum += r <= huber_limit ? r * r : huber_limit * (2 * r - huber_limit);
    }
    for (std::size_t j = 0; j < x.size(); ++j) {
        const double r = (x[j] - p.priors[j].mean) / p.priors[j].sigma;
        sum += r * r;
    }
    return sum;
}

DenseMatrix normal_matrix(const Problem& p, const RowErrors& at) {
    const std::size_t n = p.priors.size();
    DenseMatrix normal{n, n, Vector(n * n)};
    for (std::size_t i = 0; i < at.errors.size(); ++i) {
        if (!p.used[i]) continue;
        const double w = weight(p, at.errors[i]) / (p.noise * p.noise);
        for (std::size_t j = 0; j < n; ++j)
            for (std::size_t k = 0; k < n; ++k)
                normal.at(j, k) += w * at.slopes.at(i, j) * at.slopes.at(i, k);
    }
    for (std::size_t j = 0; j < n; ++j)
        normal.at(j, j) += 1 / (p.priors[j].sigma * p.priors[j].sigma);
    return normal;
}

// Unknowns at a bound that would be pushed beyond it do not move.
Vector newton_step(const Problem& p, const RowErrors& at, const Vector& x) {
    const std::size_t n = x.size();
    Vector pull(n, 0.0);
    for (std::size_t i = 0; i < at.errors.size(); ++i)
        if (p.used[i])
            for (std::size_t j = 0; j < n; ++j)
                pull[j] -= weight(p, at.errors[i]) * at.errors[i] * at.slopes.at(i, j) /
                           (p.noise * p.noise);
    for (std::size_t j = 0; j < n; ++j)
        pull[j] += (p.priors[j].mean - x[j]) / (p.priors[j].sigma * p.priors[j].sigma);
    DenseMatrix normal = normal_matrix(p, at);
    for (std::size_t j = 0; j < n; ++j)
        if ((x[j] <= p.priors[j].lower && pull[j] < 0) ||
            (x[j] >= p.priors[j].upper && pull[j] > 0))
            normal.at(j, j) = immovable;
    const DenseMatrix covariance = inverse(normal);
    Vector step(n, 0.0);
    for (std::size_t j = 0; j < n; ++j)
        for (std::size_t k = 0; k < n; ++k) step[j] += covariance.at(j, k) * pull[k];
    return step;
}

Vector errors_of(const DenseMatrix& covariance) {
    Vector errors;
    for (std::size_t j = 0; j < covariance.rows; ++j)
        errors.push_back(std::sqrt(covariance.at(j, j)));
    return errors;
}

// Huber's proposal 2, with the prior belief as additional rows.
double noise_of(const Problem& p, const Vector& errors) {
    double squares = rows_of_belief * usual_noise * usual_noise, rows = rows_of_belief;
    for (std::size_t i = 0; i < errors.size(); ++i) {
        if (!p.used[i]) continue;
        const double counted = std::min(std::abs(errors[i]), huber_limit * p.noise);
        squares += counted * counted;
        rows += 1;
    }
    // of a normal variable's variance that remains with the limit of 1.5
    constexpr double share = 0.78;
    return std::max(least_noise, std::sqrt(squares / rows / share));
}

Vector bounded(const Problem& p, Vector x) {
    for (std::size_t j = 0; j < x.size(); ++j)
        x[j] = std::clamp(x[j], p.priors[j].lower, p.priors[j].upper);
    return x;
}

Vector part_of_way(const Problem& p, const Vector& from, const Vector& to, double part) {
    Vector x = from;
    for (std::size_t j = 0; j < x.size(); ++j)
        x[j] += part * std::clamp(to[j] - from[j], -reach, reach);
    return bounded(p, std::move(x));
}

// Where Newton's method converges when the rows are linear from x on; updates the noise along the
// way.
Vector solved_on_lines(Problem& p, const RowErrors& from, const Vector& x) {
    const RowModel lines = straight_lines(x, from);
    RowErrors at = from;
    Vector y = x;
    for (int n = 0; n < most_steps; ++n) {
        const Vector step = newton_step(p, at, y),
                     errors = errors_of(inverse(normal_matrix(p, at))), before = y;
        for (std::size_t j = 0; j < step.size(); ++j) y[j] += step[j];
        y = bounded(p, std::move(y));
        double moved = 0;
        for (std::size_t j = 0; j < y.size(); ++j)
            moved = std::max(moved, std::abs(y[j] - before[j]) / errors[j]);
        at = lines(y, p.used);
        const double noise = noise_of(p, at.errors), widened = std::log(noise / p.noise);
        p.noise = noise;
        if (moved < standing && std::abs(widened) < standing) break;
    }
    return y;
}

// The more than half of the rows with the smallest errors.
std::vector<bool> nearest_half(const Vector& errors) {
    std::vector<std::size_t> order(errors.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](std::size_t i) { return std::abs(errors[i]); });
    std::vector<bool> near(errors.size(), false);
    for (std::size_t k = 0; k <= errors.size() / 2; ++k) near[order[k]] = true;
    return near;
}

double middle_of(Vector values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    return *middle;
}

struct Half {
    std::vector<bool> rows;
    Vector x;
    double cost = 0;
};

// Concentrates: solves for the nearest half on the lines of a point, until the half stays the same.
Half concentrated(const std::vector<PriorBelief>& priors, const Vector& from, const RowErrors& at) {
    constexpr int most_rounds = 20;
    const RowModel lines = straight_lines(from, at);
    Half found{nearest_half(at.errors), from};
    for (int n = 0; n < most_rounds; ++n) {
        found.x = most_probable(lines, priors, found.rows, found.x).x;
        std::vector<bool> next = nearest_half(lines(found.x, found.rows).errors);
        if (next == found.rows) break;
        found.rows = std::move(next);
    }
    found.cost =
        objective({priors, found.rows, usual_noise}, lines(found.x, found.rows).errors, found.x);
    return found;
}

Posterior posterior_at(const Problem& p, const Vector& x, RowErrors at) {
    const double rows =
        rows_of_belief + static_cast<double>(std::count(p.used.begin(), p.used.end(), true));
    Posterior found;
    found.x = x;
    found.covariance = inverse(normal_matrix(p, at));
    found.sigma = errors_of(found.covariance);
    for (std::size_t j = 0; j < x.size(); ++j)
        found.at_bound.push_back(x[j] <= p.priors[j].lower + 1e-9 ||
                                 x[j] >= p.priors[j].upper - 1e-9);
    found.noise = p.noise;
    found.cost = objective(p, at.errors, x) + 2 * rows * std::log(p.noise);
    found.rows = std::move(at);
    return found;
}

}  // namespace

RowModel straight_lines(const Vector& x, const RowErrors& at) {
    return [x, at](const Vector& y, const std::vector<bool>&) {
        RowErrors there = at;
        for (std::size_t i = 0; i < at.errors.size(); ++i)
            for (std::size_t j = 0; j < x.size(); ++j)
                there.errors[i] += at.slopes.at(i, j) * (y[j] - x[j]);
        return there;
    };
}

namespace {

// The model with one more unknown, an error that all rows share: no row is far from the others
// because the base is off as a whole.
RowModel with_common_error(const RowModel& model) {
    return [model](const Vector& x, const std::vector<bool>& rows) {
        const RowErrors own = model(Vector(x.begin(), x.end() - 1), rows);
        RowErrors all{own.errors, {own.slopes.rows, x.size(), {}}};
        for (std::size_t i = 0; i < own.errors.size(); ++i) {
            all.errors[i] += x.back();
            for (std::size_t j = 0; j + 1 < x.size(); ++j)
                all.slopes.values.push_back(own.slopes.at(i, j));
            all.slopes.values.push_back(1);
        }
        return all;
    };
}

constexpr double little_noise = 1.5 * usual_noise;  // rows that scatter no more agree

struct Minority {
    std::vector<bool> away;  // none if the others do not agree, or if these are too few or too many
    bool told = false;       // half of the rows or more agree
};

// The rows far from those that the best half of the starts leads to.
Minority minority(const RowModel& own, std::vector<PriorBelief> priors,
                  const std::vector<Vector>& starts, std::size_t rows) {
    constexpr double far = 3.5;       // of the noise of the rows that agree
    constexpr std::size_t borne = 5;  // one row in so many has little weight anyway
    const std::vector<bool> every(rows, true), none(rows, false);
    const RowModel model = with_common_error(own);
    priors.push_back({});
    Half best;
    for (Vector start : starts) {
        start.push_back(0);
        RowErrors at = model(start, every);
        start.back() = -middle_of(at.errors);  // most rows' error, whichever the others have
        for (double& error : at.errors) error += start.back();
        if (Half found = concentrated(priors, start, at);
            best.rows.empty() || found.cost < best.cost)
            best = std::move(found);
    }
    std::vector<bool> away = none;
    double noise = 0;
    for (std::vector<bool> used = best.rows;;) {  // from the half to all rows that agree with it
        const Posterior most = most_probable(model, priors, used, best.x);
        const Vector errors = model(most.x, every).errors;
        for (std::size_t i = 0; i < rows; ++i)
            away[i] = std::abs(errors[i]) > std::max(least_far, far * most.noise);
        std::vector<bool> next = away;
        next.flip();
        best.x = most.x;
        noise = most.noise;
        if (next == used || std::ranges::count(next, true) <= std::ranges::count(used, true)) break;
        used = std::move(next);
    }
    const auto count = static_cast<std::size_t>(std::ranges::count(away, true));
    const bool agree = noise <= little_noise;
    return {agree && count * borne >= rows && count * 2 < rows ? away : none,
            agree && count * 2 <= rows};
}

}  // namespace

// What most rows say of the base as it is comes first: with constants to move, another half may
// agree better than those that are right.
std::vector<bool> far_from_most(const RowModel& model, const std::vector<PriorBelief>& priors,
                                const Posterior& all) {
    constexpr std::size_t fewest = 7;  // rows of which most can be told from some
    const std::size_t rows = all.rows.errors.size();
    if (rows < fewest || all.noise < little_noise) return std::vector<bool>(rows, false);
    const Vector start(all.x.size(), 0.0);
    const Vector errors = model(start, std::vector<bool>(rows, true)).errors;
    const RowModel as_it_is = [&](const Vector&, const std::vector<bool>&) {
        return RowErrors{errors, {rows, 0, {}}};
    };
    const Minority of_base = minority(as_it_is, {}, {Vector{}}, rows);
    return of_base.told ? of_base.away : minority(model, priors, {all.x, start}, rows).away;
}

Posterior most_probable(const RowModel& model, const std::vector<PriorBelief>& priors,
                        const std::vector<bool>& used, const Vector& start,
                        const std::function<bool()>& enough) {
    Problem p{priors, used};
    Vector x = bounded(p, start);
    RowErrors at = model(x, used);
    const auto stopped = [&] { return enough && enough(); };
    bool moved = false, ended = false;
    for (int n = 0; n < most_passes && !stopped(); ++n) {
        const Vector solved = solved_on_lines(p, at, x);
        const double before = objective(p, at.errors, x),
                     there = objective(p, straight_lines(x, at)(solved, used).errors, solved);
        ended = before - there < least_promise;
        if (ended) break;
        double part = 1, gained = -1;
        for (int halving = 0; halving <= most_halvings && gained < 0 && !stopped();
             ++halving, part /= 2) {
            const Vector tried = part_of_way(p, x, solved, part);
            RowErrors found = model(tried, used);
            gained = before - objective(p, found.errors, tried);
            if (gained < 0) continue;
            x = tried;
            moved = true;
            at = std::move(found);
        }
        if (gained < least_gain) break;
    }
    Posterior found = posterior_at(p, x, std::move(at));
    found.at_start = !moved && !ended && stopped();
    return found;
}

}  // namespace stepcast
