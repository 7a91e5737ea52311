#include "calibrate/posterior.h"

#include <algorithm>

#include "model/base/lists.h"

namespace stepcast {
namespace {

// 0.78 of a normal variable's variance remains with the limit of 1.5; the belief counts as four
// rows.
constexpr RobustLoss robust_loss{1.5, 0.78, usual_noise, 4, 0.01};
constexpr int most_passes = 12, most_halvings = 4, most_rounds = 60;
constexpr double standing = 1e-5;
constexpr double slope_reach = 1.5;  // of a logarithm: slopes hold for a change of at most this
// Of the objective, which rises by 1 at one standard deviation: the least gain that a next pass
// must promise, and of the last pass.
constexpr double least_promise = 0.02, least_gain = 0.1;

Vector used_of(const Vector& all, const std::vector<bool>& used) {
    Vector some;
    for (const std::size_t i : indices_of(all))
        if (used[i]) some.push_back(all[i]);
    return some;
}

Vector bounded(const std::vector<Prior>& priors, Vector x) {
    for (const std::size_t j : indices_of(x))
        x[j] = std::clamp(x[j], priors[j].lower, priors[j].upper);
    return x;
}

Vector part_of_way(const std::vector<Prior>& priors, const Vector& from, const Vector& to,
                   double part) {
    Vector x = from;
    for (const std::size_t j : indices_of(x))
        x[j] += part * std::clamp(to[j] - from[j], -slope_reach, slope_reach);
    return bounded(priors, std::move(x));
}

}  // namespace

RowModel straight_lines(const Vector& x, const RowErrors& at) {
    return [x, at](const Vector& y, const std::vector<bool>&) {
        RowErrors there = at;
        for (const std::size_t i : indices_of(at.errors))
            for (const std::size_t j : indices_of(x))
                there.errors[i] += at.slopes.at(i, j) * (y[j] - x[j]);
        return there;
    };
}

Problem on_lines(const Vector& x, const RowErrors& at, const std::vector<bool>& used,
                 const std::vector<Prior>& priors) {
    DenseMatrix slopes{0, x.size(), {}};
    for (const std::size_t i : indices_of(at.errors)) {
        if (!used[i]) continue;
        ++slopes.rows;
        for (const std::size_t j : indices_of(x)) slopes.values.push_back(at.slopes.at(i, j));
    }
    const auto errors = [lines = straight_lines(x, at), used](const Vector& y) {
        return used_of(lines(y, used).errors, used);
    };
    return {.errors = errors,
            .slopes = [slopes](const Vector&) { return slopes; },
            .priors = priors,
            .loss = robust_loss,
            .first_noise = usual_noise,
            .most_rounds = most_rounds,
            .standing = standing,
            .plain_first = false,
            .again_at_bounds = true};
}

Posterior most_probable(const RowModel& model, const std::vector<Prior>& priors,
                        const std::vector<bool>& used, const Vector& start,
                        const std::function<bool()>& enough) {
    Vector x = bounded(priors, start);
    RowErrors at = model(x, used);
    double noise = 2 * usual_noise;
    const auto stopped = [&] { return enough && enough(); };
    bool moved = false, ended = false;
    for (int n = 0; n < most_passes && !stopped(); ++n) {
        Problem lines = on_lines(x, at, used, priors);
        lines.first_noise = noise;
        const auto cost = [&](const Vector& errors, const Vector& y) {
            return objective(lines, errors, y, noise);
        };
        const Posterior there = solve(lines, x);
        noise = there.noise;
        const double before = cost(lines.errors(x), x);
        ended = before - cost(lines.errors(there.x), there.x) < least_promise;
        if (ended) break;
        double part = 1, gained = -1;
        for (int halving = 0; halving <= most_halvings && gained < 0 && !stopped();
             ++halving, part /= 2) {
            const Vector tried = part_of_way(priors, x, there.x, part);
            RowErrors found = model(tried, used);
            gained = before - cost(used_of(found.errors, used), tried);
            if (gained < 0) continue;
            x = tried;
            moved = true;
            at = std::move(found);
        }
        if (gained < least_gain) break;
    }
    Posterior found = posterior_at(on_lines(x, at, used, priors), x, noise);
    found.rows = std::move(at);
    found.at_start = !moved && !ended && stopped();
    return found;
}

}  // namespace stepcast
