#include "sim/why/gate.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <random>

#include <fmt/format.h>

#include "measured/medians.h"
#include "model/base/errors.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"
#include "model/records/measurements.h"
#include "sim/scatter.h"

namespace stepcast {
namespace {

// No run repeats to better than this: clocks, placement, the weather of a network.
constexpr double least_scatter = 0.002;

std::vector<double> logarithms(const std::vector<Seconds>& steps) {
    std::vector<double> logs;
    for (const Seconds s : steps) logs.push_back(std::log(s.si()));
    return logs;
}

double deviation(const std::vector<double>& values) {
    const double n = real(values.size());
    const double mean = std::reduce(values.begin(), values.end()) / n;
    double squares = 0;
    for (const double v : values) squares += (v - mean) * (v - mean);
    return std::sqrt(squares / (n - 1));
}

// P(T > x) for x >= 0, by Simpson's rule in the angle atan(x / sqrt(freedom)), where the density is
// a power of a cosine.
double student_above(double x, double freedom) {
    constexpr int pieces = 400;
    const double angle = std::atan(x / std::sqrt(freedom)), step = angle / pieces;
    double sum = 0;
    for (int i = 0; i <= pieces; ++i) {
        const double weight = i == 0 || i == pieces ? 1 : i % 2 == 1 ? 4 : 2;
        sum += weight * std::pow(std::cos(step * i), freedom - 1);
    }
    const double scale = std::exp(std::lgamma((freedom + 1) / 2) - std::lgamma(freedom / 2)) /
                         std::sqrt(std::numbers::pi);
    return 0.5 - scale * sum * step / 3;
}

// How levels scatter, with the degrees of freedom that this is known by.
struct LevelScatter {
    double between = 0;  // variance of the difference of levels that more steps do not lessen
    double within = 0;   // variance that is inverse to the steps of the run
    double freedom = 1;
};

LevelScatter scatter_between(const GateRun& run, const std::vector<GateRun>& history,
                             const std::vector<double>& levels) {
    const auto square = [](double x) { return x * x; };
    const double own = square(level_error(run.steps));
    double theirs = 0;
    for (const GateRun& h : history) theirs += square(level_error(h.steps));
    const double runs = real(history.size());
    theirs /= runs;
    const double least = square(least_scatter);
    if (history.size() == 1)
        return {theirs + least, own,
                std::max(2.0, real(std::min(run.steps.size(), history.front().steps.size())) / 2)};
    // the levels' scatter holds that of their own steps
    const double seen = square(deviation(levels));
    const double between = std::max(seen - theirs, least);
    return {between * (1 + 1 / runs) + theirs / runs + std::max(0.0, std::min(seen, theirs) - own),
            own, runs - 1};
}

// Of a phase the history's median, where it times it.
std::vector<MovedPhase> moved_phases(const GateRun& run, const std::vector<GateRun>& history) {
    std::vector<MovedPhase> moved;
    for (const auto& [name, now] : run.phases) {
        std::vector<double> before;
        for (const GateRun& h : history)
            for (const auto& [other, time] : h.phases)
                if (other == name) before.push_back(time.si());
        if (!before.empty()) moved.push_back({name, now, Seconds(median(std::move(before)))});
    }
    std::ranges::stable_sort(moved, std::ranges::greater{},
                             [](const MovedPhase& m) { return std::abs((m.now - m.usual).si()); });
    return moved;
}

void explain(GateAnswer& a, bool enough) {
    using enum GateAnswer::Verdict;
    const auto percent = [](double x) { return fmt::format("{:.1f} %", 100 * x); };
    if (a.verdict == fail)
        a.because = fmt::format("{} slower than its history, which allows {}", percent(a.slower),
                                percent(a.bound));
    else if (!enough)
        a.because = fmt::format("{} steps; expected at least {}", a.steps, fewest_gate_steps);
    else if (a.verdict == cannot_tell)
        a.because = fmt::format(
            "no slower than chance allows, but only a run slower by {} would "
            "surely be seen",
            percent(a.seen));
    else
        a.because = fmt::format(
            "{} its history, which allows {}",
            a.slower > 0 ? percent(a.slower) + " slower than" : percent(-a.slower) + " faster than",
            percent(a.bound));
    if (a.runs == 1) a.because += "; one run of history says nothing about how runs differ";
}

}  // namespace

double student_quantile(double above, double freedom) {
    double low = 0, high = 1;
    while (student_above(high, freedom) > above && high < 1e9) high *= 2;
    for (int i = 0; i < 60; ++i) {
        const double middle = (low + high) / 2;
        (student_above(middle, freedom) > above ? low : high) = middle;
    }
    return (low + high) / 2;
}

double level_error(const std::vector<Seconds>& steps) {
    constexpr int draws = 200;
    const std::vector<double> logs = logarithms(steps);
    const std::size_t n = logs.size();
    if (n < 2) return 1;
    const auto block =
        std::clamp<std::size_t>(as_index(std::lround(std::cbrt(real(n)) * 1.5)), 1, n);
    std::mt19937_64 random(n);  // the same answer for the same run
    std::vector<double> medians, drawn(n);
    for (int d = 0; d < draws; ++d) {
        for (std::size_t i = 0; i < n; i += block) {
            const std::size_t from = random() % (n - block + 1);
            for (std::size_t j = 0; j < block && i + j < n; ++j) drawn[i + j] = logs[from + j];
        }
        medians.push_back(median(drawn));
    }
    return deviation(medians);
}

GateAnswer judge_run(const GateRun& run, const std::vector<GateRun>& history, double false_alarms,
                     double tolerance) {
    if (history.empty())
        throw ConfigError("--gate: no run of history; expected --history DIR with at least one");
    if (!(false_alarms > 0 && false_alarms < 0.5))
        refuse("--false-alarms: found {}; expected a share between 0 and 0.5", false_alarms);
    GateAnswer a{.run = run.name,
                 .steps = as_int(run.steps.size()),
                 .runs = as_int(history.size()),
                 .false_alarms = false_alarms,
                 .tolerance = tolerance};
    std::vector<double> levels;
    for (const GateRun& h : history) levels.push_back(median(logarithms(h.steps)));
    const double usual = std::reduce(levels.begin(), levels.end()) / a.runs;
    a.usual = Seconds(std::exp(usual));
    a.phases = moved_phases(run, history);
    const bool enough = a.steps >= fewest_gate_steps;
    if (a.steps == 0) {
        explain(a, enough);
        return a;
    }
    const double level = median(logarithms(run.steps));
    a.level = Seconds(std::exp(level));
    a.slower = std::expm1(level - usual);
    const LevelScatter s = scatter_between(run, history, levels);
    const double quantile = student_quantile(false_alarms, s.freedom);
    const double width = std::sqrt(s.between + s.within);
    a.bound = std::expm1(quantile * width);
    a.seen = std::expm1((quantile + p90_of_normal) * width);
    const double allowed = std::log1p(tolerance) / (quantile + p90_of_normal);
    if (allowed * allowed > s.between)
        a.steps_for_tolerance = std::max(
            fewest_gate_steps,
            static_cast<int>(std::ceil(a.steps * s.within / (allowed * allowed - s.between))));
    using enum GateAnswer::Verdict;
    a.verdict = !enough               ? cannot_tell
                : a.slower > a.bound  ? fail
                : a.seen <= tolerance ? pass
                                      : cannot_tell;
    explain(a, enough);
    return a;
}

}  // namespace stepcast
