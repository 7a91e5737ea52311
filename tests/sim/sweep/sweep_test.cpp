// A sweep finds the same as simulating every point, however it is run.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "measured/medians.h"
#include "measured/read.h"
#include "model/input/keys.h"
#include "model/records/measurements.h"
#include "sim/memory/memory_use.h"
#include "sim/predict.h"
#include "sim/sweep/sweep.h"
#include "tests/model/files.h"
#include "tests/sim/sweep/whole_sweeps.h"

using namespace stepcast;

namespace {

// Compares `best` with all points: the best few by (score, number), or all points that no other
// dominates. Rows behind a proven first are ahead of the true ones of their rank by no more than
// their gap says, and none is said to be proven that is not.
void check_against_all(const SweepQuestion& q) {
    const SweepAnswer answer = sweep(q, {.threads = 2});
    const std::vector<MetPoint> all = simulate_all(q);
    Incumbents expected(wanted(q));
    for (const MetPoint& s : all)
        expected.add(incumbent(s.candidate, scores(q, s.candidate, s.step), grouping(q)));
    REQUIRE(answer.best.size() == expected.best().size());
    for (std::size_t i = 0; i < answer.best.size(); ++i) {
        const auto found = std::ranges::find_if(
            all, [&](const MetPoint& s) { return s.candidate.id == expected.best()[i].id; });
        if (answer.best[i].gap > 0) {
            CHECK(i > 0);
            CHECK(wanted(q).distinct);
            const auto score_of = [&](Seconds step) {
                return score(q.objective, found->candidate, step);
            };
            CHECK(score_of(answer.best[i].step) >= score_of(found->step));
            CHECK(score_of(answer.best[i].step) * (1 - answer.best[i].gap) <=
                  score_of(found->step) * (1 + 1e-9));
            continue;
        }
        CHECK(answer.best[i].step == found->step);
        CHECK(answer.best[i].peak == answer.best[i].forecast.memory.peak);
        CHECK(answer.best[i].settings ==
              SweepSpace(q.experiment, q.axes).settings_of(found->candidate.id));
        CHECK(answer.best[i].forecast.memory.peak == answer.best[i].peak);
    }
    // feasible also counts bounded-away points, which may break a step constraint
    CHECK(answer.counts.feasible >= all.size());
    CHECK(answer.counts.feasible == answer.counts.simulated + answer.counts.bounded_away);
    const auto sum = [](const std::map<std::string, std::uint64_t>& counts) {
        std::uint64_t points = 0;
        for (const auto& [reason, n] : counts) points += n;
        return points;
    };
    CHECK(answer.counts.points == answer.counts.legal + sum(answer.counts.illegal));
    CHECK(answer.counts.legal == answer.counts.feasible + sum(answer.counts.infeasible));
    CHECK(answer.broken_bounds == 0);
}

}  // namespace

TEST_CASE("the best of a sweep are the best of simulating everything") {
    auto q = asked(eight_ranks(small_gpt()), {"parallelism=all", "parallelism.zero=0,2"});
    q.top = 7;
    check_against_all(q);
    q.objective = Objective::tokens;
    q.experiment.runtime.attention = AttentionKind::plain;
    q.axes = {parse_axis("parallelism=all"), parse_axis("parallelism.global_batch=8,16"),
              parse_axis("parallelism.cp=1"), parse_axis("parallelism.zero=1")};
    check_against_all(q);
}

// The device holds 1 % more than the fastest split needs: that is less than the margin of 2 %, so
// it comes last, if it is shown at all. Without a margin it is the first again.
TEST_CASE("a split within the margin of the memory is counted, marked and not first") {
    auto q = asked(eight_ranks(small_gpt()), {"parallelism=all", "parallelism.cp=1"});
    const SweepRow fastest = sweep(q).best.front();
    Experiment of_fastest = q.experiment;  // the closed form decides, the row has the replay's
    for (const auto& [key, value] : fastest.settings) set_key(of_fastest, {key, value});
    q.experiment.cluster.gpu.memory = fullest_memory(of_fastest).peak / 0.99;
    check_against_all(q);
    SweepAnswer answer = sweep(q);
    CHECK(answer.margin == 0.02);
    CHECK(answer.counts.tight > 0);
    CHECK(answer.best.front().step > fastest.step);
    CHECK(answer.best.front().peak <= 0.98 * q.experiment.cluster.gpu.memory);
    CHECK_THAT(proof_text(answer), Catch::Contains("is within the margin of 2 %"));
    q.top = 100'000;
    answer = sweep(q);
    const auto first_tight = std::ranges::find_if(answer.best, &SweepRow::tight);
    CHECK(std::all_of(first_tight, answer.best.end(), [](const SweepRow& r) { return r.tight; }));
    q.experiment.cluster.overheads.margin = 0;
    CHECK(sweep(q).best.front().settings == fastest.settings);
    CHECK_THROWS_WITH(set_key(q.experiment, {"cluster.overheads.margin", "1.5"}),
                      Catch::Contains("expected 0 to 1"));
}

TEST_CASE("the best of parallelism=all differ in ranks or schedule, and say which vp are alike") {
    const auto q = asked(eight_ranks(small_gpt()), {"parallelism=all"});
    const SweepAnswer answer = sweep(q);
    CHECK(answer.distinct);
    std::set<std::vector<std::string>> met;
    for (const SweepRow& row : answer.best) {
        std::vector<std::string> kind;
        for (const auto& [key, value] : row.settings)
            if (key == "parallelism.tp" || key == "parallelism.pp" || key == "parallelism.dp" ||
                key == "parallelism.cp" || key == "parallelism.schedule")
                kind.push_back(value);
        CHECK(kind.size() == 5);
        met.insert(kind);
        Experiment e = q.experiment;
        for (const auto& [key, value] : row.settings)
            if (key == "parallelism.vp") set_key(e, {key, value});
        CHECK(row.least_vp <= e.parallelism.vp);
        CHECK(row.most_vp >= e.parallelism.vp);
    }
    CHECK(met.size() == answer.best.size());
    CHECK_FALSE(
        sweep(asked(eight_ranks(small_gpt()), {"parallelism.tp=1,2", "parallelism.dp=rest"}))
            .distinct);
}

// Two switches of the software: the best of all is the best of the four searches that state them.
TEST_CASE("parallelism=all walks the switches of its framework that nobody states") {
    Experiment e = eight_ranks(small_moe());
    e.framework.name = "mine";
    set_rule(e.framework, "runtime.exchanges.gradients", "never");
    e.framework.can.switches = {"runtime.experts.dispatch=all_to_all|once",
                                "runtime.exchanges.gradients=never|always",
                                "runtime.context_exchange=ring"};
    apply_framework(e);
    auto q = asked(e, {"parallelism=all", "parallelism.zero=1", "parallelism.recompute=none",
                       "parallelism.micro_batch=1", "parallelism.schedule=1f1b"});
    q.top = 3;
    check_against_all(q);
    const SweepAnswer all = sweep(q);
    CHECK(all.switches ==
          std::vector<std::string>{"runtime.experts.dispatch", "runtime.exchanges.gradients"});
    CHECK(all.outvoting.empty());
    auto stated = q;
    stated.stated.push_back({"runtime.experts.dispatch", "all_to_all"});
    CHECK(sweep(stated).switches == std::vector<std::string>{"runtime.exchanges.gradients"});
    CHECK(std::ranges::any_of(all.counts.illegal, [](const auto& one) {
              return one.first.find("no effect on this split") != std::string::npos;
          }) == false);  // neither acts on a size that the walk could pass over inside a base
    Seconds best(1e9);
    for (const char* dispatch : {"all_to_all", "once"})
        for (const char* gradients : {"never", "always"}) {
            SweepQuestion one = q;
            for (const auto& [key, value] : {std::pair{"runtime.experts.dispatch", dispatch},
                                             {"runtime.exchanges.gradients", gradients}}) {
                set_key(one.experiment, {key, value});
                one.experiment.overlay.stated.emplace_back(key);
            }
            const SweepAnswer fixed = sweep(one);
            CHECK(fixed.switches.empty());
            CHECK(fixed.outvoting.empty() == (gradients == std::string("never")));
            best = std::min(best, fixed.best.front().step);
        }
    CHECK(all.best.front().step == best);
}

// Parameters are gathered early only beside gradients that are exchanged early.
TEST_CASE("a switch that needs another is walked where that one is on") {
    Experiment e = eight_ranks(small_gpt());
    e.framework.name = "mine";
    set_rule(e.framework, "runtime.exchanges.gradients", "never");
    set_rule(e.framework, "runtime.exchanges.parameters", "false");
    e.framework.can.switches = {"runtime.exchanges.gradients=never|always",
                                "runtime.exchanges.parameters=false|true"};
    apply_framework(e);
    auto q = asked(e, {"parallelism=all", "parallelism.zero=1", "parallelism.recompute=none",
                       "parallelism.micro_batch=1", "parallelism.schedule=1f1b"});
    check_against_all(q);
    const SweepAnswer all = sweep(q);
    q.experiment.framework.can.switches = {"runtime.exchanges.gradients=never|always"};
    const SweepAnswer gradients = sweep(q);
    // of two settings of gradients, one has both of parameters
    CHECK(2 * all.counts.legal == 3 * gradients.counts.legal);
    CHECK(all.counts.illegal.at("a switch of the software has no effect on this split") ==
          all.counts.legal / 3);
}

// Without tensor parallelism its overlap does nothing: such points are counted, not walked.
TEST_CASE("a switch is passed over where it does nothing") {
    Experiment e = eight_ranks(small_gpt());
    e.framework.name = "mine";
    e.framework.can.switches = {"runtime.exchanges.tensor=never|always",
                                "runtime.context_exchange=ring|all-gather"};
    auto q = asked(e, {"parallelism=all", "parallelism.zero=1", "parallelism.recompute=none"});
    check_against_all(q);
    const SweepAnswer walked = sweep(q);
    CHECK(walked.counts.illegal.contains("a switch of the software has no effect on this split"));
    q.axes.push_back(parse_axis("parallelism.tp=1"));
    q.axes.push_back(parse_axis("parallelism.cp=1"));
    const SweepAnswer alone = sweep(q);  // the base of the other exchange is empty
    q.experiment.framework.can.switches = {};
    const SweepAnswer without = sweep(q);
    CHECK(alone.counts.legal == without.counts.legal);
    CHECK(alone.best.front().step == without.best.front().step);
}

// Modules run again under selective recompute alone: the other values of recompute are walked once.
TEST_CASE("recomputed modules are searched beside selective recompute") {
    Experiment e = eight_ranks(small_moe());
    e.framework.name = "mine";
    e.framework.can.switches = {"parallelism.recompute_modules=[moe_act, layernorm]|[mla_up_proj]"};
    auto q = asked(e, {"parallelism=all", "parallelism.zero=1", "parallelism.micro_batch=1",
                       "parallelism.schedule=1f1b"});
    q.top = 1;
    check_against_all(q);
    const SweepAnswer all = sweep(q);
    CHECK(all.switches == std::vector<std::string>{"parallelism.recompute_modules"});
    std::map<std::string, std::uint64_t> legal;
    for (const char* recompute : {"none", "selective", "full"})
        for (const char* modules : {"[]", "[moe_act, layernorm]"}) {
            SweepQuestion one = q;
            one.axes.push_back(parse_axis(std::string("parallelism.recompute=") + recompute));
            set_key(one.experiment, {"parallelism.recompute_modules", modules});
            one.experiment.overlay.stated.emplace_back("parallelism.recompute_modules");
            legal[std::string(recompute) + modules] = sweep(one).counts.legal;
        }
    CHECK(all.counts.legal == legal["none[]"] + legal["selective[]"] + legal["full[]"] +
                                  legal["selective[moe_act, layernorm]"]);
    CHECK(legal["selective[moe_act, layernorm]"] > 0);
}

// Heads without a latent projection have no mla_up_proj, and Megatron-Core refuses the word there:
// a row names what its model has.
TEST_CASE("a search names the recomputed modules that the model has") {
    Experiment e = eight_ranks(small_moe());
    e.framework.name = "mine";
    e.framework.can.switches = {"parallelism.recompute_modules=[mla_up_proj, moe_act]"};
    auto q = asked(e, {"parallelism=all", "parallelism.recompute=selective"});
    const SweepSpace space(q.experiment, q.axes, {});
    std::set<std::string> named;
    for (std::uint64_t base = 0; base < 2; ++base)
        for (const auto& [key, value] : space.settings_of({base, 0}))
            if (key == "parallelism.recompute_modules") named.insert(value);
    CHECK(named == std::set<std::string>{"[]", "[moe_act]"});
}

// Four rows cost at most a quarter more simulations than one, or eight.
TEST_CASE("rows behind the first cost few simulations and say how near they are") {
    auto q = asked(eight_ranks(small_gpt()), {"parallelism=all"});
    q.top = 1;
    const std::uint64_t of_first = sweep(q).counts.simulated;
    q.top = 7;
    const SweepAnswer answer = sweep(q);
    CHECK(answer.best.front().gap == 0);
    CHECK(answer.best.size() == 7);
    std::size_t open = 0;
    for (const SweepRow& row : answer.best) {
        CHECK(row.gap < 0.2);
        open += row.gap > 0;
    }
    INFO(of_first << " " << answer.counts.simulated << " " << open);
    CHECK(answer.counts.simulated <= 2 * of_first + 64);
    CHECK((open > 0) == (proof_text(answer).find("the best different parallel layouts found") !=
                         std::string::npos));
}

// Eight ranks. One stage sends nothing, so overlap_p2p and scatter_p2p have no effect, and with dp
// = 1 no gradient is exchanged either. With two stages both p2p switches have an effect.
TEST_CASE(
    "splits that differ in switches without effect are simulated once and ranked as what they "
    "are") {
    auto q =
        asked(eight_ranks(small_gpt()),
              {"parallelism=all", "parallelism.pp=1,2", "parallelism.vp=1",
               "parallelism.micro_batch=2", "parallelism.recompute=none", "parallelism.zero=0,1",
               "parallelism.overlap=true,false", "parallelism.overlap_params=true,false",
               "parallelism.overlap_p2p=true,false", "parallelism.scatter_p2p=true,false"});
    q.top = 13;
    check_against_all(q);
    const SweepAnswer answer = sweep(q);
    CHECK(answer.counts.twins > 0);
    CHECK(answer.counts.twins < answer.counts.simulated);
    CHECK_THAT(proof_text(answer), Catch::Contains("as a twin"));
    q.top = 100'000;
    const SweepAnswer all = sweep(q);
    // splits by tp, cp, dp, micro-batch and switches that are axes
    CHECK(all.counts.simulated + all.counts.bounded_away == all.counts.feasible);
    CHECK(all.best.size() > 13);
    CHECK(all.best.size() < all.counts.feasible);
}

TEST_CASE("the best of a sweep with experts are the best of simulating everything") {
    auto q = asked(eight_ranks(small_moe()),
                   {"parallelism=all", "parallelism.zero=0,1", "parallelism.recompute=none"});
    q.top = 5;
    check_against_all(q);
}

// New gates in each draw: the four points rank by their medians over 15 draws, which are
// predict()'s of each.
TEST_CASE("a drawn routing ranks by the median over draws that every configuration meets") {
    Experiment e = small_gpt();
    e.workload = {};
    e.workload.hidden = 64;
    e.workload.ffn = 128;
    e.workload.seq = 64;
    e.workload.moe.experts = 8;
    e.parallelism.dp = e.parallelism.ep = 4;
    e.routing.kind = RoutingSpec::Kind::random_gate;
    e.routing.draws = 15;
    const auto q = asked(e, {"parallelism.moe_system=fast_moe,faster_moe,mix_moe,alltoall"});
    const SweepAnswer answer = sweep(q);
    REQUIRE(answer.best.size() == 4);
    CHECK(std::ranges::is_sorted(steps_of(answer.best)));
    CHECK_FALSE(answer.one_routing);
    CHECK_FALSE(answer.best[0].behind);
    set_key(e, {"parallelism.moe_system", answer.best[0].settings[0].second});
    const std::vector<Seconds> first = steps_of_draws(e);
    for (const SweepRow& row : answer.best) {
        set_key(e, {"parallelism.moe_system", row.settings[0].second});
        const Forecast f = predict(e);
        CHECK(f.step.p10 < f.step.p90);
        CHECK(row.step == f.step.p50);
        CHECK(row.tokens_per_second == f.tokens_per_second);
        CHECK(row.forecast == f);
        const std::vector<Seconds> draws = steps_of_draws(e);
        if (&row == &answer.best[0]) continue;
        REQUIRE(row.behind);
        std::vector<double> shares;
        for (std::size_t d = 0; d < 15; ++d) shares.push_back(draws[d] / first[d] - 1);
        CHECK(row.behind->p50 == quantile(shares, 0.5));
        // wider by the past errors of forecasts of pairs
        CHECK(row.behind->p10 <= quantile(shares, 0.1));
        CHECK(row.behind->p90 >= quantile(shares, 0.9));
        CHECK(row.behind->distinguishable == (row.behind->p10 > 0 || row.behind->p90 < 0));
    }
    SweepQuestion one = q;
    one.experiment.routing.draws = 1;
    CHECK(sweep(one).one_routing);
}

// Each draw has its own gate and its own factor of the step. Noise of single tasks has no bound, so
// all points are simulated.
TEST_CASE("bounds over draws leave out nothing that would be among the best") {
    Experiment e = eight_ranks(small_moe());
    e.routing.kind = RoutingSpec::Kind::random_gate;
    e.routing.draws = 6;
    auto q = asked(e, {"parallelism=all", "parallelism.zero=0", "parallelism.recompute=none",
                       "parallelism.vp=1", "parallelism.micro_batch=1,2"});
    q.top = 3;
    check_against_all(q);
    q.experiment.cluster.noise.step = 0.05;
    check_against_all(q);
    const SweepAnswer bounded = sweep(q);
    CHECK(bounded.counts.bounded_away > 0);
    q.experiment.cluster.noise.op = 0.01;
    check_against_all(q);
    CHECK(sweep(q).counts.bounded_away == 0);
}

TEST_CASE("constraints leave out what the event engine says they leave out") {
    auto q = asked(eight_ranks(small_gpt()),
                   {"parallelism=all", "parallelism.vp=1", "parallelism.zero=0,3"});
    const auto all = simulate_all(q);
    Seconds fastest = all.front().step;
    for (const MetPoint& s : all) fastest = std::min(fastest, s.step);
    q.where = parse_constraints(
        std::vector<std::string>{"step > " + exact_text(fastest * 1.2),
                                 "memory.peak < " + exact_text(all.front().candidate.peak)});
    check_against_all(q);
    const SweepAnswer answer = sweep(q);
    CHECK(answer.best.front().step > fastest * 1.2);
    CHECK(answer.where.size() == 2);
}

TEST_CASE("a Pareto front and the best of each size are those of simulating everything") {
    auto q = asked(eight_ranks(small_gpt()),
                   {"parallelism=all", "parallelism.vp=1", "parallelism.zero=0,3"});
    q.second = Objective::memory;
    check_against_all(q);
    q = asked(eight_ranks(small_gpt()), {"cluster.nodes=1,2,4", "parallelism.dp=rest",
                                         "parallelism.tp=1,2,4", "parallelism.micro_batch=1,2"});
    q.objective = Objective::cost;
    q.second = Objective::step;
    check_against_all(q);
    q.second = std::nullopt;
    q.top = 1;
    const SweepAnswer answer = sweep(q);
    const auto all = simulate_all(q);
    REQUIRE(answer.scaling.size() == 3);
    for (const SweepRow& row : answer.scaling) {
        double least = 1e300;
        for (const MetPoint& s : all)
            if (s.candidate.ranks == row.ranks)
                least = std::min(least, score(q.objective, s.candidate, s.step));
        CHECK(row.cost_per_token == least);
    }
    // four ranks at 3.6 per hour each: 0.004 per second; 16 sequences of 128 tokens
    const SweepRow& smallest = answer.scaling.front();
    CHECK(smallest.ranks == 4);
    CHECK(smallest.cost_per_token == Approx(0.004 * smallest.step.si() / (16 * 128)));
}

TEST_CASE("a sweep does not depend on the number of threads, nor on keeping what it simulates") {
    const auto q =
        asked(eight_ranks(small_gpt()), {"parallelism=all", "parallelism.overlap=true,false"});
    const SweepAnswer one = sweep(q, {.threads = 1});
    CHECK(sweep(q, {.threads = 3}) == one);
    CHECK(one.counts.bounded_away > 0);

    // twins take the step of one of them, which alone is simulated and kept
    const TestFolder own;
    CHECK(sweep(q, {.threads = 2, .out = own.path()}) == one);
    std::ifstream file(own.path() + "/sweep.csv");
    const auto lines = std::count(std::istreambuf_iterator<char>(file), {}, '\n');
    CHECK(static_cast<std::uint64_t>(lines - 1) == one.counts.simulated - one.counts.twins);
}

// More than 100,000 points, most of them illegal, so that screening runs in rounds.
TEST_CASE("a large space is screened in rounds, whose answer is that of simulating everything") {
    auto q =
        asked(eight_ranks(small_gpt()),
              {"parallelism.dp=rest", "parallelism.tp=1..20", "parallelism.pp=1..20",
               "parallelism.micro_batch=1..32", "parallelism.vp=1..4", "parallelism.zero=0..2"});
    q.top = 4;
    const SweepSpace space(q.experiment, q.axes);
    REQUIRE(space.point_count() > 100'000);
    check_against_all(q);
    CHECK(sweep(q, {.threads = 2}) == sweep(q, {.threads = 1}));
}

// By brute force: for every limit and every two keys, the point with the shortest estimate of each
// pair of values is in the map, with its values and its peak.
TEST_CASE("a map's points hold the best of every two keys under every limit of memory") {
    Experiment wide = eight_ranks(small_gpt());  // megabytes, not kilobytes
    wide.workload.hidden = 1024;
    wide.workload.ffn = 4096;
    const auto q = asked(wide, {"parallelism=all", "parallelism.global_batch=16"});
    const SweepMap map = sweep(q, {.threads = 2, .map = true}).points.value();
    CHECK(map == sweep(q, {.threads = 1, .map = true}).points.value());
    const SweepSpace space(q.experiment, q.axes);
    REQUIRE(map.keys.size() > 3);
    REQUIRE(map.limits.size() > 1);
    std::map<std::string, const MapPoint*> known;
    const auto text_of = [&](const Settings& settings) {
        std::string text;
        for (const MapKey& key : map.keys)
            text +=
                std::ranges::find(settings, key.key, &std::pair<std::string, std::string>::first)
                    ->second +
                " ";
        return text;
    };
    for (const MapPoint& p : map.points) {
        std::string text;
        for (std::size_t k = 0; k < map.keys.size(); ++k) text += map.keys[k].values[p.at[k]] + " ";
        known.emplace(text, &p);
        CHECK(p.peak <= map.limits.back());
    }
    CHECK(known.size() == map.points.size());
    const std::vector<MetPoint> all = simulate_all(q);
    std::vector<Settings> settings;
    for (const MetPoint& s : all) settings.push_back(space.settings_of(s.candidate.id));
    for (const Bytes limit : map.limits)
        for (std::size_t a = 0; a < map.keys.size(); ++a)
            for (std::size_t b = a + 1; b < map.keys.size(); ++b) {
                std::map<std::pair<std::string, std::string>, std::size_t> best;
                for (std::size_t i = 0; i < all.size(); ++i) {
                    if (all[i].candidate.peak > limit) continue;
                    const auto value = [&](std::size_t k) {
                        return std::ranges::find(settings[i], map.keys[k].key,
                                                 &std::pair<std::string, std::string>::first)
                            ->second;
                    };
                    const auto [at, fresh] = best.try_emplace({value(a), value(b)}, i);
                    const auto rank = [&](std::size_t of) {
                        return std::pair(all[of].candidate.estimate, all[of].candidate.id);
                    };
                    if (!fresh && rank(i) < rank(at->second)) at->second = i;
                }
                for (const auto& [values, i] : best) {
                    const auto found = known.find(text_of(settings[i]));
                    if (found == known.end())
                        FAIL_CHECK("not on the map: " << text_of(settings[i]));
                    else if (found->second->peak != all[i].candidate.peak)
                        FAIL_CHECK("another peak: " << text_of(settings[i]));
                }
            }
    const auto simulated = std::ranges::count_if(map.points, &MapPoint::simulated);
    CHECK(simulated > 0);
}
