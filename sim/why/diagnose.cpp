#include "sim/why/diagnose.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "model/base/errors.h"
#include "model/records/measurements.h"
#include "model/step.h"
#include "sim/costs/costs.h"
#include "sim/memory/memory.h"
#include "sim/on_threads.h"
#include "sim/predict.h"
#include "sim/scatter.h"

namespace stepcast {
namespace {

constexpr std::size_t fewest_steps = 5;
// Widths of logarithms. A phase, and the kernels' sum, beside the step: how differently they are
// off; of a rank's time beside the others'; of a link beside its forecast; of a clock beside the
// usual one; of the time that a run had its devices; of a kind's share of the kernels, and of the
// kernels in the step of a profile, which itself slows the host down; of memory.
constexpr double phase_width = 0.15, kernel_width = 0.1, rank_width = 0.03, link_width = 0.15,
                 clock_width = 0.12, share_width = 0.06, kind_width = 0.25, profile_width = 0.2,
                 memory_width = 0.17;
// Slow steps: this much above the quiet one, and this many times the spread of quiet steps.
constexpr double slow_by = 0.05, slow_spreads = 5;
// What steps lose without a cause, and the range in which a cause loses: shares of the quiet step.
constexpr double lost_anyway = 0.01, lost_least = 0.02, lost_most = 20;
// A run without a fault is twice as frequent as causes of weight 1: who is told of a fault that is
// not there looks for it in vain.
constexpr double weight_of_nothing = 2;
// Ranks that have their devices for a share of the time wait for each other beside: a step takes
// longer than that share says, by up to its square. In between:
constexpr double share_of_slowness = 2.0 / 3;
constexpr double outliers = 0.05, outlier_width = 3;
// A phase below this share of the step is not looked at.
constexpr double least_phase = 0.03;

double log_normal(double x, double width) {
    return -0.5 * x * x / (width * width) - std::log(width);
}
double log_sum(double a, double b) {
    return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}
// Of what may also be off, by anything, for a reason that nobody thought of: phases of a log, which
// may be timed otherwise, in one of fifty; what is read at a device or a link in one of a thousand.
constexpr double strange_phase = 0.02, strange_reading = 0.001;
// A kind of kernels below this share of all is not looked at. A configuration that cannot fit is
// one that was not run, or one whose memory the forecast does not know.
constexpr double least_kind = 0.02, strange_memory = 0.03;
double log_robust(double x, double width, double strange) {
    constexpr double anything = 1;
    if (strange == 1) return log_normal(x, anything);
    return log_sum(std::log(1 - strange) + log_normal(x, width),
                   std::log(strange) + log_normal(x, anything));
}

constexpr std::array all_times{&StepTimes::step, &StepTimes::forward, &StepTimes::backward,
                               &StepTimes::gradient_sync, &StepTimes::optimizer};

constexpr std::array all_kinds{&KernelKinds::products, &KernelKinds::attention,
                               &KernelKinds::passes};

StepTimes scaled(StepTimes times, double by) {
    for (Seconds StepTimes::*part : all_times) times.*part *= by;
    return times;
}

// The interval's two widths, as a density of log(measured / expected).
struct Error {
    double faster = 0.1, slower = 0.1;
    [[nodiscard]] double log_density(double x) const {
        const double narrow = x < 0 ? faster : slower;
        return log_sum(std::log(1 - outliers) + log_normal(x, narrow),
                       std::log(outliers) + log_normal(x, outlier_width * narrow));
    }
};

Error error_of(const Interval& step) {
    constexpr double least = 0.02;
    return {std::max(least, std::log(step.p50 / step.p10) / p90_of_normal),
            std::max(least, std::log(step.p90 / step.p50) / p90_of_normal)};
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

struct Judged {
    double log_likelihood = 0;
    std::vector<Witness> witnesses;
};

struct Suspect {
    const TriedCause* tried = nullptr;
    std::vector<Judged> guesses;
    double weight = weight_of_nothing, log_likelihood = 0;  // mean over severities
    double probability = 0;
};

double log_mean_exp(const std::vector<Judged>& guesses) {
    double most = -INFINITY, sum = 0;
    for (const Judged& g : guesses) most = std::max(most, g.log_likelihood);
    for (const Judged& g : guesses) sum += std::exp(g.log_likelihood - most);
    return most + std::log(sum / static_cast<double>(guesses.size()));
}

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
    for (std::size_t r = 0; r < times.size(); ++r)
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

// Of whose phases it matters which rank logs.
bool is_of_few(const CauseGuess& g) {
    return g.ranks == SlowRanks::one || g.ranks == SlowRanks::some;
}

// A profile's kernels: each kind's share of them, and their sum beside the step. One rank's profile
// says little where ranks differ.
void add_kinds(const KernelKinds& seen, const CauseGuess& g, const TriedCauses& tried,
               const auto& add) {
    const double strange = is_of_few(g) ? 1 : strange_phase;
    constexpr std::array names{"products", "fused attention", "passes over memory"};
    for (std::size_t i = 0; i < names.size(); ++i) {
        const auto kind = all_kinds[i];
        const double found = seen.*kind / seen.total(), said = g.kinds.*kind;
        if (std::max(found, said) < least_kind) continue;
        add(names[i],
            fmt::format("{:.0f} % of the kernels, {:.0f} % expected", 100 * found, 100 * said),
            log_robust(std::log((found + least_kind / 2) / (said + least_kind / 2)), kind_width,
                       strange));
    }
    const double all = seen.total(), said = tried.kinds.total() * g.kernels / g.times.step.si();
    add("the profile's kernels",
        fmt::format("{:.0f} % of the step, {:.0f} % expected", 100 * all, 100 * said),
        log_robust(std::log(all / said), profile_width, strange));
}

// How well one guess agrees with each thing that was measured. `step` is the quiet step.
Judged judge(const CauseGuess& g, const TriedCauses& tried, const Observed& observed,
             Seconds step) {
    const Error error = error_of(tried.forecast);
    Judged found;
    const auto add = [&](const std::string& what, const std::string& text, double log_density) {
        found.log_likelihood += log_density;
        found.witnesses.push_back({what, text, log_density});
    };
    const double off = std::log(step / g.times.step);
    add("the step", fmt::format("{} explained of {}", ms(g.times.step), ms(step)),
        error.log_density(off));
    for (const auto& [name, predicted, measured] : phases) {
        const auto& seen = observed.*measured;
        const Seconds said = g.times.*predicted;
        if (!seen || std::max(*seen, said) < least_phase * step) continue;
        const double floor = 0.01 * step.si();
        add(name, fmt::format("{} expected, {} measured", ms(said), ms(*seen)),
            log_robust(std::log((seen->si() + floor) / (said.si() + floor)) - off, phase_width,
                       is_of_few(g) ? 1 : strange_phase));
    }
    if (observed.rank_times.size() > 1) {
        const auto [slowest, others, shape] = relative(observed.rank_times, tried);
        if (shape != SlowRanks::all)
            add("slow ranks", fmt::format("{} of them", to_string(shape)),
                std::log(chance_of(shape, g.ranks)));
        add("ranks",
            fmt::format("slowest rank {:.2f} of the others, {:.2f} expected", slowest,
                        g.slowest_rank),
            log_robust(std::log(slowest / g.slowest_rank), rank_width, strange_reading));
        add("kernels",
            fmt::format("{:.2f} of what is forecast, {:.2f} expected", others, g.kernels),
            log_robust(std::log(others / g.kernels) - off, kernel_width, strange_phase));
    }
    if (observed.kinds) add_kinds(*observed.kinds, g, tried, add);
    if (!observed.clocks.empty()) {
        std::vector<double> shares;
        for (const MeasuredClock& clock : observed.clocks)
            shares.push_back(clock.share / clock.usual);
        const double share = median(shares);
        add("clocks",
            fmt::format("{:.0f} % of the usual clock, {:.0f} % expected", 100 * share,
                        100 * g.clock),
            log_robust(std::log(share / g.clock), clock_width, strange_reading));
    }
    if (observed.device_share)
        add("devices",
            fmt::format("had {:.0f} % of the time, {:.0f} % expected", 100 * *observed.device_share,
                        100 * g.device_share),
            log_robust(std::log(*observed.device_share / g.device_share), share_width,
                       strange_reading));
    for (const MeasuredLink& link : observed.links) {
        const double said = link.between_nodes ? g.link_between : g.link_inside;
        add(link.between_nodes ? "collectives between nodes" : "collectives inside a node",
            fmt::format("{:.2f} of the time expected, {:.2f} measured", said, link.slower),
            log_robust(std::log(link.slower / said), link_width, strange_reading));
    }
    return found;
}

KernelKinds shares_of(const KernelKinds& kinds) {
    const double all = std::max(kinds.total(), 1e-300);
    return {kinds.products / all, kinds.attention / all, kinds.passes / all};
}

std::optional<CauseGuess> guess_of(const Cause& cause, double severity, const Experiment& e,
                                   const QuickStep& plain, double scale) {
    const auto changed = under(cause, severity, e);
    if (!changed) return std::nullopt;
    CauseGuess g{.severity = severity,
                 .times = plain.times,
                 .ranks = cause.ranks,
                 .kinds = shares_of(plain.kinds)};
    if (!changed->same) {
        try {
            const QuickStep step = quick_step(changed->experiment);
            g.times = scaled(step.times, scale);
            g.kernels = scale * step.typical / plain.typical;
            g.kinds = shares_of(step.kinds);
            if (cause.ranks == SlowRanks::each) g.slowest_rank = step.uneven / plain.uneven;
        } catch (const ConfigError&) {
            return std::nullopt;
        }
    }
    g.times = scaled(g.times, changed->work / changed->device_share);
    g.times.forward += changed->in_forward;
    g.times.backward += changed->in_backward;
    g.times.optimizer += changed->in_optimizer;
    g.times.step = g.times.step * changed->times + changed->in_forward + changed->in_backward +
                   changed->in_optimizer;
    const Cluster &now = changed->experiment.cluster, &was = e.cluster;
    if (now.inter.bandwidth > BytesPerSecond(0))
        g.link_between = was.inter.bandwidth / now.inter.bandwidth;
    if (now.intra.bandwidth > BytesPerSecond(0))
        g.link_inside = was.intra.bandwidth / now.intra.bandwidth;
    if (is_of_few(g)) g.slowest_rank = 1 / severity;
    if (cause.clock) g.clock = severity;
    g.device_share = std::pow(changed->device_share, share_of_slowness);
    g.link_between /= changed->device_share;
    g.link_inside /= changed->device_share;
    g.kernels = is_of_few(g) ? 1 : g.kernels * changed->work / changed->device_share;
    return g;
}

// A step is simulated at few severities and its times are interpolated between them, in logarithms:
// with the interval of a good forecast, a cause would else explain only what lies near one of them.
std::vector<CauseGuess> refined(const std::vector<CauseGuess>& few) {
    constexpr int pieces = 6;
    std::vector<CauseGuess> found;
    for (std::size_t i = 0; i + 1 < few.size(); ++i)
        for (int p = 0; p < pieces; ++p)
            found.push_back(between(few[i], few[i + 1], p / static_cast<double>(pieces)));
    found.push_back(few.back());
    return found;
}

// Empty if the cause would not show.
std::optional<TriedCause> tried_cause(const Cause& cause, const Experiment& e,
                                      const QuickStep& plain, double scale) {
    constexpr double shows = 0.01;
    TriedCause t{cause, {}};
    double effect = 0;
    for (const double severity : severities_of(cause))
        if (auto guess = guess_of(cause, severity, e, plain, scale)) {
            effect = std::max(effect, std::abs(std::log(guess->times.step / plain.times.step)));
            t.guesses.push_back(std::move(*guess));
        }
    if (effect < shows) return std::nullopt;
    if (!cause.doubling) t.guesses = refined(t.guesses);
    return t;
}

Bytes part_of(const MemoryUse& use, const std::string& name) {
    return name == "optimizer" ? use.optimizer : name == "weights" ? use.weights : use.gradients;
}

// Memory under a cause: of a changed experiment its own, else what the host holds is not on the
// device.
void take_memory(TriedCause& t, const Experiment& e, const MemoryUse& stated) {
    if (stated.capacity == Bytes(0)) return;
    MemoryUse use = stated;
    if (t.cause && sets_keys(*t.cause)) try {
            use = fullest_memory(under(*t.cause, t.cause->least, e)->experiment);
        } catch (const ConfigError&) {  // no memory of such an experiment is known
            return;
        }
    t.peak = use.peak;
    t.out_of_memory = use.out_of_memory;
    if (!t.cause || t.cause->frees.empty()) return;
    const Bytes context = e.cluster.overheads.context;
    Bytes held = use.peak + use.overheads - context;
    for (const std::string& part : t.cause->frees) {
        t.peak -= part_of(use, part);
        held -= part_of(use, part);
    }
    t.out_of_memory = chance_out_of_memory(e, held, use.capacity - context);
}

// Bayes: the first suspect is that nothing is wrong.
void weigh(std::vector<Suspect>& suspects) {
    double most = -INFINITY, sum = 0;
    const auto log_weight = [](const Suspect& s) { return s.log_likelihood + std::log(s.weight); };
    for (const Suspect& s : suspects) most = std::max(most, log_weight(s));
    for (Suspect& s : suspects) sum += s.probability = std::exp(log_weight(s) - most);
    for (Suspect& s : suspects) s.probability /= sum;
}

std::size_t likeliest(const Suspect& s) {
    return static_cast<std::size_t>(
        std::ranges::max_element(s.guesses, {}, &Judged::log_likelihood) - s.guesses.begin());
}

std::string with_values(std::string text, double severity, const Cluster& c) {
    const auto put = [&](const std::string& name, const std::string& value) {
        if (const auto at = text.find(name); at != std::string::npos)
            text.replace(at, name.size(), value);
    };
    const int nics = c.network.nics > 0 ? c.network.nics : c.gpus_per_node;
    put("{rate}", fmt::format("{:.0f}", c.inter.bandwidth.si() * nics * severity / 1e9));
    put("{severity}", fmt::format("{:.0f} %", 100 * severity));
    return text;
}

// Of each witness, how much more it says for this cause than for all suspects together.
std::vector<Witness> compared(const Suspect& s, const std::vector<Suspect>& all) {
    std::vector<Witness> found = s.guesses[likeliest(s)].witnesses;
    for (Witness& w : found) {
        double most = -INFINITY, sum = 0;
        std::vector<std::pair<double, double>> others;
        for (const Suspect& other : all)
            for (const Witness& o : other.guesses[likeliest(other)].witnesses)
                if (o.what == w.what) {
                    others.emplace_back(other.weight, o.favours);
                    most = std::max(most, o.favours);
                }
        double weights = 0;
        for (const auto& [weight, log_density] : others)
            sum += weight * std::exp(log_density - most), weights += weight;
        w.favours -= most + std::log(sum / weights);
    }
    return found;
}

SuspectedCause described(const Suspect& s, const std::vector<Suspect>& all, const Cluster& cluster,
                         Seconds plain, Seconds step) {
    const CauseGuess& g = s.tried->guesses[likeliest(s)];
    const Cause& cause = *s.tried->cause;
    const double share = 1 - plain / g.times.step;
    return {.name = cause.name,
            .what = cause.what,
            .test = with_values(cause.test, g.severity, cluster),
            .remedy = cause.remedy,
            .minutes = cause.minutes,
            .probability = s.probability,
            .costs = step * share,
            .without = step * (1 - share),
            .severity = g.severity,
            .in_some_steps = false,
            .witnesses = compared(s, all)};
}

// ---- what single steps say

struct Patterned {
    double nothing = 1;  // probability that no cause interrupts
    std::vector<SuspectedCause> causes;
};

std::string pattern_text(const StepPattern& p) {
    if (p.slow_share == 0)
        return fmt::format("{} steps, none much slower than the others", p.steps);
    return fmt::format(
        "{:.0f} % of {} steps are slow, {}", 100 * p.slow_share, p.steps,
        p.regular ? fmt::format("every {:.0f}", p.every) : std::string("at no fixed distance"));
}

// What the slow steps lose is seen and need not be guessed; causes differ by how regular they are,
// and at which distances.
Patterned interruptions(const StepPattern& p, const std::vector<Cause>& causes,
                        const Cluster& cluster, Seconds step) {
    constexpr double never = 1e-6;
    const auto fits = [&](const Cause& cause) {
        return std::max(never, p.regular ? cause.regular * chance_of_distance(cause, p.every)
                                         : 1 - cause.regular);
    };
    const Cause chance;              // as irregular as most
    double of_all = 0, weights = 0;  // how well the pattern fits all causes together
    for (const Cause& cause : causes) {
        of_all += cause.weight * cause.some * fits(cause);
        weights += cause.weight * cause.some;
    }
    Patterned found;
    const double nothing = std::exp(-p.lost / lost_anyway) / lost_anyway * fits(chance);
    const double some = p.lost < lost_least ? 0 : 1 / (p.lost * std::log(lost_most / lost_least));
    const double sum = nothing + of_all * some;
    for (const Cause& cause : causes) {
        const Seconds lost = step * (p.lost / (1 + p.lost));
        found.causes.push_back({.name = cause.name,
                                .what = cause.what,
                                .test = with_values(cause.test, 1 / (1 + p.lost), cluster),
                                .remedy = cause.remedy,
                                .minutes = cause.minutes,
                                .probability = cause.weight * cause.some * some * fits(cause) / sum,
                                .costs = lost,
                                .without = step - lost,
                                .severity = 1 + p.lost,
                                .in_some_steps = true,
                                .witnesses = {{"single steps", pattern_text(p),
                                               std::log(fits(cause) * weights / of_all)}}});
    }
    found.nothing = nothing / sum;
    return found;
}

double gib(Bytes bytes) { return bytes.si() / (1 << 30); }

// The run ran, so what it does fits into its devices; or its peak is known.
Witness memory_witness(const TriedCause& t, const Observed& seen) {
    if (t.peak <= Bytes(0)) return {};
    if (seen.peak)
        return {
            "memory",
            fmt::format("{:.1f} GiB expected, {:.1f} GiB measured", gib(t.peak), gib(*seen.peak)),
            log_robust(std::log(*seen.peak / t.peak), memory_width, strange_phase)};
    return {"memory",
            fmt::format("{:.1f} GiB expected, which {}", gib(t.peak),
                        t.out_of_memory > 0.5 ? "does not fit" : "fits"),
            std::log(std::max(strange_memory, 1 - t.out_of_memory))};
}

// With single steps known, what slows down some of them is looked for there.
std::vector<Suspect> suspects_of(const TriedCauses& tried, const Observed& seen, Seconds quiet,
                                 bool apart) {
    std::vector<Suspect> suspects;
    for (const TriedCause& t : tried.all) {
        if (t.cause && needs_rate(*t.cause) && !seen.stated_rate) continue;
        Suspect s;
        s.tried = &t;
        if (t.cause) s.weight = t.cause->weight * (apart ? 1 - t.cause->some : 1);
        if (s.weight <= 0) continue;
        const Witness memory = memory_witness(t, seen);
        for (const CauseGuess& g : t.guesses) {
            s.guesses.push_back(judge(g, tried, seen, quiet));
            if (memory.what.empty()) continue;
            s.guesses.back().log_likelihood += memory.favours;
            s.guesses.back().witnesses.push_back(memory);
        }
        s.log_likelihood = log_mean_exp(s.guesses);
        suspects.push_back(std::move(s));
    }
    weigh(suspects);
    return suspects;
}

// The part of the gap that is larger comes first, and in it the likelier cause.
void order(Diagnosis& d, Seconds quiet) {
    constexpr double worth_telling = 0.01;
    std::erase_if(d.causes, [](const SuspectedCause& s) { return s.probability < worth_telling; });
    const double always = std::abs((quiet - d.forecast.p50).si()) * (1 - d.probability_of_nothing),
                 at_times = (d.measured - quiet).si() * (1 - d.probability_of_no_pattern);
    std::ranges::stable_sort(d.causes, std::ranges::greater{}, [&](const SuspectedCause& s) {
        return s.probability * (s.in_some_steps ? at_times : always);
    });
}

// Causes of the same part of the gap that are more than a third as likely as the first, with it.
std::vector<std::string> names_alike(const Diagnosis& d) {
    constexpr double alike = 1.0 / 3;
    if (d.causes.empty()) return {};
    const SuspectedCause& first = d.causes.front();
    std::vector<std::string> names{first.name};
    for (std::size_t i = 1; i < d.causes.size(); ++i)
        if (d.causes[i].in_some_steps == first.in_some_steps &&
            d.causes[i].probability > alike * first.probability)
            names.push_back(d.causes[i].name);
    if (!first.in_some_steps && d.probability_of_nothing > alike * first.probability)
        names.insert(names.begin(), std::string(nothing_at_all));
    return names;
}

Diagnosis::Verdict verdict_of(const Diagnosis& d, const Interval& forecast, Seconds quiet) {
    using enum Diagnosis::Verdict;
    constexpr double far = 2;
    const bool wrong_step = d.probability_of_nothing < 0.5,
               wrong_pattern = d.probability_of_no_pattern < 0.5;
    const double below = std::log(forecast.p50 / quiet) / error_of(forecast).faster;
    if (below > far) return too_fast;
    if (!wrong_step && !wrong_pattern) return nothing_wrong;
    return d.alike.size() == 1 ? likely : cannot_tell;
}

// Of few ranks alone: of many, the slowest is compared with their median.
std::vector<double> forecast_rank_times(const Experiment& e, double scale) {
    constexpr int most_ranks = 64;
    if (rank_count(e.cluster) > most_ranks) return {};
    const TaskGraph graph = build_step(e, routing_of(e, 0), Folding::never);
    std::vector<double> times = kernel_times(graph, price(graph, e.cluster));
    for (double& time : times) time *= scale;
    return times;
}

}  // namespace

StepPattern pattern_of(const std::vector<Seconds>& steps) {
    StepPattern p;
    if (steps.size() < fewest_steps) return p;
    std::vector<double> times;
    for (const Seconds s : steps) times.push_back(s.si());
    p.steps = static_cast<int>(times.size());
    // the fastest tenth and quarter are quiet even if half of all steps are slow
    const double quarter = quantile(times, 0.25), tenth = quantile(times, 0.1);
    const double spread = std::max(0.002 * quarter, (quarter - tenth) / 0.607);  // of a normal law
    const double bound = quarter + std::max(slow_by * quarter, slow_spreads * spread);
    std::vector<double> quiet;
    std::vector<int> slow;
    for (std::size_t i = 0; i < times.size(); ++i) {
        if (times[i] <= bound)
            quiet.push_back(times[i]);
        else
            slow.push_back(static_cast<int>(i));
    }
    p.quiet = Seconds(std::reduce(quiet.begin(), quiet.end()) / static_cast<double>(quiet.size()));
    const double mean = std::reduce(times.begin(), times.end()) / static_cast<double>(times.size());
    p.lost = std::max(0.0, mean / p.quiet.si() - 1);
    p.slow_share = static_cast<double>(slow.size()) / static_cast<double>(times.size());
    if (slow.size() < 2) return p;
    p.every =
        static_cast<double>(slow.back() - slow.front()) / static_cast<double>(slow.size() - 1);
    p.regular = slow.size() >= 3;
    for (std::size_t i = 1; i < slow.size(); ++i)
        p.regular &= std::abs(slow[i] - slow[i - 1] - p.every) <= 0.15 * p.every;
    return p;
}

CauseGuess between(const CauseGuess& a, const CauseGuess& b, double share) {
    const auto mix = [&](double x, double y) {
        return x > 0 && y > 0 ? std::exp((1 - share) * std::log(x) + share * std::log(y))
                              : (1 - share) * x + share * y;
    };
    CauseGuess g = a;
    for (Seconds StepTimes::*part : all_times)
        g.times.*part = Seconds(mix((a.times.*part).si(), (b.times.*part).si()));
    g.severity = mix(a.severity, b.severity);
    g.link_between = mix(a.link_between, b.link_between);
    g.link_inside = mix(a.link_inside, b.link_inside);
    g.slowest_rank = mix(a.slowest_rank, b.slowest_rank);
    g.clock = mix(a.clock, b.clock);
    g.device_share = mix(a.device_share, b.device_share);
    g.kernels = mix(a.kernels, b.kernels);
    for (double KernelKinds::*kind : all_kinds) g.kinds.*kind = mix(a.kinds.*kind, b.kinds.*kind);
    return g;
}

TriedCauses try_causes(const Experiment& e, const std::vector<Cause>& causes, int threads) {
    const Forecast whole = predict(AsRun{e, {.by = RunBy::recipe}});
    const Interval& forecast = whole.step;
    QuickStep plain = quick_step(e);
    const double scale = forecast.p50 / plain.times.step;  // to the median draw
    plain.times = scaled(plain.times, scale);
    plain.kernels *= scale;
    plain.typical *= scale;
    for (double KernelKinds::*kind : all_kinds) plain.kinds.*kind *= scale;
    TriedCauses found{.forecast = forecast,
                      .cluster = e.cluster,
                      .kernels = plain.kernels,
                      .kinds = plain.kinds,
                      .rank_times = forecast_rank_times(e, scale),
                      .all = {},
                      .of_some_steps = {}};
    std::vector<std::optional<TriedCause>> tried(causes.size());
    each_on_threads(threads, causes.size(), [&](std::size_t i) {
        if (is_possible(causes[i], e)) tried[i] = tried_cause(causes[i], e, plain, scale);
    });
    found.all.push_back(
        {std::nullopt, {{.severity = 1, .times = plain.times, .kinds = shares_of(plain.kinds)}}});
    for (auto& t : tried)
        if (t) found.all.push_back(std::move(*t));
    for (TriedCause& t : found.all) take_memory(t, e, whole.memory);
    for (const Cause& c : causes)
        if (c.some > 0 && is_possible(c, e)) found.of_some_steps.push_back(c);
    return found;
}

Diagnosis diagnose(const TriedCauses& tried, const Observed& seen) {
    if (seen.step <= Seconds(0))
        throw ConfigError("diagnose: the measured step is not known; expected more than 0");
    Diagnosis d;
    d.run = seen.name;
    d.forecast = tried.forecast;
    d.pattern = pattern_of(seen.steps);
    const bool apart = d.pattern.steps > 0;
    const Seconds quiet = apart ? d.pattern.quiet : seen.step;
    d.measured = apart ? quiet * (1 + d.pattern.lost) : seen.step;
    const std::vector<Suspect> suspects = suspects_of(tried, seen, quiet, apart);
    const Seconds plain = tried.all.front().guesses.front().times.step;
    d.probability_of_nothing = suspects.front().probability;
    for (const Suspect& s : suspects)
        if (s.tried->cause) d.causes.push_back(described(s, suspects, tried.cluster, plain, quiet));
    Patterned some{.nothing = 1, .causes = {}};
    if (apart) some = interruptions(d.pattern, tried.of_some_steps, tried.cluster, d.measured);
    d.probability_of_no_pattern = some.nothing;
    std::ranges::copy(some.causes, std::back_inserter(d.causes));
    order(d, quiet);
    d.alike = names_alike(d);
    d.verdict = verdict_of(d, d.forecast, quiet);
    if (!seen.steps.empty() && !apart)
        d.notes.push_back(
            fmt::format("{} single steps: their variation says nothing; expected at least {}",
                        seen.steps.size(), fewest_steps));
    return d;
}

}  // namespace stepcast
