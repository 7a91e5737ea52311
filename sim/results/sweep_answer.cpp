#include "sim/results/sweep_answer.h"

#include <algorithm>

#include <fmt/format.h>

#include "measured/medians.h"
#include "model/base/numbers.h"

namespace stepcast {
namespace {

// Five draws have one sign by chance with probability 2^-5, which is below the 10 % that p10..p90
// leaves on each side.
constexpr std::size_t fewest_draws = 5;
// shares that differ by rounding only do not vary by chance, so fewer draws suffice
constexpr double as_fast = 1e-9;

}  // namespace

Behind behind(const std::vector<double>& scores, const std::vector<double>& of_first) {
    std::vector<double> shares;
    for (std::size_t d = 0; d < std::min(scores.size(), of_first.size()); ++d)
        shares.push_back(scores[d] / of_first[d] - 1);
    Behind found{quantile(shares, 0.1), quantile(shares, 0.5), quantile(shares, 0.9), true};
    found.distinguishable = (found.p10 > 0 || found.p90 < 0) &&
                            (shares.size() >= fewest_draws || found.p90 - found.p10 < as_fast);
    return found;
}

static std::string gaps_text(const SweepAnswer& r, std::size_t first) {
    const auto rows = [](std::size_t from, std::size_t to) {
        return from == to ? fmt::format("row {}", from) : fmt::format("rows {} to {}", from, to);
    };
    std::string within;
    for (std::size_t i = first; i < r.best.size(); ++i)
        within += fmt::format("{}{:.2g}", i == first ? "" : ", ", 100 * r.best[i].gap);
    return fmt::format(
        "; {}: the best different parallel layouts found, by the bounds another may be up to {} % "
        "ahead",
        rows(first + 1, r.best.size()), within);
}

std::string proof_text(const SweepAnswer& r) {
    const SweepCounts& c = r.counts;
    const int draws = r.best.empty() ? 1 : r.best.front().forecast.draws;
    const std::string over =
        draws > 1 ? fmt::format(", each by its median over {} common draws", draws) : "";
    const auto proven =
        as_index(std::ranges::find_if(r.best, [](const SweepRow& row) { return row.gap > 0; }) -
                 r.best.begin());
    const std::string best = r.second ? "this front"
                                      : fmt::format("the best {}{}", proven,
                                                    !r.distinct   ? ""
                                                    : proven == 1 ? " parallel layout"
                                                                  : " different parallel layouts");
    if (r.broken_bounds > 0)
        return fmt::format(
            "NOT proven: {} of {} simulated configurations were faster than their lower bound",
            r.broken_bounds, c.simulated);
    const std::string twins =
        c.twins > 0
            ? fmt::format(" ({} of them as a twin that differs only in switches without effect)",
                          c.twins)
            : "";
    if (c.bounded_away == 0)
        return fmt::format("proven: all {} feasible configurations were simulated{}{}", c.feasible,
                           twins, over);
    const std::string tight =
        c.tight > 0 ? fmt::format(" or is within the margin of {:.3g} %", 100 * r.margin) : "";
    return fmt::format(
        "proven: {} of {} feasible configurations; {} were simulated{}, each of the other {} has a "
        "lower bound that is "
        "no better{}{}{}",
        best, c.feasible, c.simulated, twins, c.bounded_away, tight, over,
        proven < r.best.size() ? gaps_text(r, proven) : "");
}

}  // namespace stepcast
