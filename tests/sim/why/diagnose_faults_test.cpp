// Injected faults: simulated runs of known cause, with the error that forecasts have, and what
// diagnose says of them. notes/diagnose.md shows the table, which STEPCAST_CONFUSION=FILE writes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>

#include <fmt/format.h>

#include "measured/read.h"
#include "sim/scatter.h"
#include "sim/why/diagnose.h"
#include "sim/why/two_causes.h"

using namespace stepcast;

namespace {

using Random = std::mt19937_64;

double uniform(Random& r, double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(r);
}
double normal(Random& r, double width) { return std::normal_distribution<double>(0, width)(r); }

// With `sound`, a sound run of the same configuration is known, whose step each run sets.
std::vector<TriedCauses> tried_runs(bool sound = false) {
    const auto tried = [&](const std::string& name, std::vector<Override> keys) {
        keys.push_back({"cluster.preset", "dgx-h100"});
        const Experiment e = read_experiment(name, keys);
        std::vector<OtherRun> others;
        if (sound) others.push_back({"a sound run", e, Seconds(1), true});
        return try_causes(e, read_causes(), 0, others);
    };
    return {tried("llama3-8b", {{"cluster.nodes", "4"},
                                {"framework.preset", "torchtitan"},
                                {"parallelism.dp", "32"},
                                {"parallelism.zero", "3"},
                                {"parallelism.shard", "8"},
                                {"parallelism.global_batch", "64"},
                                {"workload.seq", "8192"}}),
            tried("llama3-70b", {{"cluster.nodes", "32"},
                                 {"framework.preset", "megatron-core"},
                                 {"parallelism.tp", "8"},
                                 {"parallelism.pp", "4"},
                                 {"parallelism.dp", "8"},
                                 {"parallelism.sequence_parallel", "true"},
                                 {"parallelism.global_batch", "256"},
                                 {"workload.seq", "8192"}}),
            tried("llama3-8b", {{"cluster.nodes", "2"},
                                {"parallelism.dp", "16"},
                                {"parallelism.zero", "1"},
                                {"parallelism.recompute", "full"},
                                {"parallelism.global_batch", "128"},
                                {"workload.seq", "4096"}}),
            tried("mixtral-8x7b", {{"cluster.nodes", "4"},
                                   {"framework.preset", "megatron-core"},
                                   {"parallelism.dp", "16"},
                                   {"parallelism.tp", "2"},
                                   {"parallelism.sequence_parallel", "true"},
                                   {"parallelism.ep", "8"},
                                   {"parallelism.zero", "1"},
                                   {"parallelism.global_batch", "128"},
                                   {"workload.seq", "4096"}})};
}

struct Fault {
    std::string name;  // "" = none
    bool some = false;
    double factor = 1;  // of slow steps
    CauseGuess guess;
    Bytes peak;
};

// A fault that costs at least a tenth of the step: less is within what forecasts are off.
Fault fault_of(const TriedCauses& tried, Random& r) {
    const CauseGuess& plain = tried.all.front().guesses.front();
    for (;;) {
        const auto i = std::uniform_int_distribution<std::size_t>(0, tried.all.size())(r);
        Fault f;
        f.guess = plain;
        f.peak = tried.all.front().peak;
        if (i == 0) return f;
        if (i == tried.all.size()) {
            f.name = "checkpoints";
            f.some = true;
            f.factor = uniform(r, 1.8, 3);
            return f;
        }
        const TriedCause& t = tried.all[i];
        const bool of_a_count = needs(*t.cause, CauseNeeds::stated_rate) ||
                                needs(*t.cause, CauseNeeds::stated_tokens) ||
                                needs(*t.cause, CauseNeeds::stated_total);
        if (of_a_count || t.cause->some == 1) continue;
        f.name = t.cause->name;
        f.some = uniform(r, 0, 1) < t.cause->some;
        if (f.some) {
            f.factor = uniform(r, 1.3, 3);
            return f;
        }
        const auto n = t.guesses.size();
        const auto at = n < 2 ? 0 : std::uniform_int_distribution<std::size_t>(0, n - 2)(r);
        f.guess =
            n < 2 ? t.guesses[0] : between(t.guesses[at], t.guesses[at + 1], uniform(r, 0, 1));
        f.peak = t.peak;
        // what does not fit was not run
        if (std::abs(std::log(f.guess.times.step / plain.times.step)) > 0.1 &&
            uniform(r, 0, 1) >= t.out_of_memory)
            return f;
    }
}

bool is_slow(const Fault& f, int step, int every, Random& r) {
    if (!f.some) return false;
    return f.name == "checkpoints" ? step % every == every - 1 : uniform(r, 0, 1) < 0.25;
}

// step: its mean alone; told: also what a sound run takes and nvidia-smi's utilisation, as a thread
// tells; log: single steps, phases, what ranks compute, nccl-tests; all: also one rank's profile,
// the devices' clocks and the peak of memory.
enum class Known { step, told, log, all };

// What eight ranks compute, over a rank's usual time: one is slow, the last two to seven are, or
// each differs and one is the slowest.
std::vector<double> rank_factors(const CauseGuess& g, Random& r) {
    std::vector<double> factors(8, 1.0);
    const auto slow = std::uniform_int_distribution<std::size_t>(1, 6)(r);
    for (std::size_t i = 0; i < factors.size(); ++i) {
        if (g.ranks == SlowRanks::some && i >= slow) factors[i] = g.slowest_rank;
        if (g.ranks == SlowRanks::each)
            factors[i] = std::pow(g.slowest_rank, uniform(r, -0.5, 0.5));
    }
    if (g.ranks != SlowRanks::some) factors[3] = g.slowest_rank;
    return factors;
}

// Of a run, with the error that the forecast of its step has.
void take_all(const TriedCauses& tried, const Fault& f, double error, Seconds quiet, Observed& seen,
              Random& r) {
    const CauseGuess& g = f.guess;
    if (f.peak > Bytes(0)) seen.peak = f.peak * std::exp(normal(r, 0.1));
    const double all = tried.computing * g.kernels * std::exp(error + normal(r, 0.1)) / quiet;
    const auto part = [&](double share) { return all * share * std::exp(normal(r, 0.15)); };
    seen.kinds = {part(g.kinds.products), part(g.kinds.attention), part(g.kinds.passes)};
    const double most = g.idle_most < 1 ? g.idle_most : tried.all.front().guesses.front().idle_most;
    seen.idle = g.idle_least + uniform(r, 0, 1) * std::max(0.0, most - g.idle_least);
    for (int device = 0; device < 8; ++device)
        seen.clocks.push_back({uniform(r, 0.8, 1) * g.clock, 0.9});
}

// The error of a forecast is common to all of a run, and to a sound run beside it but for 5 %;
// phases have one of their own.
Observed run_of(TriedCauses& tried, const Fault& f, Known known, Random& r) {
    const double z = normal(r, 1 / p90_of_normal);
    const Interval& i = tried.forecast;
    const double error = z < 0 ? std::log(i.p10 / i.p50) * -z : std::log(i.p90 / i.p50) * z;
    const Seconds quiet = f.guess.times.step * std::exp(error);
    Observed seen{.name = "run", .step = {}};
    const int every = std::uniform_int_distribution<int>(10, 13)(r);
    Seconds sum;
    for (int s = 0; s < 40; ++s) {
        seen.steps.push_back(quiet * std::exp(normal(r, 0.008)) *
                             (is_slow(f, s, every, r) ? f.factor : 1.0));
        sum += seen.steps.back();
    }
    seen.step = sum / 40;
    const Seconds plain = tried.all.front().guesses.front().times.step;
    if (known == Known::told) tried.others[0].step = plain * std::exp(error + normal(r, 0.05));
    if (known == Known::step || known == Known::told) {
        seen.steps.clear();
        if (known == Known::told)
            seen.busy = std::clamp(f.guess.busy * (quiet / seen.step) + normal(r, 0.1), 0.0, 1.0);
        return seen;
    }
    const auto phase = [&](Seconds t) { return t * std::exp(error + normal(r, 0.1)); };
    seen.forward = phase(f.guess.times.forward);
    seen.backward = phase(f.guess.times.backward);
    seen.gradient_sync = phase(f.guess.times.gradient_sync);
    seen.optimizer = phase(f.guess.times.optimizer);
    const double kernels =
        (tried.kernels * f.guess.kernels).si() * std::exp(error + normal(r, 0.1));
    for (const double factor : rank_factors(f.guess, r))
        seen.rank_times.push_back(kernels * factor * std::exp(normal(r, 0.01)));
    seen.links = {{true, f.guess.link_between * std::exp(normal(r, 0.08))},
                  {false, f.guess.link_inside * std::exp(normal(r, 0.08))}};
    if (known == Known::all) take_all(tried, f, error, quiet, seen, r);
    return seen;
}

struct Tally {
    int runs = 0, first = 0, two = 0, nothing = 0, open = 0, right = 0;
    std::map<std::string, int> taken_for;
};

void count(Tally& t, const Fault& f, const Diagnosis& d) {
    using enum Diagnosis::Verdict;
    ++t.runs;
    const auto name = [&](std::size_t i) {
        return i < d.causes.size() ? d.causes[i].name : std::string();
    };
    const bool nothing = d.verdict == nothing_wrong;
    t.nothing += nothing;
    t.open += d.verdict == cannot_tell;
    // cannot tell, and the cause is one of those that are about as likely
    const std::string truth = f.name.empty() ? std::string(nothing_at_all) : f.name;
    const bool among = d.verdict == cannot_tell && std::ranges::count(d.alike, truth) > 0;
    const bool first = f.name.empty() ? nothing : !nothing && name(0) == f.name;
    t.first += first;
    t.right += (first && d.verdict != cannot_tell) || among;
    t.two += f.name.empty() ? nothing : !nothing && (first || name(1) == f.name);
    if (!first) ++t.taken_for[nothing ? "nothing" : name(0)];
}

std::map<std::string, Tally> tallies(std::vector<TriedCauses> runs, Known known) {
    Random random(known == Known::step || known == Known::told ? 2 : 1);
    std::map<std::string, Tally> found;
    for (int i = 0; i < 4000; ++i) {
        TriedCauses& tried = runs[static_cast<std::size_t>(i) % runs.size()];
        const Fault f = fault_of(tried, random);
        const Diagnosis d = diagnose(tried, run_of(tried, f, known, random));
        count(found[f.name.empty() ? "(no fault)" : f.name], f, d);
    }
    return found;
}

std::string table_of(const std::map<std::string, Tally>& tallies) {
    std::string text =
        "| injected | runs | first | first two | cannot tell | right or among them | most often "
        "taken for |\n"
        "|---|---:|---:|---:|---:|---:|---|\n";
    for (const auto& [name, t] : tallies) {
        const auto share = [&](int n) { return fmt::format("{:.0f} %", 100.0 * n / t.runs); };
        const auto wrong =
            std::ranges::max_element(t.taken_for, {}, [](const auto& w) { return w.second; });
        text += fmt::format(
            "| {} | {} | {} | {} | {} | {} | {} |\n", name, t.runs, share(t.first), share(t.two),
            share(t.open), share(t.right),
            wrong == t.taken_for.end() ? "" : fmt::format("{} ({})", wrong->first, wrong->second));
    }
    return text;
}

struct Shares {
    double first = 0, two = 0, right = 0, nothing = 0;
};
Shares shares_of(const std::map<std::string, Tally>& tallies) {
    double first = 0, two = 0, right = 0, runs = 0;
    for (const auto& [name, t] : tallies)
        if (name != "(no fault)") first += t.first, two += t.two, right += t.right, runs += t.runs;
    const Tally& none = tallies.at("(no fault)");
    return {first / runs, two / runs, right / runs, static_cast<double>(none.nothing) / none.runs};
}

}  // namespace

// Two faults of every step at once, each of which costs a tenth of the step and more and is not of
// a few ranks (and no micro-batch that was taken for a step: what else it has cannot be seen).
// Counted are runs in which both are the first two.
TEST_CASE("two faults at once are found where no single one explains what was measured") {
    std::vector<TriedCauses> runs = tried_runs();
    Random random(3);
    int both = 0, one = 0;
    constexpr int trials = 400;
    for (int i = 0; i < trials; ++i) {
        TriedCauses& tried = runs[static_cast<std::size_t>(i) % runs.size()];
        const auto drawn = [&](const std::string& other) {
            for (;;) {
                Fault f = fault_of(tried, random);
                if (!f.some && !f.name.empty() && f.name != other &&
                    f.guess.ranks == SlowRanks::all &&
                    f.guess.times.step > tried.all.front().guesses.front().times.step)
                    return f;
            }
        };
        Fault a = drawn("");
        const Fault b = drawn(a.name);
        a.guess = combined(a.guess, b.guess, tried.all.front().guesses.front());
        if (a.peak > Bytes(0)) a.peak = a.peak * (b.peak / tried.all.front().peak);
        const Diagnosis d = diagnose(tried, run_of(tried, a, Known::all, random));
        const auto is_first_two = [&](const std::string& name) {
            return (!d.causes.empty() && d.causes[0].name == name) ||
                   (d.causes.size() > 1 && d.causes[1].name == name);
        };
        both += is_first_two(a.name) && is_first_two(b.name);
        one += is_first_two(a.name) || is_first_two(b.name);
    }
    INFO(both << " and " << one << " of " << trials);
    if (std::getenv("STEPCAST_CONFUSION")) WARN(both << " and " << one << " of " << trials);
    CHECK(both > 0.5 * trials);
    CHECK(one > 0.95 * trials);
}

// 16,000 runs over all causes on four H100 clusters. The bounds are the figures of
// notes/diagnose.md less three standard deviations of a share: of 3,700 runs with a fault, of 240
// without.
TEST_CASE("injected faults are found, and sound runs are left in peace") {
    const std::vector<TriedCauses> runs = tried_runs();
    std::ofstream tables;
    if (const char* path = std::getenv("STEPCAST_CONFUSION")) tables.open(path);
    const auto shares = [&](Known known) {
        const auto found = tallies(known == Known::told ? tried_runs(true) : runs, known);
        const Shares s = shares_of(found);
        tables << table_of(found)
               << fmt::format("first {:.3f}, two {:.3f}, right or among {:.3f}, sound {:.3f}\n\n",
                              s.first, s.two, s.right, s.nothing);
        return s;
    };
    const Shares all = shares(Known::all), log = shares(Known::log), step = shares(Known::step),
                 told = shares(Known::told);
    CHECK(all.first > 0.81);
    CHECK(all.two > 0.87);
    CHECK(log.first > 0.72);
    CHECK(log.two > 0.78);
    CHECK(step.right > 0.41);
    CHECK(told.right > step.right);
    CHECK(told.two > 1.5 * step.two);
    CHECK(told.nothing > 0.91);
    CHECK(all.nothing > 0.91);
    CHECK(log.nothing > 0.91);
    CHECK(step.nothing > 0.91);
    CHECK(all.first > log.first);
    CHECK(log.first > step.first);
}
