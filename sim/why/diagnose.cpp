#include "sim/why/diagnose.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "measured/medians.h"
#include "model/base/errors.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/records/measurements.h"
#include "model/step.h"
#include "sim/costs/costs.h"
#include "sim/memory/memory_use.h"
#include "sim/memory/process_memory.h"
#include "sim/on_threads.h"
#include "sim/predict.h"
#include "sim/scatter.h"
#include "sim/why/evidence.h"
#include "sim/why/two_causes.h"

namespace stepcast {
namespace {

constexpr std::size_t fewest_steps = 5;
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
// Two causes are tried where the likeliest one alone leaves the likelihood further below what it is
// where all agrees than chance does: by half for each witness (of a normal law, in logarithms), and
// so much more.
constexpr double by_chance = 0.5, unexplained = 4;
// What an experiment states for certain costs more than its forecast more often than what it does
// not state is there: by this factor, which is judged.
constexpr double dearer_than_forecast = 3;

StepTimes scaled(StepTimes times, double by) {
    for (Seconds StepTimes::*part : parts_of_step) times.*part *= by;
    return times;
}

QuickStep scaled(QuickStep step, double by) {
    step.times = scaled(step.times, by);
    for (Seconds QuickStep::*part :
         {&QuickStep::kernels, &QuickStep::typical, &QuickStep::computing})
        step.*part *= by;
    return step;
}

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
    return most + std::log(sum / real(guesses.size()));
}

// What a cause adds to the simulated step may be one stretch without work, or many. A rank waits
// for slower ones within its collectives, and how a shared device's time is cut nobody says.
void take_idle(CauseGuess& g, const Cause& cause, const UnderCause& changed, double simulated) {
    if (changed.device_share < 1 || changed.times < 1 || is_of_few(g.ranks)) return;
    const Seconds added = changed.in_forward + changed.in_backward + changed.in_optimizer;
    const double engine = (g.times.step - added) / changed.times / g.times.step;
    g.idle_least = cause.at_once ? 1 - engine : 0;
    g.idle_most = std::min(1.0, 1 - engine + simulated * engine);
}

// Of a step, how much a device runs any kernel: what the engine does not know is no kernel, but
// what others run on the device is.
double busy_share(const UnderCause& changed, const CauseGuess& g, Seconds engine, double busy) {
    if (changed.device_share < 1 || changed.times < 1) return busy;
    return busy * engine / g.times.step;
}

std::optional<CauseGuess> guess_of(const Cause& cause, double severity, const Experiment& e,
                                   const QuickStep& plain, double scale) {
    const auto changed = under(cause, severity, e);
    if (!changed) return std::nullopt;
    CauseGuess g{
        .severity = severity, .times = plain.times, .ranks = cause.ranks, .kinds = plain.kinds};
    double idle = plain.idle, busy = plain.busy;
    if (!changed->same) {
        try {
            const QuickStep step = quick_step(changed->experiment);
            g.times = scaled(step.times, scale);
            g.kernels = scale * step.typical / plain.typical;
            g.kinds = step.kinds;
            idle = step.idle;
            busy = step.busy;
            if (cause.ranks == SlowRanks::each) g.slowest_rank = step.uneven / plain.uneven;
        } catch (const ConfigError&) {
            return std::nullopt;
        }
    }
    const Seconds simulated = g.times.step;
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
    if (is_of_few(g.ranks)) g.slowest_rank = 1 / severity;
    if (cause.clock) g.clock = severity;
    g.device_share = std::pow(changed->device_share, share_of_slowness);
    g.link_between /= changed->device_share;
    g.link_inside /= changed->device_share;
    g.kernels = is_of_few(g.ranks) ? 1 : g.kernels * changed->work / changed->device_share;
    take_idle(g, cause, *changed, idle);
    g.busy = busy_share(*changed, g, simulated * changed->work, busy);
    return g;
}

// Another run as it is forecast, with what scales its simulated times to the median.
struct OtherPlan {
    OtherRun run;
    QuickStep plain;
    double scale = 1;
};

OtherPlan plan_of(const OtherRun& run) {
    const Seconds p50 = predict(AsRun{run.experiment, {.by = RunBy::recipe}}).step.p50;
    OtherPlan plan{.run = run, .plain = quick_step(run.experiment)};
    plan.scale = p50 / plan.plain.times.step;
    plan.plain = scaled(plan.plain, plan.scale);
    return plan;
}

CauseGuess nothing_guess(const QuickStep& plain, const std::vector<OtherPlan>& others) {
    CauseGuess g{.severity = 1, .times = plain.times, .kinds = plain.kinds};
    g.idle_most = plain.idle;
    g.busy = plain.busy;
    for (const OtherPlan& other : others) g.others.push_back(other.plain.times.step);
    return g;
}

// What is wrong with few ranks need not be in a run of fewer; what it cannot have it does not have.
Seconds under_cause(const OtherPlan& plan, const Cause& cause, double severity,
                    const Experiment& e) {
    const Experiment& other = plan.run.experiment;
    const bool spared =
        plan.run.sound || !is_possible(cause, other) ||
        (is_of_few(cause.ranks) && rank_count(other.cluster) < rank_count(e.cluster));
    if (spared) return plan.plain.times.step;
    const auto guess = guess_of(cause, severity, other, plan.plain, plan.scale);
    return guess ? guess->times.step : plan.plain.times.step;
}

// A step is simulated at few severities and its times are interpolated between them, in logarithms:
// with the interval of a good forecast, a cause would else explain only what lies near one of them.
std::vector<CauseGuess> refined(const std::vector<CauseGuess>& few) {
    constexpr int pieces = 6;
    std::vector<CauseGuess> found;
    for (std::size_t i = 0; i + 1 < few.size(); ++i)
        for (int p = 0; p < pieces; ++p)
            found.push_back(between(few[i], few[i + 1], p / real(pieces)));
    found.push_back(few.back());
    return found;
}

// Empty if the cause would not show.
std::optional<TriedCause> tried_cause(const Cause& cause, const Experiment& e,
                                      const QuickStep& plain, double scale,
                                      const std::vector<OtherPlan>& others) {
    constexpr double shows = 0.01;
    TriedCause t{cause, {}};
    double effect = 0;
    for (const double severity : severities_of(cause))
        if (auto guess = guess_of(cause, severity, e, plain, scale)) {
            effect = std::max(effect, std::abs(std::log(guess->times.step / plain.times.step)));
            for (const OtherPlan& other : others)
                guess->others.push_back(under_cause(other, cause, severity, e));
            t.guesses.push_back(std::move(*guess));
        }
    if (effect < shows) return std::nullopt;
    if (!cause.doubling) t.guesses = refined(t.guesses);
    return t;
}

// Empty if the experiment states nothing of it, or nothing that costs time. `step`: as simulated.
std::optional<StatedCause> stated_cause(const Cause& cause, const Experiment& e, Seconds step) {
    constexpr double worth_telling = 0.97;
    const auto changed = without(cause, e);
    if (!changed) return std::nullopt;
    try {
        const double share = quick_step(*changed).times.step / step;
        if (share > worth_telling) return std::nullopt;
        const MemoryUse use = fullest_memory(*changed);
        return StatedCause{cause, share, use.capacity > Bytes(0) ? use.out_of_memory : 0};
    } catch (const ConfigError&) {
        return std::nullopt;  // the experiment cannot be so
    }
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
    // What fits with room to spare is seldom put elsewhere, unless by a template.
    constexpr double by_template = 0.2;
    if (!without(*t.cause, e))
        t.cause->weight *= std::clamp(use.peak / use.capacity, by_template, 1.0);
    const Bytes context = process_memory(e);
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
    return as_index(std::ranges::max_element(s.guesses, {}, &Judged::log_likelihood) -
                    s.guesses.begin());
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

// What is wrong with a count needs that count.
bool is_stated(const Cause& cause, const Observed& seen) {
    return (seen.stated_rate || !needs(cause, CauseNeeds::stated_rate)) &&
           (seen.stated_tokens || !needs(cause, CauseNeeds::stated_tokens)) &&
           (seen.stated_total || !needs(cause, CauseNeeds::stated_total));
}

// With single steps known, what slows down some of them is looked for there.
std::vector<Suspect> suspects_of(const TriedCauses& tried, const Observed& seen, Seconds quiet,
                                 bool apart) {
    std::vector<Suspect> suspects;
    for (const TriedCause& t : tried.all) {
        if (t.cause && !is_stated(*t.cause, seen)) continue;
        Suspect s;
        s.tried = &t;
        if (t.cause) s.weight = t.cause->weight * (apart ? 1 - t.cause->some : 1);
        if (s.weight <= 0) continue;
        for (const CauseGuess& g : t.guesses) s.guesses.push_back(judge(g, t, tried, seen, quiet));
        s.log_likelihood = log_mean_exp(s.guesses);
        suspects.push_back(std::move(s));
    }
    weigh(suspects);
    return suspects;
}

bool is_explained_by_one(const std::vector<Suspect>& suspects) {
    const Judged* best = nullptr;
    for (const Suspect& s : suspects)
        for (const Judged& g : s.guesses)
            if (!best || g.log_likelihood > best->log_likelihood) best = &g;
    return best->best - best->log_likelihood <
           by_chance * real(best->witnesses.size()) + unexplained;
}

// Each suspect's probability becomes that it is a cause, alone or with another. Returns the pair
// that is likelier than not; its first explains more alone.
std::optional<TwoCauses> weigh_pairs(std::vector<Suspect>& suspects, const TriedCauses& tried,
                                     const Observed& seen, Seconds quiet) {
    if (is_explained_by_one(suspects)) return std::nullopt;
    std::vector<double> weights(tried.all.size());
    std::vector<Suspect*> of(tried.all.size());
    double most = -INFINITY;
    for (Suspect& s : suspects) {
        const auto at = as_index(s.tried - tried.all.data());
        weights[at] = s.weight;
        of[at] = &s;
        most = std::max(most, s.log_likelihood + std::log(s.weight));
    }
    const std::vector<TwoCauses> pairs = two_causes(tried, weights, seen, quiet);
    for (const TwoCauses& p : pairs) most = std::max(most, p.log_weight);
    double alone = 0, together = 0;
    for (const Suspect& s : suspects)
        alone += std::exp(s.log_likelihood + std::log(s.weight) - most);
    for (const TwoCauses& p : pairs) together += std::exp(p.log_weight - most);
    for (Suspect& s : suspects) s.probability *= alone / (alone + together);
    std::optional<TwoCauses> likely;
    for (const TwoCauses& p : pairs) {
        const double probability = std::exp(p.log_weight - most) / (alone + together);
        of[p.first]->probability += probability;
        of[p.second]->probability += probability;
        if (probability > 0.5) likely = p;
    }
    const auto alone_by = [&](std::size_t i) {
        return of[i]->log_likelihood + std::log(weights[i]);
    };
    if (likely && alone_by(likely->second) > alone_by(likely->first)) {
        std::swap(likely->first, likely->second);
        likely->first_share = 1 - likely->first_share;
    }
    return likely;
}

// Each of two has its share of what they cost together.
void tell_pair(Diagnosis& d, const TwoCauses& pair, const TriedCauses& tried, Seconds plain,
               Seconds step) {
    const Seconds cost = step * (1 - plain / pair.guess.times.step);
    for (const auto& [index, share] :
         {std::pair(pair.first, pair.first_share), std::pair(pair.second, 1 - pair.first_share)})
        for (SuspectedCause& s : d.causes)
            if (s.name == tried.all[index].cause->name && !s.in_some_steps) {
                s.costs = cost * share;
                s.without = step - s.costs;
                d.together.push_back(s.name);
            }
}

// The part of the gap that is larger comes first, and in it the likelier cause; of two that are
// named together, the one that explains more alone: the other may well be its consequence.
void order(Diagnosis& d, Seconds quiet) {
    constexpr double worth_telling = 0.01;
    std::erase_if(d.causes, [](const SuspectedCause& s) { return s.probability < worth_telling; });
    const double always = std::abs((quiet - d.forecast.p50).si()) * (1 - d.probability_of_nothing),
                 at_times = (d.measured - quiet).si() * (1 - d.probability_of_no_pattern);
    std::ranges::stable_sort(d.causes, std::ranges::greater{}, [&](const SuspectedCause& s) {
        return s.probability * (s.in_some_steps ? at_times : always);
    });
    if (d.together.size() < 2) return;
    const auto place_of = [&](const std::string& name) {
        return std::ranges::find_if(
            d.causes, [&](const SuspectedCause& s) { return s.name == name && !s.in_some_steps; });
    };
    const auto first = place_of(d.together[0]), second = place_of(d.together[1]);
    if (second < first) std::rotate(second, first, std::next(first));
}

// Causes of the same part of the gap that are more than a third as likely as the first, with it.
std::vector<std::string> names_alike(const Diagnosis& d) {
    constexpr double alike = 1.0 / 3;
    if (d.causes.empty() || !d.together.empty()) return d.together;
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

// What the configuration itself states costs its part of the forecast, whatever else is wrong: of a
// run in which nothing else is, this is the answer.
void tell_stated(Diagnosis& d, const TriedCauses& tried, Seconds plain) {
    std::vector<SuspectedCause> stated;
    for (const StatedCause& s : tried.stated) {
        const Cause& cause = s.cause;
        const Seconds without = plain * s.without;
        stated.push_back({.name = cause.name,
                          .what = cause.what,
                          .test = {},
                          .remedy = cause.remedy,
                          .minutes = 0,
                          .probability = 1,
                          .costs = plain - without,
                          .without = without,
                          .severity = 1,
                          .in_some_steps = false,
                          .stated = true,
                          .witnesses = {}});
        if (s.out_of_memory > 0.5) stated.back().remedy += "; without it this run would not fit";
    }
    std::ranges::stable_sort(stated, std::ranges::greater{}, &SuspectedCause::costs);
    const bool alone = d.verdict == Diagnosis::Verdict::nothing_wrong;
    d.causes.insert(alone ? d.causes.begin() : d.causes.end(), stated.begin(), stated.end());
}

Diagnosis::Verdict verdict_of(const Diagnosis& d, const Interval& forecast, Seconds quiet) {
    using enum Diagnosis::Verdict;
    constexpr double far = 2;
    const bool wrong_step = d.probability_of_nothing < 0.5,
               wrong_pattern = d.probability_of_no_pattern < 0.5;
    const double below = std::log(forecast.p50 / quiet) / error_of(forecast).faster;
    if (below > far) return too_fast;
    if (!wrong_step && !wrong_pattern) return nothing_wrong;
    return d.alike.size() == 1 || !d.together.empty() ? likely : cannot_tell;
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
    p.steps = as_int(times.size());
    // the fastest tenth and quarter are quiet even if half of all steps are slow
    const double quarter = quantile(times, 0.25), tenth = quantile(times, 0.1);
    const double spread = std::max(0.002 * quarter, (quarter - tenth) / 0.607);  // of a normal law
    const double bound = quarter + std::max(slow_by * quarter, slow_spreads * spread);
    std::vector<double> quiet;
    std::vector<int> slow;
    for (const std::size_t i : indices_of(times)) {
        if (times[i] <= bound)
            quiet.push_back(times[i]);
        else
            slow.push_back(as_int(i));
    }
    p.quiet = Seconds(std::reduce(quiet.begin(), quiet.end()) / real(quiet.size()));
    const double mean = std::reduce(times.begin(), times.end()) / real(times.size());
    p.lost = std::max(0.0, mean / p.quiet.si() - 1);
    p.slow_share = real(slow.size()) / real(times.size());
    if (slow.size() < 2) return p;
    p.every = real(slow.back() - slow.front()) / real(slow.size() - 1);
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
    for (Seconds StepTimes::*part : parts_of_step)
        g.times.*part = Seconds(mix((a.times.*part).si(), (b.times.*part).si()));
    for (const std::size_t i : indices_of(a.others))
        g.others[i] = Seconds(mix(a.others[i].si(), b.others[i].si()));
    g.busy = (1 - share) * a.busy + share * b.busy;
    g.severity = mix(a.severity, b.severity);
    g.link_between = mix(a.link_between, b.link_between);
    g.link_inside = mix(a.link_inside, b.link_inside);
    g.slowest_rank = mix(a.slowest_rank, b.slowest_rank);
    g.clock = mix(a.clock, b.clock);
    g.device_share = mix(a.device_share, b.device_share);
    g.kernels = mix(a.kernels, b.kernels);
    g.idle_least = (1 - share) * a.idle_least + share * b.idle_least;
    g.idle_most = (1 - share) * a.idle_most + share * b.idle_most;
    for (double KernelShares::*kind : kernel_kinds)
        g.kinds.*kind = mix(a.kinds.*kind, b.kinds.*kind);
    return g;
}

TriedCauses try_causes(const Experiment& e, const std::vector<Cause>& listed, int threads,
                       const std::vector<OtherRun>& others) {
    std::vector<Cause> causes;
    for (const Cause& c : listed) causes.push_back(among(c, rank_count(e.cluster)));
    const Forecast whole = predict(AsRun{e, {.by = RunBy::recipe}});
    const Interval& forecast = whole.step;
    QuickStep plain = quick_step(e);
    const double scale = forecast.p50 / plain.times.step;  // to the median draw
    plain = scaled(plain, scale);
    TriedCauses found{.forecast = forecast,
                      .cluster = e.cluster,
                      .kernels = plain.kernels,
                      .computing = plain.computing,
                      .rank_times = forecast_rank_times(e, scale),
                      .all = {},
                      .of_some_steps = {},
                      .stated = {},
                      .others = others};
    std::vector<OtherPlan> plans;
    for (const OtherRun& other : others) plans.push_back(plan_of(other));
    std::vector<std::optional<StatedCause>> stated(causes.size());
    std::vector<std::optional<TriedCause>> tried(causes.size());
    each_on_threads(threads, causes.size(), [&](std::size_t i) {
        stated[i] = stated_cause(causes[i], e, plain.times.step / scale);
        if (stated[i]) causes[i].weight *= dearer_than_forecast;
        if (is_possible(causes[i], e)) tried[i] = tried_cause(causes[i], e, plain, scale, plans);
    });
    found.all.push_back({std::nullopt, {nothing_guess(plain, plans)}});
    for (auto& s : stated)
        if (s) found.stated.push_back(std::move(*s));
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
    std::vector<Suspect> suspects = suspects_of(tried, seen, quiet, apart);
    const auto pair = weigh_pairs(suspects, tried, seen, quiet);
    const Seconds plain = tried.all.front().guesses.front().times.step;
    d.probability_of_nothing = suspects.front().probability;
    for (const Suspect& s : suspects)
        if (s.tried->cause) d.causes.push_back(described(s, suspects, tried.cluster, plain, quiet));
    if (pair) tell_pair(d, *pair, tried, plain, quiet);
    Patterned some{.nothing = 1, .causes = {}};
    if (apart) some = interruptions(d.pattern, tried.of_some_steps, tried.cluster, d.measured);
    d.probability_of_no_pattern = some.nothing;
    append(d.causes, some.causes);
    order(d, quiet);
    d.alike = names_alike(d);
    d.verdict = verdict_of(d, d.forecast, quiet);
    tell_stated(d, tried, plain);
    if (!seen.steps.empty() && !apart)
        add_line(d.notes, "{} single steps: their variation says nothing; expected at least {}",
                 seen.steps.size(), fewest_steps);
    return d;
}

}  // namespace stepcast
