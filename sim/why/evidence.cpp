#include "sim/why/evidence.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "measured/medians.h"
#include "model/base/lists.h"
#include "model/records/measurements.h"
#include "sim/scatter.h"

namespace stepcast {
namespace {

// Widths of logarithms. A phase, and the kernels' sum, beside the step: how differently they are
// off; of a rank's time beside the others'; of a link beside its forecast; of a clock beside the
// usual one; of the time that a run had its devices; of a kind's share of the kernels, and of the
// kernels in the step of a profile, which itself slows the host down; of memory; of a stretch
// without work; of a link whose ranks wait for slices of their devices' time.
constexpr double phase_width = 0.15, kernel_width = 0.1, rank_width = 0.03, link_width = 0.15,
                 clock_width = 0.12, share_width = 0.06, kind_width = 0.25, profile_width = 0.2,
                 memory_width = 0.17, idle_width = 0.25, slices_width = 0.7, busy_width = 0.15,
                 other_width = 0.13, same_width = 0.08;
constexpr double outliers = 0.05, outlier_width = 3;
// A phase below this share of the step is not looked at; a stretch without work that is shorter
// than this share says little.
constexpr double least_phase = 0.03, least_idle = 0.05;

double log_normal(double x, double width) {
    return -0.5 * x * x / (width * width) - std::log(width);
}
double log_sum(double a, double b) {
    return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}
// Of what may also be off, by anything, for a reason that nobody thought of: phases of a log, which
// may be timed otherwise, in one of fifty; what is read at a device or a link in one of a thousand.
constexpr double strange_phase = 0.02, strange_reading = 0.001;
// Two runs of one page: half of such pairs differ in their errors by less than 0.09, a fifth by
// more than 0.3 (notes/diagnose.md).
constexpr double strange_run = 0.2;
// A kind of kernels below this share of all is not looked at. A configuration that cannot fit is
// one that was not run, or one whose memory the forecast does not know.
constexpr double least_kind = 0.02, strange_memory = 0.03;
double log_robust(double x, double width, double strange) {
    constexpr double anything = 1;
    if (strange == 1) return log_normal(x, anything);
    return log_sum(std::log(1 - strange) + log_normal(x, width),
                   std::log(strange) + log_normal(x, anything));
}

struct Phases {
    const char* name;
    Seconds StepTimes::*predicted;
    std::optional<Seconds> Observed::*measured;
};
constexpr std::array phases{
    Phases{"forward", &StepTimes::forward, &Observed::forward},
    Phases{"backward", &StepTimes::backward, &Observed::backward},
    Phases{"gradient sync", &StepTimes::gradient_sync, &Observed::gradient_sync},
    Phases{"optimizer", &StepTimes::optimizer, &Observed::optimizer}};

std::string ms(Seconds t) {
    return t >= Seconds(10) ? fmt::format("{:.2f} s", t.si())
                            : fmt::format("{:.0f} ms", 1e3 * t.si());
}

// What ranks compute, relative to what they should: the slowest over the median of the others (of
// two groups: of the fast ones), that median, and which ranks are slow.
struct RankTimes {
    double slowest = 1, others = 1;
    SlowRanks shape = SlowRanks::all;
};
RankTimes relative(std::vector<double> times, const TriedCauses& tried) {
    const bool known = tried.rank_times.size() == times.size();
    for (const std::size_t r : indices_of(times))
        times[r] /= known ? tried.rank_times[r] : tried.kernels.si();
    std::ranges::sort(times);
    const double slowest = times.back(), range = std::log(slowest / times.front());
    // ranks are of two groups where one gap between neighbours is wider than half of the range
    std::size_t fast = times.size() - 1;
    const auto gap = [&](std::size_t i) { return std::log(times[i] / times[i - 1]); };
    for (std::size_t i = 1; i < times.size(); ++i)
        if (gap(i) > gap(fast)) fast = i;
    RankTimes found;
    if (times.size() > 2 && range > 3 * rank_width)
        found.shape = gap(fast) < range / 2      ? SlowRanks::each
                      : fast + 1 == times.size() ? SlowRanks::one
                                                 : SlowRanks::some;
    times.resize(found.shape == SlowRanks::some ? fast : times.size() - 1);
    found.others = median(std::move(times));
    found.slowest = slowest / found.others;
    return found;
}
// How often ranks that are slow for a reason of this kind look so.
double chance_of(SlowRanks shape, SlowRanks of_cause) {
    constexpr double as_it_is = 0.9, else_so = 0.05;
    if (of_cause == SlowRanks::all) return 1.0 / 3;
    if (of_cause == SlowRanks::each) return 1.0 / 3;  // a single hot rank, several, a slope
    return shape == of_cause ? as_it_is : else_so;
}

// The judgement as its evidence is added, one kind after the other.
struct Scale {
    const CauseGuess& guess;
    const TriedCauses& tried;
    const Observed& observed;
    Seconds step;
    Judged found = {};

    void add(const std::string& what, const std::string& text, double log_density, double best) {
        found.log_likelihood += log_density;
        found.best += best;
        found.witnesses.push_back({what, text, log_density});
    }
    void add_robust(const std::string& what, const std::string& text, double off, double width,
                    double strange) {
        add(what, text, log_robust(off, width, strange), log_robust(0, width, strange));
    }
    // how far the step is off
    [[nodiscard]] double off() const { return std::log(step / guess.times.step); }
    // A phase of one rank says little where ranks differ.
    [[nodiscard]] double strange() const { return is_of_few(guess.ranks) ? 1 : strange_phase; }
};

void weigh_step(Scale& s) {
    const StepError error = error_of(s.tried);
    s.add("the step", fmt::format("{} explained of {}", ms(s.guess.times.step), ms(s.step)),
          error.log_density(s.off()), std::max(error.log_density(0), error.log_density(-1e-9)));
}

// A collective needs all its ranks at once: where each has its device for slices of the time, it
// takes longer than their share says, by as many slices as its ranks miss each other.
double collective_width(const Scale& s, double off, double width) {
    return off > 0 && s.guess.device_share < 1 ? slices_width : width;
}

void weigh_phase(Scale& s, const char* name, const std::optional<Seconds>& seen, Seconds said,
                 bool collective = false) {
    if (!seen || std::max(*seen, said) < least_phase * s.step) return;
    const double floor = 0.01 * s.step.si();
    const double off = std::log((seen->si() + floor) / (said.si() + floor)) - s.off();
    s.add_robust(name, fmt::format("{} expected, {} measured", ms(said), ms(*seen)), off,
                 collective ? collective_width(s, off, phase_width) : phase_width, s.strange());
}

void weigh_phases(Scale& s) {
    const StepTimes& times = s.guess.times;
    for (const auto& [name, predicted, measured] : phases)
        weigh_phase(s, name, s.observed.*measured, times.*predicted,
                    predicted == &StepTimes::gradient_sync);
    weigh_phase(s, "forward and backward", s.observed.passes, times.forward + times.backward);
    if (s.observed.passes)
        weigh_phase(s, "the rest of the step", std::max(Seconds(0), s.step - *s.observed.passes),
                    std::max(Seconds(0), times.step - times.forward - times.backward));
}

// What is wrong with all kernels moves the step alike and cancels; the rest is no wider than what
// is known of the step itself: a step that is longer beside kernels as long as forecast has another
// reason.
double kernels_width(const Scale& s) { return std::min(kernel_width, error_of(s.tried).slower); }

void weigh_ranks(Scale& s) {
    if (s.observed.rank_times.size() <= 1) return;
    const auto [slowest, others, shape] = relative(s.observed.rank_times, s.tried);
    if (shape != SlowRanks::all)
        s.add("slow ranks", fmt::format("{} of them", to_string(shape)),
              std::log(chance_of(shape, s.guess.ranks)), std::log(chance_of(shape, shape)));
    s.add_robust("ranks",
                 fmt::format("slowest rank {:.2f} of the others, {:.2f} expected", slowest,
                             s.guess.slowest_rank),
                 std::log(slowest / s.guess.slowest_rank), rank_width, strange_reading);
    s.add_robust(
        "kernels",
        fmt::format("{:.2f} of what is forecast, {:.2f} expected", others, s.guess.kernels),
        std::log(others / s.guess.kernels) - s.off(), kernels_width(s), strange_phase);
}

// A profile's kernels: each kind's share of them, and their sum beside the step.
void weigh_kinds(Scale& s) {
    if (!s.observed.kinds || s.tried.computing <= Seconds(0)) return;
    const KernelShares& seen = *s.observed.kinds;
    constexpr std::array names{"GEMMs", "fused attention", "memory-bound kernels"};
    for (const std::size_t i : indices_of(names)) {
        const auto kind = kernel_kinds[i];
        const double found = seen.*kind / seen.total(), said = s.guess.kinds.*kind;
        if (std::max(found, said) < least_kind) continue;
        s.add_robust(
            names[i],
            fmt::format("{:.0f} % of the kernels, {:.0f} % expected", 100 * found, 100 * said),
            std::log((found + least_kind / 2) / (said + least_kind / 2)), kind_width, s.strange());
    }
    const double all = seen.total(),
                 said = s.tried.computing * s.guess.kernels / s.guess.times.step;
    s.add_robust("the profile's kernels",
                 fmt::format("{:.0f} % of the step, {:.0f} % expected", 100 * all, 100 * said),
                 std::log(all / said), profile_width, s.strange());
}

// How long the device does nothing in one piece: waits for a batch are one, slow launches are many.
void weigh_idle(Scale& s) {
    if (!s.observed.idle) return;
    const double seen = *s.observed.idle, least = s.guess.idle_least, most = s.guess.idle_most,
                 said = std::clamp(seen, least, most);
    s.add_robust("one stretch without work",
                 fmt::format("{:.0f} % of the step, {:.0f} to {:.0f} % expected", 100 * seen,
                             100 * least, 100 * most),
                 std::log((seen + least_idle) / (said + least_idle)), idle_width, strange_phase);
}

// What nvidia-smi calls utilisation: in samples of a sixth of a second and longer, and read off by
// eye, so that it is not relative. A device that waits in an exchange is busy.
void weigh_busy(Scale& s) {
    if (!s.observed.busy) return;
    s.add_robust("utilisation",
                 fmt::format("{:.0f} % of the time, {:.0f} % expected", 100 * *s.observed.busy,
                             100 * s.guess.busy),
                 *s.observed.busy - s.guess.busy, busy_width, strange_phase);
}

// Other runs of the same people: most of what a forecast is off is common to both, and all of it
// where both are of one configuration.
void weigh_others(Scale& s) {
    const CauseGuess& plain = s.tried.all.front().guesses.front();
    for (const std::size_t i : indices_of(s.tried.others)) {
        const OtherRun& other = s.tried.others[i];
        const Seconds said = s.guess.others[i];
        const bool same = other.sound && plain.others[i] == plain.times.step;
        s.add_robust(other.name,
                     fmt::format("{} {}, {} expected; beside this one {:.2f}, {:.2f} expected",
                                 ms(other.step), other.sound ? "without it" : "with it", ms(said),
                                 other.step / s.step, said / s.guess.times.step),
                     std::log(other.step / said) - s.off(), same ? same_width : other_width,
                     same ? strange_phase : strange_run);
    }
}

void weigh_clocks(Scale& s) {
    if (s.observed.clocks.empty()) return;
    std::vector<double> shares;
    for (const MeasuredClock& clock : s.observed.clocks)
        shares.push_back(clock.share / clock.usual);
    const double share = median(shares);
    s.add_robust("clocks",
                 fmt::format("{:.0f} % of the usual clock, {:.0f} % expected", 100 * share,
                             100 * s.guess.clock),
                 std::log(share / s.guess.clock), clock_width, strange_reading);
}

void weigh_device_share(Scale& s) {
    if (!s.observed.device_share) return;
    const double share = *s.observed.device_share;
    s.add_robust("devices",
                 fmt::format("had {:.0f} % of the time, {:.0f} % expected", 100 * share,
                             100 * s.guess.device_share),
                 std::log(share / s.guess.device_share), share_width, strange_reading);
}

void weigh_links(Scale& s) {
    for (const MeasuredLink& link : s.observed.links) {
        const double said = link.between_nodes ? s.guess.link_between : s.guess.link_inside;
        const double off = std::log(link.slower / said);
        s.add_robust(link.between_nodes ? "collectives between nodes" : "collectives inside a node",
                     fmt::format("{:.2f} of the time expected, {:.2f} measured", said, link.slower),
                     off, collective_width(s, off, link_width), strange_reading);
    }
}

double gib(Bytes bytes) { return bytes.si() / (1 << 30); }

// The run ran, so what it does fits into its devices; or its peak is known.
void weigh_memory(Scale& s, const TriedCause& t) {
    if (t.peak <= Bytes(0)) return;
    if (const auto& peak = s.observed.peak)
        s.add_robust(
            "memory",
            fmt::format("{:.1f} GiB expected, {:.1f} GiB measured", gib(t.peak), gib(*peak)),
            std::log(*peak / t.peak), memory_width, strange_phase);
    else
        s.add("memory",
              fmt::format("{:.1f} GiB expected, which {}", gib(t.peak),
                          t.out_of_memory > 0.5 ? "does not fit" : "fits"),
              std::log(std::max(strange_memory, 1 - t.out_of_memory)), 0);
}

}  // namespace

double StepError::log_density(double x) const {
    const double narrow = x < 0 ? faster : slower;
    return log_sum(std::log(1 - outliers) + log_normal(x, narrow),
                   std::log(outliers) + log_normal(x, outlier_width * narrow));
}

StepError error_of(const Interval& step) {
    constexpr double least = 0.02;
    return {std::max(least, std::log(step.p50 / step.p10) / p90_of_normal),
            std::max(least, std::log(step.p90 / step.p50) / p90_of_normal)};
}

StepError error_of(const TriedCauses& tried) {
    StepError error = error_of(tried.forecast);
    const std::vector<Seconds>& forecast = tried.all.front().guesses.front().others;
    for (const std::size_t i : indices_of(tried.others)) {
        if (!tried.others[i].sound) continue;
        const double off = std::log(tried.others[i].step / forecast[i]);
        error.faster = std::max(error.faster, std::abs(off));
        error.slower = std::max(error.slower, std::abs(off));
    }
    return error;
}

bool is_of_few(SlowRanks ranks) { return ranks == SlowRanks::one || ranks == SlowRanks::some; }

Judged judge(const CauseGuess& g, const TriedCause& memory, const TriedCauses& tried,
             const Observed& observed, Seconds step) {
    Scale scale{g, tried, observed, step};
    for (const auto weigh :
         {weigh_step, weigh_phases, weigh_ranks, weigh_kinds, weigh_idle, weigh_busy, weigh_others,
          weigh_clocks, weigh_device_share, weigh_links})
        weigh(scale);
    weigh_memory(scale, memory);
    return std::move(scale.found);
}

}  // namespace stepcast
