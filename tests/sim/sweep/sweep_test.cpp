#include "sim/sweep/sweep.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "model/errors.h"
#include "model/records/measurements.h"
#include "sim/predict.h"
#include "sim/sweep/node_counts.h"
#include "tests/model/files.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

SweepQuestion question(const Experiment& experiment, const std::vector<std::string>& vary,
                       const std::vector<std::string>& where = {}) {
    SweepQuestion q;
    q.experiment = experiment;
    for (const auto& text : vary) q.axes.push_back(parse_axis(text));
    q.where = parse_constraints(where);
    return q;
}

Experiment eight_ranks(Experiment e) {
    e.cluster.nodes = 2;
    e.parallelism.global_batch = 16;
    e.cluster.price_per_gpu_hour = 3.6;
    return e;
}

// What the event engine says of every legal point that fits, without any bound.
struct Simulated {
    Candidate candidate;
    Seconds step;
};
std::vector<Simulated> simulate_all(const SweepQuestion& q) {
    const SweepSpace space(q.experiment, q.axes);
    std::vector<Simulated> all;
    for (std::uint64_t item = 0; item < space.item_count(); ++item) {
        const std::uint64_t number = space.base_of_item(item);
        const SweepBase base = space.base(number);
        space.visit(base, item,
                    {.legal =
                         [&](std::uint64_t inner, const Parallelism& split) {
                             Experiment e = base.experiment;
                             e.parallelism = split;
                             PointEvaluator evaluator(e);
                             const StepBound bound = evaluator.bound(split);
                             if (!bound.fits) return;
                             const PointFacts facts = evaluator.facts(split, bound.peak);
                             const Seconds step = simulated_step(e);
                             for (const Constraint& c : q.where)
                                 if (!holds(c, facts, step)) return;
                             all.push_back({{{number, inner},
                                             bound.lower,
                                             bound.estimate,
                                             bound.peak,
                                             facts.tokens,
                                             facts.price,
                                             evaluator.ranks()},
                                            step});
                         },
                     .illegal = [](std::string_view, std::uint64_t) {}});
    }
    return all;
}

std::vector<Seconds> steps(const std::vector<SweepRow>& rows) {
    std::vector<Seconds> steps;
    for (const SweepRow& row : rows) steps.push_back(row.step);
    return steps;
}

// Against `best`: the first so many of all by (score, number), or all that no other dominates.
void check_against_all(const SweepQuestion& q) {
    const SweepAnswer answer = sweep(q, {.threads = 2});
    const std::vector<Simulated> all = simulate_all(q);
    Incumbents expected(wanted(q));
    for (const Simulated& s : all) expected.add({scores(q, s.candidate, s.step), s.candidate.id, group_of(grouping(q), s.candidate)});
    REQUIRE(answer.best.size() == expected.best().size());
    for (std::size_t i = 0; i < answer.best.size(); ++i) {
        const auto found =
            std::ranges::find_if(all, [&](const Simulated& s) { return s.candidate.id == expected.best()[i].id; });
        CHECK(answer.best[i].step == found->step);
        CHECK(answer.best[i].peak == found->candidate.peak);
        CHECK(answer.best[i].settings == SweepSpace(q.experiment, q.axes).settings_of(found->candidate.id));
        CHECK(answer.best[i].forecast.memory.peak == answer.best[i].peak);
    }
    CHECK(answer.counts.feasible >= all.size());  // a point bounded away may break a constraint on its step
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
    auto q = question(eight_ranks(small_gpt()), {"parallelism=all", "parallelism.zero=0,2"});
    q.top = 7;
    check_against_all(q);
    q.objective = Objective::tokens;
    q.experiment.workload.attention = AttentionKind::plain;
    q.axes = {parse_axis("parallelism=all"), parse_axis("parallelism.global_batch=8,16"),
              parse_axis("parallelism.cp=1"), parse_axis("parallelism.zero=1")};
    check_against_all(q);
}

// Eight ranks, one stage: nothing is sent, so that overlap_p2p and scatter_p2p do nothing, and with dp = 1 no gradient is
// exchanged either; of two stages the two of p2p do something.
TEST_CASE("splits that differ in switches without effect are simulated once and ranked as what they are") {
    auto q = question(eight_ranks(small_gpt()),
                      {"parallelism=all", "parallelism.pp=1,2", "parallelism.vp=1", "parallelism.micro_batch=2",
                       "parallelism.recompute=none", "parallelism.zero=0,1", "parallelism.overlap=true,false",
                       "parallelism.overlap_params=true,false", "parallelism.overlap_p2p=true,false",
                       "parallelism.scatter_p2p=true,false"});
    q.top = 13;
    check_against_all(q);
    const SweepAnswer answer = sweep(q);
    CHECK(answer.counts.twins > 0);
    CHECK(answer.counts.twins < answer.counts.simulated);
    CHECK_THAT(proof_text(answer), Catch::Contains("as a twin"));
    q.top = 100'000;
    const SweepAnswer all = sweep(q);
    CHECK(all.counts.simulated == all.counts.feasible);
    CHECK(all.best.size() == all.counts.feasible);
}

TEST_CASE("the best of a sweep with experts are the best of simulating everything") {
    auto q =
        question(eight_ranks(small_moe()), {"parallelism=all", "parallelism.zero=0,1", "parallelism.recompute=none"});
    q.top = 5;
    check_against_all(q);
}

// Gates drawn anew: the four points' medians over 15 draws, which is what predict() says of each.
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
    const auto q = question(e, {"parallelism.moe_system=fast_moe,faster_moe,mix_moe,alltoall"});
    const SweepAnswer answer = sweep(q);
    REQUIRE(answer.best.size() == 4);
    CHECK(std::ranges::is_sorted(steps(answer.best)));
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
        CHECK(row.behind->p10 <= quantile(shares, 0.1));  // wider by what forecasts of pairs have been off by
        CHECK(row.behind->p90 >= quantile(shares, 0.9));
        CHECK(row.behind->distinguishable == (row.behind->p10 > 0 || row.behind->p90 < 0));
    }
    SweepQuestion one = q;
    one.experiment.routing.draws = 1;
    CHECK(sweep(one).one_routing);
}

// Each draw has its own gate and its own factor of the step; noise of single tasks leaves no bound, so that all is simulated.
TEST_CASE("bounds over draws leave out nothing that would be among the best") {
    Experiment e = eight_ranks(small_moe());
    e.routing.kind = RoutingSpec::Kind::random_gate;
    e.routing.draws = 6;
    auto q = question(e, {"parallelism=all", "parallelism.zero=0", "parallelism.recompute=none", "parallelism.vp=1",
                          "parallelism.micro_batch=1,2"});
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

// Two draws of 1 and 2: medians of 100 and 101; in the first the second is 1 % behind, in the last 1 % before.
TEST_CASE("what is behind the first is told from it where its interval has one sign") {
    CHECK(behind({110, 220, 330, 440, 550}, {100, 200, 300, 400, 500}).p50 == Approx(0.1));
    CHECK(behind({110, 220, 330, 440, 550}, {100, 200, 300, 400, 500}).distinguishable);
    CHECK_FALSE(behind({101, 202, 303, 404, 490}, {100, 200, 300, 400, 500}).distinguishable);
    // three draws have one sign by chance too often; three equal shares are no chance
    CHECK_FALSE(behind({110, 210, 310}, {100, 200, 300}).distinguishable);
    CHECK(behind({110, 220}, {100, 200}).distinguishable);
}

TEST_CASE("a step never ranks where the work of a step differs") {
    Experiment e = eight_ranks(small_gpt());
    e.parallelism.dp = 8;
    const auto objective = [&](const std::vector<std::string>& vary) {
        return answerable(question(e, vary)).objective;
    };
    CHECK(objective({"parallelism.micro_batch=1,2"}) == Objective::step);  // of 16 sequences either way
    CHECK(objective({"parallelism.global_batch=8,16"}) == Objective::tokens);
    CHECK(objective({"workload.seq=64,128"}) == Objective::tokens);
    e.parallelism.global_batch = 0;
    CHECK(objective({"parallelism.micro_batch=1,2"}) == Objective::tokens);
    CHECK(objective({"parallelism=all"}) == Objective::tokens);
    CHECK(objective({"parallelism.zero=0,1"}) == Objective::step);
    const SweepAnswer answer = sweep(question(e, {"parallelism.micro_batch=1,2,4"}));
    CHECK(answer.work_differs);
    CHECK(std::ranges::is_sorted(answer.best, std::greater<>(), &SweepRow::tokens_per_second));
    CHECK(answer.best.front().settings[0].second != "1");  // the smallest batch has the shortest step
}

TEST_CASE("the best of each machine is that of a sweep over this machine alone") {
    Experiment e = eight_ranks(small_gpt());
    const std::vector<std::string> splits{"parallelism=all", "parallelism.vp=1", "parallelism.zero=1"};
    auto all = splits;
    all.emplace_back("machines=8xdgx-a100,16xdgx-h100");
    SweepQuestion asked = question(e, all);
    asked.training = Training{1e9, 0, read_market()};
    const SweepAnswer answer = sweep(asked);
    CHECK(answer.each_of == std::vector<std::string>{"machines"});
    REQUIRE(answer.of_each.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
        Experiment one = e;
        set_varied(one, "machines", i == 0 ? "8xdgx-a100" : "16xdgx-h100");
        CHECK(rank_count(one.cluster) == (i == 0 ? 8 : 16));
        const SweepAnswer alone = sweep(question(one, splits));
        CHECK(answer.of_each[i].step == alone.best.front().step);
        CHECK(answer.of_each[i].forecast == alone.best.front().forecast);
        REQUIRE(answer.of_each[i].campaign);
        CHECK(answer.of_each[i].campaign->money[1] > 0);
    }
    CHECK_THROWS_WITH(sweep(question(e, {"machines=12xdgx-a100"})), Catch::Contains("expected a multiple"));
    CHECK_THROWS_WITH(sweep(question(e, {"machines=dgx-a100"})), Catch::Contains("COUNTxCLUSTER"));
}

// Of 8, 16 and 24 ranks two end in time: the fewer are marked.
TEST_CASE("the least machines within a time are the fewest ranks that end in it") {
    Experiment e = eight_ranks(small_gpt());
    e.parallelism.global_batch = 48;
    auto q = question(e, {"parallelism=all", "parallelism.vp=1", "parallelism.zero=1", "cluster.nodes=2,4,6"});
    q.training = Training{1e12, 0, read_market()};
    q.within = Seconds(1e18);
    const SweepAnswer all = sweep(q);
    REQUIRE(all.of_each.size() == 3);
    CHECK(all.of_each[0].least_within);
    q.within = all.of_each[1].campaign->time[1];
    const SweepAnswer two = sweep(q);
    CHECK_FALSE(two.of_each[0].least_within);
    CHECK(two.of_each[1].least_within);
    CHECK_FALSE(two.of_each[2].least_within);
    q.within = Seconds(1);
    for (const SweepRow& row : sweep(q).of_each) CHECK_FALSE(row.least_within);
}

// 2 nodes of 4 at the peak would do it in the time: 2 to 32, with four bits each.
TEST_CASE("without a number of nodes those are tried that may be needed") {
    auto q = question(eight_ranks(small_gpt()), {"parallelism=all"});
    q.within = Seconds(100);
    CHECK_THROWS_WITH(add_node_counts(q), Catch::Contains("--tokens"));
    const double a_step = model_flops(q.experiment, 16 * 128).si();
    const double of_node = 4 * peak(q.experiment.cluster.gpu, Dtype::bf16).si();
    q.training = Training{0, 1.999 * of_node * 100 / a_step, {}};
    add_node_counts(q);
    CHECK(q.axes.back().key == "cluster.nodes");
    CHECK(q.axes.back().values.front() == "2");
    CHECK(q.axes.back().values.back() == "32");
    CHECK(std::ranges::find(q.axes.back().values, "17") == q.axes.back().values.end());
    CHECK(std::ranges::find(q.axes.back().values, "18") != q.axes.back().values.end());
    const auto axes = q.axes.size();
    add_node_counts(q);
    CHECK(q.axes.size() == axes);
}

TEST_CASE("constraints leave out what the event engine says they leave out") {
    auto q = question(eight_ranks(small_gpt()), {"parallelism=all", "parallelism.vp=1", "parallelism.zero=0,3"});
    const auto all = simulate_all(q);
    Seconds fastest = all.front().step;
    for (const Simulated& s : all) fastest = std::min(fastest, s.step);
    q.where = parse_constraints(std::vector<std::string>{"step > " + exact_text(fastest * 1.2),
                                                         "memory.peak < " + exact_text(all.front().candidate.peak)});
    check_against_all(q);
    const SweepAnswer answer = sweep(q);
    CHECK(answer.best.front().step > fastest * 1.2);
    CHECK(answer.where.size() == 2);
}

TEST_CASE("a Pareto front and the best of each size are those of simulating everything") {
    auto q = question(eight_ranks(small_gpt()), {"parallelism=all", "parallelism.vp=1", "parallelism.zero=0,3"});
    q.second = Objective::memory;
    check_against_all(q);
    q = question(eight_ranks(small_gpt()),
                 {"cluster.nodes=1,2,4", "parallelism.dp=rest", "parallelism.tp=1,2,4", "parallelism.micro_batch=1,2"});
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
        for (const Simulated& s : all)
            if (s.candidate.ranks == row.ranks) least = std::min(least, score(q.objective, s.candidate, s.step));
        CHECK(row.cost_per_token == least);
    }
    // four ranks, 3.6 an hour each: 0.004 a second; 16 sequences of 128 tokens
    const SweepRow& smallest = answer.scaling.front();
    CHECK(smallest.ranks == 4);
    CHECK(smallest.cost_per_token == Approx(0.004 * smallest.step.si() / (16 * 128)));
}

TEST_CASE("a sweep does not depend on the number of threads, nor on being interrupted") {
    const auto q = question(eight_ranks(small_gpt()), {"parallelism=all", "parallelism.overlap=true,false"});
    const SweepAnswer one = sweep(q, {.threads = 1});
    CHECK(sweep(q, {.threads = 3}) == one);
    CHECK(one.counts.bounded_away > 0);

    const TestFolder own;
    const std::string folder = own.path();
    CHECK(sweep(q, {.threads = 2, .out = folder}) == one);
    const auto whole = std::filesystem::file_size(folder + "/sweep.csv");
    for (const auto size : {whole, whole - 5, whole / 2, whole / 7}) {
        std::filesystem::resize_file(folder + "/sweep.csv", size);
        CHECK(sweep(q, {.threads = 2, .out = folder, .resume = true}) == one);
    }
}

TEST_CASE("what no closed form covers is simulated whole") {
    Experiment e = small_gpt();
    e.workload = {};
    e.workload.hidden = 64;
    e.workload.ffn = 128;
    e.workload.seq = 64;
    e.workload.moe.experts = 4;
    e.parallelism.dp = e.parallelism.ep = 4;
    const SweepAnswer answer = sweep(question(e, {"parallelism.micro_batch=1..4", "workload.hidden=64,128"}));
    CHECK(answer.counts.simulated == 8);
    CHECK(answer.counts.bounded_away == 0);
    // dp x micro_batch sequences a step: tokens rank
    CHECK(answer.objective == Objective::tokens);
    CHECK(std::ranges::is_sorted(answer.best, std::greater<>(), &SweepRow::tokens_per_second));
    REQUIRE(answer.map);
    CHECK(answer.map->simulated);
    CHECK(answer.map->of_token);
    CHECK(answer.map->rows == std::vector<std::string>{"1", "2", "3", "4"});
    CHECK(answer.map->columns == std::vector<std::string>{"64", "128"});
    CHECK_THAT(proof_text(answer), Catch::Contains("all 8 feasible configurations were simulated"));
}

// More than 100,000 points of which most are illegal, so that screening goes round by round; the file knows each of them.
TEST_CASE("a large space is screened in rounds, whose answer is that of simulating everything") {
    auto q = question(eight_ranks(small_gpt()), {"parallelism.dp=rest", "parallelism.tp=1..20", "parallelism.pp=1..20",
                                                 "parallelism.micro_batch=1..32", "parallelism.vp=1..4", "parallelism.zero=0..2"});
    q.top = 4;
    const SweepSpace space(q.experiment, q.axes);
    REQUIRE(space.point_count() > 100'000);
    check_against_all(q);
    const SweepAnswer answer = sweep(q, {.threads = 1});
    const TestFolder own;
    const auto text_of_file = [&] {
        std::ifstream file(own.path() + "/sweep.csv");
        return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    };
    CHECK(sweep(q, {.threads = 2, .out = own.path()}) == answer);
    const std::string text = text_of_file();
    CHECK(text.find("round,,,,,,,,,,3,") != std::string::npos);
    own.write("sweep.csv", text.substr(0, text.find("round,,,,,,,,,,3,")));
    CHECK(sweep(q, {.threads = 2, .out = own.path(), .resume = true}) == answer);
    CHECK(text_of_file() == text);
}

// Of a small space, one round: every job tells what has been walked, then every simulated point the best so far.
TEST_CASE("progress says what has been walked, what is legal, and what is simulated with the best") {
    const auto q = question(eight_ranks(small_gpt()), {"parallelism=all", "parallelism.vp=1"});
    std::vector<std::string> told;
    const SweepAnswer answer = sweep(q, {.threads = 1, .progress = [&](std::string_view text) { told.emplace_back(text); }});
    const auto points = static_cast<double>(answer.counts.points), legal = static_cast<double>(answer.counts.legal);
    const auto screened = std::ranges::find_if(told, [](const std::string& t) { return t.starts_with("simulating"); }) - told.begin();
    REQUIRE(screened > 1);
    CHECK_THAT(told.front(), Catch::StartsWith("screening: ") && Catch::Contains(" s left"));
    const std::string all = fmt::format("{:.3g} of {:.3g} points ({:.3g} legal, ", points, points, legal);
    CHECK_THAT(told[static_cast<std::size_t>(screened) - 1], Catch::StartsWith("screening: " + all) && Catch::EndsWith(", at most 0 to simulate"));
    const auto simulated = told.size() - static_cast<std::size_t>(screened);
    CHECK(simulated == answer.counts.simulated - answer.counts.twins);
    CHECK_THAT(told[static_cast<std::size_t>(screened)], Catch::StartsWith("simulating: " + all) && Catch::Contains(", 1 simulated, best "));
    CHECK_THAT(told.back(), Catch::StartsWith("simulating: " + all) &&
                                Catch::Contains(fmt::format(", {} simulated, best {}, at most ", simulated, to_string(answer.best.front().step))));
}

// Cells of tp and pp, each with the shortest estimate of any point that has both; 0 where none fits or is legal.
TEST_CASE("a heat map holds the best estimate of every pair of values") {
    for (const bool of_token : {false, true}) {
        auto q = question(eight_ranks(small_gpt()), {"parallelism.tp=1,2,4", "parallelism.pp=1,2,4,8", "parallelism.dp=rest",
                                                     "parallelism.micro_batch=1,2", of_token ? "workload.seq=64,128" : "parallelism.zero=0,1"});
        const SweepAnswer answer = sweep(q);
        REQUIRE(answer.map);
        q = answerable(q);
        HeatMap expected{.row_key = "parallelism.tp", .column_key = "parallelism.pp", .rows = {"1", "2", "4"},
                         .columns = {"1", "2", "4"}, .step = std::vector<Seconds>(9), .of_token = of_token};  // 8 stages of 4 layers are none
        for (const Simulated& s : simulate_all(q)) {
            const Parallelism p = SweepSpace(q.experiment, q.axes).experiment_of(s.candidate.id).parallelism;
            const auto log2 = [](int n) { return n == 1 ? 0U : n == 2 ? 1U : 2U; };
            Seconds& cell = expected.step[3 * log2(p.tp) + log2(p.pp)];
            const Seconds estimate = of_token ? s.candidate.estimate / s.candidate.tokens : s.candidate.estimate;
            if (cell == Seconds(0) || estimate < cell) cell = estimate;
        }
        CHECK(*answer.map == expected);
        CHECK(answer.map->step.back() == Seconds(0));  // 16 ranks
    }
}

// One stage sends nothing: with and without overlap of sends it is one point.
TEST_CASE("of two points that differ in a switch without effect one is simulated") {
    const SweepAnswer answer = sweep(question(eight_ranks(small_gpt()), {"parallelism.dp=8", "parallelism.overlap_p2p=true,false"}));
    CHECK(answer.counts.simulated == 2);
    CHECK(answer.counts.twins == 1);
    CHECK(answer.best[0].step == answer.best[1].step);
    REQUIRE(answer.best[1].behind);
    CHECK(answer.best[1].behind->p50 == 0);
    CHECK_FALSE(answer.best[1].behind->distinguishable);
}

TEST_CASE("what is ranked by memory is not behind in time") {
    auto q = question(eight_ranks(small_gpt()), {"parallelism.dp=rest", "parallelism.tp=1,2,4"});
    q.objective = Objective::memory;
    const SweepAnswer answer = sweep(q);
    REQUIRE(answer.best.size() == 3);
    for (const SweepRow& row : answer.best) CHECK_FALSE(row.behind);
    CHECK(std::ranges::is_sorted(answer.best, {}, &SweepRow::peak));
}

TEST_CASE("a sweep that can have no answer says why") {
    const Experiment e = eight_ranks(small_gpt());
    CHECK_THROWS_WITH(
        sweep(question(e, {"parallelism.tp=3,5"})),
        Catch::Contains("none of 2 configurations is legal") && Catch::Contains("is not the number of ranks (2)"));
    CHECK_THROWS_WITH(sweep(question(e, {"parallelism=all"}, {"step < 1 ns"})),
                      Catch::Contains("is feasible: not step < 1 ns"));
    Experiment free = e;
    free.cluster.price_per_gpu_hour = 0;
    auto q = question(free, {"parallelism=all"});
    q.objective = Objective::cost;
    CHECK_THROWS_WITH(sweep(q), Catch::Contains("cluster.price_per_gpu_hour is 0"));
    q.objective = Objective::step;
    q.top = 0;
    CHECK_THROWS_WITH(sweep(q), Catch::Contains("--top 0"));
    std::string announced;
    CHECK_THROWS_AS(sweep(question(e, {"parallelism.tp=3..1002", "parallelism.pp=3..1002", "parallelism.dp=3..1002",
                                       "parallelism.micro_batch=3..1002"}),
                          {.announce = [&](std::string_view text) { announced = text; }}),
                    ConfigError);
    CHECK_THAT(announced, Catch::Contains("1,000,000,000,000 points"));
}

// The experts of this run are spread by a system that needs all four ranks: of ep 1, 2 and 4 only the last is legal, of zero 0
// and 3 only the first. No order of the values, and no number of threads, may let another one in.
TEST_CASE("what only check_experiment() knows holds for every point of a sweep") {
    const Experiment e = read_unchecked_experiment("bert_mix_moe", {});
    for (const char* axis :
         {"parallelism.ep=1,2,4", "parallelism.ep=4,2,1", "parallelism.zero=0,3", "parallelism.zero=3,0"})
        for (const int threads : {1, 3}) {
            INFO(axis << ", threads " << threads);
            const SweepAnswer answer = sweep(question(e, {axis}), {.threads = threads});
            CHECK(answer.counts.legal == 1);
            REQUIRE(answer.best.size() == 1);
            CHECK(answer.best[0].settings[0].second == (std::string(axis).find("ep") == std::string::npos ? "0" : "4"));
            CHECK(answer.best[0].lower == Seconds(0));  // no closed form knows this model
        }
}

TEST_CASE("points without a price are not the cheapest") {
    Experiment e = eight_ranks(small_gpt());
    SweepQuestion q = question(e, {"cluster.price_per_gpu_hour=0,2", "parallelism.tp=1,2", "parallelism.dp=rest"});
    q.objective = Objective::cost;
    const SweepAnswer answer = sweep(q);
    REQUIRE_FALSE(answer.best.empty());
    for (const auto& point : answer.best) CHECK(point.settings[0].second == "2");
}

// By brute force: under every limit and for every two keys, the shortest estimate of each pair of values is among the map's
// points, with its values and its peak.
TEST_CASE("a map's points hold the best of every two keys under every limit of memory") {
    Experiment wide = eight_ranks(small_gpt());  // megabytes, not kilobytes
    wide.workload.hidden = 1024;
    wide.workload.ffn = 4096;
    const auto q = question(wide, {"parallelism=all", "parallelism.global_batch=16"});
    const SweepMap map = sweep(q, {.threads = 2, .map = true}).points.value();
    CHECK(map == sweep(q, {.threads = 1, .map = true}).points.value());
    const SweepSpace space(q.experiment, q.axes);
    REQUIRE(map.keys.size() > 3);
    REQUIRE(map.limits.size() > 1);
    std::map<std::string, const MapPoint*> known;
    const auto text_of = [&](const Settings& settings) {
        std::string text;
        for (const MapKey& key : map.keys) text += std::ranges::find(settings, key.key, &std::pair<std::string, std::string>::first)->second + " ";
        return text;
    };
    for (const MapPoint& p : map.points) {
        std::string text;
        for (std::size_t k = 0; k < map.keys.size(); ++k) text += map.keys[k].values[p.at[k]] + " ";
        known.emplace(text, &p);
        CHECK(p.peak <= map.limits.back());
    }
    CHECK(known.size() == map.points.size());
    const std::vector<Simulated> all = simulate_all(q);
    std::vector<Settings> settings;
    for (const Simulated& s : all) settings.push_back(space.settings_of(s.candidate.id));
    for (const Bytes limit : map.limits)
        for (std::size_t a = 0; a < map.keys.size(); ++a)
            for (std::size_t b = a + 1; b < map.keys.size(); ++b) {
                std::map<std::pair<std::string, std::string>, std::size_t> best;
                for (std::size_t i = 0; i < all.size(); ++i) {
                    if (all[i].candidate.peak > limit) continue;
                    const auto value = [&](std::size_t k) { return std::ranges::find(settings[i], map.keys[k].key, &std::pair<std::string, std::string>::first)->second; };
                    const auto [at, fresh] = best.try_emplace({value(a), value(b)}, i);
                    const auto rank = [&](std::size_t of) { return std::pair(all[of].candidate.estimate, all[of].candidate.id); };
                    if (!fresh && rank(i) < rank(at->second)) at->second = i;
                }
                for (const auto& [values, i] : best) {
                    const auto found = known.find(text_of(settings[i]));
                    if (found == known.end()) FAIL_CHECK("not on the map: " << text_of(settings[i]));
                    else if (found->second->peak != all[i].candidate.peak) FAIL_CHECK("another peak: " << text_of(settings[i]));
                }
            }
    const auto simulated = std::ranges::count_if(map.points, &MapPoint::simulated);
    CHECK(simulated > 0);
}
