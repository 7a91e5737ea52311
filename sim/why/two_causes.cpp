#include "sim/why/two_causes.h"

#include <algorithm>
#include <cmath>

#include "model/base/lists.h"
#include "model/base/numbers.h"

namespace stepcast {
namespace {

// Every so many of a cause's guesses: pairs are many.
constexpr std::size_t coarse = 6;

TriedCause memory_of_both(const TriedCause& a, const TriedCause& b, const TriedCause& plain) {
    TriedCause both;
    if (plain.peak <= Bytes(0) || a.peak <= Bytes(0) || b.peak <= Bytes(0)) return both;
    both.peak = a.peak * (b.peak / plain.peak);
    both.out_of_memory =
        plain.out_of_memory > 0
            ? std::min(1.0, a.out_of_memory * b.out_of_memory / plain.out_of_memory)
            : std::max(a.out_of_memory, b.out_of_memory);
    return both;
}

double share_of(const CauseGuess& a, const CauseGuess& b, const CauseGuess& plain) {
    const double of_a = (a.times.step - plain.times.step).si(),
                 of_b = (b.times.step - plain.times.step).si();
    return of_a + of_b > 0 ? std::clamp(of_a / (of_a + of_b), 0.0, 1.0) : 0.5;
}

TwoCauses judged(const TriedCauses& tried, std::size_t first, std::size_t second,
                 const Observed& seen, Seconds step) {
    const CauseGuess& plain = tried.all.front().guesses.front();
    const TriedCause &a = tried.all[first], &b = tried.all[second];
    const TriedCause memory = memory_of_both(a, b, tried.all.front());
    TwoCauses found{.first = first, .second = second, .guess = plain};
    double most = -INFINITY;
    std::vector<double> all;
    for (std::size_t i = 0; i < a.guesses.size(); i += coarse)
        for (std::size_t j = 0; j < b.guesses.size(); j += coarse) {
            const CauseGuess both = combined(a.guesses[i], b.guesses[j], plain);
            all.push_back(judge(both, memory, tried, seen, step).log_likelihood);
            if (all.back() <= most) continue;
            most = all.back();
            found.guess = both;
            found.first_share = share_of(a.guesses[i], b.guesses[j], plain);
        }
    double sum = 0;
    for (const double log_likelihood : all) sum += std::exp(log_likelihood - most);
    found.log_weight = most + std::log(sum / real(all.size()));
    return found;
}

// What was timed is a part of the step: whatever else is too long would be excused by that part.
bool shortens(const TriedCause& t, const CauseGuess& plain) {
    return std::ranges::all_of(
        t.guesses, [&](const CauseGuess& g) { return g.times.step < plain.times.step; });
}

}  // namespace

CauseGuess combined(const CauseGuess& a, const CauseGuess& b, const CauseGuess& plain) {
    const bool multiplies = a.kernels != 1 || b.kernels != 1;
    const auto both = [&](double x, double y, double p) {
        return multiplies && p > 0 ? x * y / p : std::max(x + y - p, 0.0);
    };
    CauseGuess g = a;
    for (Seconds StepTimes::*part : parts_of_step)
        g.times.*part =
            Seconds(both((a.times.*part).si(), (b.times.*part).si(), (plain.times.*part).si()));
    for (double KernelShares::*kind : kernel_kinds)
        g.kinds.*kind =
            plain.kinds.*kind > 0 ? a.kinds.*kind * b.kinds.*kind / plain.kinds.*kind : 0;
    if (const double sum = g.kinds.total(); sum > 0)
        for (double KernelShares::*kind : kernel_kinds) g.kinds.*kind /= sum;
    for (double CauseGuess::*factor :
         {&CauseGuess::link_between, &CauseGuess::link_inside, &CauseGuess::slowest_rank,
          &CauseGuess::kernels, &CauseGuess::clock, &CauseGuess::device_share})
        g.*factor = a.*factor * b.*factor;
    for (const std::size_t i : indices_of(plain.others))
        g.others[i] = Seconds(both(a.others[i].si(), b.others[i].si(), plain.others[i].si()));
    g.busy = plain.busy > 0 ? std::min(1.0, a.busy * b.busy / plain.busy) : 1;
    if (a.ranks == SlowRanks::all) g.ranks = b.ranks;
    const Seconds least = std::max(a.idle_least * a.times.step, b.idle_least * b.times.step),
                  most = a.idle_most * a.times.step + b.idle_most * b.times.step -
                         plain.idle_most * plain.times.step;
    g.idle_least = std::min(1.0, least / g.times.step);
    g.idle_most = std::clamp(most / g.times.step, g.idle_least, 1.0);
    return g;
}

std::vector<TwoCauses> two_causes(const TriedCauses& tried, const std::vector<double>& weights,
                                  const Observed& seen, Seconds step) {
    std::vector<TwoCauses> found;
    const auto can_meet = [&](std::size_t i) {
        return weights[i] > 0 && !shortens(tried.all[i], tried.all.front().guesses.front());
    };
    for (std::size_t i = 1; i < tried.all.size(); ++i)
        for (std::size_t j = i + 1; j < tried.all.size(); ++j) {
            if (!can_meet(i) || !can_meet(j)) continue;
            found.push_back(judged(tried, i, j, seen, step));
            // met independently of each other
            found.back().log_weight += std::log(weights[i] * weights[j] / weights.front());
        }
    return found;
}

}  // namespace stepcast
