#include "calibrate/fit_noise.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "calibrate/fit_parameter.h"
#include "measured/medians.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"

namespace stepcast {
namespace {

// from median to quartile, in standard deviations of a normal
constexpr double quartile_spread = 0.6745;
constexpr int fewest_events = 10;  // fewest events that determine the rate of a process

// Standard deviation of the logarithms, from two quantiles that lie `quartiles` times
// quartile_spread standard deviations apart.
double spread_between(double low, double high, int quartiles, const std::vector<double>& values) {
    std::vector<double> logs;
    for (const double value : values)
        if (value > 0) logs.push_back(std::log(value));
    return logs.empty()
               ? 0
               : (quantile(logs, high) - quantile(logs, low)) / (quartiles * quartile_spread);
}
// Bursts and stragglers only add time, so the spread without them is read from the lower half.
double lower_spread(const std::vector<double>& values) {
    return spread_between(0.25, 0.5, 1, values);
}
double both_spread(const std::vector<double>& values) {
    return spread_between(0.25, 0.75, 2, values);
}
// The log-normal with the mean and the variance of the values. The tail decides the mean step, so
// it is not extrapolated from the middle.
struct LogNormal {
    double median = 0, spread = 0;
};
LogNormal log_normal_of(const std::vector<double>& values) {
    if (values.empty()) return {};
    const double count = real(values.size());
    double mean = 0, squares = 0;
    for (const double value : values) mean += value / count;
    for (const double value : values) squares += (value - mean) * (value - mean) / count;
    const double growth = 1 + squares / (mean * mean);
    return {mean / std::sqrt(growth), std::sqrt(std::log(growth))};
}
double sum(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
}

// Slow kernels: steps whose forward or backward exceeds its median by more than the quiet spread
// explains.
struct Bursts {
    double slowdown = 0, every = 0, length = 0;
    int count = 0;               // events of one or more consecutive steps
    std::vector<double> excess;  // of each step, in seconds
};

std::vector<double> excesses(const std::vector<double>& values) {
    const double middle = median(values);
    std::vector<double> found;
    for (const double value : values) found.push_back(value / middle - 1);
    return found;
}

// Consecutive steps with an excess are one burst.
int count_events(const std::vector<double>& excess) {
    int events = 0;
    for (const std::size_t i : indices_of(excess))
        events += excess[i] > 0 && (i == 0 || excess[i - 1] == 0);
    return events;
}

// The slowdown is the median excess of those forwards that lie in a burst for more than a small
// part. A burst of length L that slows down the share c of the time by s costs c s L; this gives L
// from the sum of all excesses.
Bursts find_bursts(const StepSeries& series) {
    Bursts found;
    found.excess.assign(series.step.size(), 0);
    const std::vector<double> forward = excesses(series.forward),
                              backward = excesses(series.backward);
    const double quiet = std::max(0.05, 6 * lower_spread(series.forward));
    std::vector<double> inside;
    for (const double excess : forward)
        if (excess > quiet) inside.push_back(excess);
    if (inside.empty()) return found;
    const double least = std::max(quiet, 0.4 * median(inside));
    inside.clear();
    const double forward_median = median(series.forward), backward_median = median(series.backward);
    for (const std::size_t i : indices_of(forward)) {
        if (forward[i] <= least && backward[i] <= least) continue;
        if (forward[i] > least) inside.push_back(forward[i]);
        found.excess[i] = std::max(0.0, forward[i]) * forward_median +
                          std::max(0.0, backward[i]) * backward_median;
    }
    if (inside.empty()) return found;
    found.count = count_events(found.excess);
    found.slowdown = median(inside);
    found.every = sum(series.step) / found.count;
    const double share = (forward_median + backward_median) / median(series.step);
    found.length = sum(found.excess) / found.count / (found.slowdown * std::min(1.0, share));
    return found;
}

// Late ranks: the time of a step beyond the median, without bursts and without the host's own
// spread. In which phase the wait for a late rank shows differs from step to step, so it is taken
// from the step as a whole.
std::vector<double> find_lateness(const StepSeries& series, const Bursts& bursts,
                                  double host_spread) {
    std::vector<double> rest, late;
    const double optimizer = median(series.optimizer),
                 most_host = optimizer * std::exp(3 * host_spread);
    for (const std::size_t i : indices_of(series.step)) {
        const double host = std::min(series.optimizer[i], most_host);
        rest.push_back(series.step[i] - bursts.excess[i] -
                       (host > optimizer ? host - optimizer : 0.0));
    }
    const double middle = median(rest);
    const double least = middle * std::max(0.05, 6 * std::min(lower_spread(rest), 0.02));
    for (const double value : rest)
        if (value - middle > least) late.push_back(value - middle);
    return late;
}

// Adds a parameter of the noise as the cluster file states it; only a determined one changes the
// cluster.
void state(NoiseFit& fit, const std::string& key, const std::string& value, double error,
           bool determined) {
    const std::string prior = text_at(fit.cluster, key);
    if (determined) fit.cluster = with_text(fit.cluster, key, value);
    fit.parameters.push_back(
        {key, text_at(fit.cluster, key), prior, determined ? error : 0.0, determined});
}

void report_bursts(NoiseFit& fit, const Bursts& bursts, bool phases) {
    const bool seen = phases && bursts.count >= fewest_events;
    const double error = seen ? 1 / std::sqrt(bursts.count) : 0;
    state(fit, "noise.burst_slowdown", fmt::format("{:.3f}", bursts.slowdown), 0.5 * error, seen);
    state(fit, "noise.burst_every", fmt::format("{:.3g} s", bursts.every), error, seen);
    state(fit, "noise.burst_length", fmt::format("{:.3g} s", bursts.length), 1.4 * error, seen);
    if (phases)
        add_line(fit.findings, "{} bursts of slow kernels{}", bursts.count,
                 seen ? fmt::format(": kernels take {:.0f} % longer for {:.1f} s, every {:.0f} s",
                                    100 * bursts.slowdown, bursts.length, bursts.every)
                      : "; too few to tell their rate");
}

void report_stragglers(NoiseFit& fit, const std::vector<double>& late, const StepSeries& series,
                       bool phases) {
    const bool seen = phases && late.size() >= as_index(fewest_events);
    const double count = real(late.size()), steps = real(series.step.size());
    const double rate =
        1 - std::pow(1 - std::min(0.999, count / steps), 1.0 / std::max(1, series.ranks));
    const double error = seen ? 1 / std::sqrt(count) : 0;
    const auto [delay, spread] = log_normal_of(late);
    state(fit, "noise.straggler_rate", fmt::format("{:.4g}", rate), error, seen);
    state(fit, "noise.straggler_delay", fmt::format("{:.4g} ms", 1e3 * delay),
          1.25 * spread * error, seen);
    // of a normal variable's median
    const double middle_error = seen ? 1.25 * lower_spread(series.step) / std::sqrt(steps) : 0;
    state(fit, "noise.straggler_step", fmt::format("{:.4g} ms", 1e3 * median(series.step)),
          middle_error, seen);
    state(fit, "noise.straggler_spread", fmt::format("{:.3f}", spread), 0.8 * error, seen);
    if (phases)
        add_line(fit.findings, "{} of {} steps wait for a late rank{}", late.size(),
                 series.step.size(),
                 seen ? fmt::format(", by {:.0f} ms in the median", 1e3 * delay)
                      : "; too few to tell their rate");
}

}  // namespace

StepSeries longest_series(const std::vector<Sample>& samples) {
    struct Steps {
        int ranks = 0;
        std::map<int, std::map<std::string, double>> steps;  // values by phase
    };
    std::map<std::string, Steps> runs;
    for (const Sample& s : samples) {
        if (s.step < 0 || s.rank != -1 || s.unit != "s") continue;
        runs[s.run_id].ranks = s.ranks;
        runs[s.run_id].steps[s.step][s.phase] = s.value;
    }
    StepSeries longest;
    for (const auto& [id, run] : runs) {
        StepSeries series{id, run.ranks, {}, {}, {}, {}};
        const std::map<std::string, std::vector<double>*> parts{{"forward", &series.forward},
                                                                {"backward", &series.backward},
                                                                {"optimizer", &series.optimizer}};
        const bool phases = std::ranges::all_of(parts, [&](const auto& part) {
            return std::ranges::any_of(
                run.steps, [&](const auto& step) { return step.second.contains(part.first); });
        });
        const int from = first_steady_step(run.steps.rbegin()->first + 1);
        for (const auto& [step, values] : run.steps) {
            const auto told = [&values = values](const auto& part) {
                return values.contains(part.first);
            };
            if (step < from || !values.contains("step") ||
                (phases && !std::ranges::all_of(parts, told)))
                continue;
            series.step.push_back(values.at("step"));
            if (!phases) continue;
            for (const auto& [phase, into] : parts) into->push_back(values.at(phase));
        }
        if (series.step.size() > longest.step.size()) longest = std::move(series);
    }
    return longest;
}

NoiseFit fit_noise(const Cluster& start, const StepSeries& series) {
    if (series.step.size() < fewest_noise_steps)
        refuse(
            "noise: {} steady steps of phase step in the longest recorded run; "
            "expected at least {} "
            "samples, not medians",
            series.step.size(), fewest_noise_steps);
    NoiseFit fit{start, {}, {}};
    const auto count = real(series.step.size());
    const bool phases = !series.forward.empty();
    const double quiet = lower_spread(phases ? series.forward : series.step);
    // The key also holds how far forecasts on the start cluster are off. One run's own spread says
    // nothing of that and may only raise it.
    const bool wider = quiet >= start.noise.step;
    state(fit, "noise.step", fmt::format("{:.4f}", quiet), 1 / std::sqrt(count), wider);
    if (!wider)
        add_line(fit.findings,
                 "steps of this run spread by {:.2f} %; {:.2f} %, how far forecasts on {} lie from "
                 "steps, is kept",
                 100 * quiet, 100 * start.noise.step,
                 start.name.empty() ? "the start" : start.name);
    const double host = phases ? both_spread(series.optimizer) : 0;
    // without host load the optimizer would spread like the forward
    const bool host_bound = phases && host > 3 * quiet;
    state(fit, "noise.host", fmt::format("{:.3f}", host), 1 / std::sqrt(count), host_bound);
    const Bursts bursts = phases ? find_bursts(series) : Bursts{};
    report_bursts(fit, bursts, phases);
    const std::vector<double> late =
        phases ? find_lateness(series, bursts, host) : std::vector<double>{};
    report_stragglers(fit, late, series, phases);
    if (!phases)
        fit.findings.push_back(
            "only whole steps were recorded: bursts, stragglers and host load cannot be told "
            "apart");
    else if (!host_bound)
        fit.findings.push_back(
            "the optimizer spreads like the kernels: the host's load is not determined");
    if (!fit.cluster.fitted) fit.cluster.fitted.emplace();
    Fitted& known = *fit.cluster.fitted;
    known.samples += as_int(series.step.size());
    for (const FittedParameter& p : fit.parameters) {
        std::erase_if(known.parameters,
                      [&](const FittedParameter& other) { return other.key == p.key; });
        known.parameters.push_back(p);
    }
    return fit;
}

std::string describe(const NoiseFit& fit) {
    std::string text =
        fmt::format("{:<26} {:>12} {:>12} {:>8}\n", "noise", "value", "prior", "error");
    for (const FittedParameter& p : fit.parameters)
        text += fmt::format("{:<26} {:>12} {:>12} {:>8}\n", p.key, p.value, p.prior,
                            p.determined ? fmt::format("{:.0f} %", 100 * p.relative_error)
                                         : "not determined, prior kept");
    for (const std::string& line : fit.findings) text += line + "\n";
    return text;
}

}  // namespace stepcast
