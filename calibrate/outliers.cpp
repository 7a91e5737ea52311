#include "calibrate/outliers.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/base/lists.h"
#include "model/base/numbers.h"

namespace stepcast {
namespace {

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

// Concentrates: solves for the half that is nearest to `first`, on the lines of a point, until the
// half stays the same.
Half concentrated(const std::vector<Prior>& priors, const Vector& from, const RowErrors& at,
                  const Vector& first) {
    constexpr int most_rounds = 20;
    const RowModel lines = straight_lines(from, at);
    const std::vector<bool> every(at.errors.size(), true);
    Half found{nearest_half(lines(first, every).errors), first};
    for (int n = 0; n < most_rounds; ++n) {
        found.x = most_probable(lines, priors, found.rows, found.x).x;
        std::vector<bool> next = nearest_half(lines(found.x, found.rows).errors);
        if (next == found.rows) break;
        found.rows = std::move(next);
    }
    const Problem rows = on_lines(from, at, found.rows, priors);
    found.cost = objective(rows, rows.errors(found.x), found.x, usual_noise);
    return found;
}

// The model with one more unknown, an error that all rows share: no row is far from the others
// because the base is off as a whole.
RowModel with_common_error(const RowModel& model) {
    return [model](const Vector& x, const std::vector<bool>& rows) {
        const RowErrors own = model(Vector(x.begin(), x.end() - 1), rows);
        RowErrors all{own.errors, {own.slopes.rows, x.size(), {}}};
        for (const std::size_t i : indices_of(own.errors)) {
            all.errors[i] += x.back();
            for (std::size_t j = 0; j + 1 < x.size(); ++j)
                all.slopes.values.push_back(own.slopes.at(i, j));
            all.slopes.values.push_back(1);
        }
        return all;
    };
}

// What is believed of an error that all rows share, one standard deviation: judged, between the
// scatter of named frameworks and that of unnamed scripts (model/presets/scatter.toml), with a few
// draws of nanotron's steps in view. Of two halves that agree alike, the one nearer to the base is
// right.
constexpr double common = 0.25;

// Three rows each, evenly among all triples: constants that so few rows give are right where these
// are, whatever the others say (elemental starts: Rousseeuw and Van Driessen, 1999).
std::vector<std::vector<bool>> triples(std::size_t rows) {
    constexpr std::size_t most = 120;  // of ten rows all
    const std::size_t all = rows * (rows - 1) * (rows - 2) / 6, step = (all + most - 1) / most;
    std::vector<std::vector<bool>> found;
    std::size_t number = 0;
    for (std::size_t a = 0; a < rows; ++a)
        for (std::size_t b = a + 1; b < rows; ++b)
            for (std::size_t c = b + 1; c < rows; ++c) {
                if (number++ % step != 0) continue;
                auto& three = found.emplace_back(rows, false);
                three[a] = three[b] = three[c] = true;
            }
    return found;
}

struct Minority {
    std::vector<bool> away;  // none if the others do not agree, or if these are too few or too many
    bool told = false;       // more than half of the rows agree
};

// The rows far from those that the best half of the starts leads to.
Minority minority(const RowModel& own, std::vector<Prior> priors, const std::vector<Vector>& starts,
                  std::size_t rows) {
    constexpr double far = 3.5;       // of the noise of the rows that agree
    constexpr std::size_t borne = 5;  // one row in so many has little weight anyway
    const std::vector<bool> every(rows, true), none(rows, false);
    const RowModel model = with_common_error(own);
    priors.push_back({0, common});
    Half best;
    const auto keep = [&](Half found) {
        if (best.rows.empty() || found.cost < best.cost) best = std::move(found);
    };
    for (Vector start : starts) {
        start.push_back(0);
        RowErrors at = model(start, every);
        start.back() = -middle_of(at.errors);  // most rows' error, whichever the others have
        for (double& error : at.errors) error += start.back();
        keep(concentrated(priors, start, at, start));
        if (starts.size() == 1) continue;  // nothing to move
        const RowModel lines = straight_lines(start, at);
        for (const std::vector<bool>& three : triples(rows))
            keep(concentrated(priors, start, at, most_probable(lines, priors, three, start).x));
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
    const auto count = as_index(std::ranges::count(away, true));
    const bool agree = noise <= little_noise;
    return {agree && count * borne >= rows && count * 2 < rows ? away : none,
            agree && count * 2 < rows};
}

}  // namespace

// What most rows say of the base as it is comes first: with constants to move, another half may
// agree better than those that are right.
std::vector<bool> far_from_most(const RowModel& model, const std::vector<Prior>& priors,
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

}  // namespace stepcast
