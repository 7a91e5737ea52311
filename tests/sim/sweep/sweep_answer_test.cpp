// What a sweep's answer contains beside its best: rows of machines, maps, progress, and why there
// is no best.

#include <algorithm>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/base/errors.h"
#include "sim/predict.h"
#include "sim/sweep/node_counts.h"
#include "sim/sweep/sweep.h"
#include "tests/sim/sweep/whole_sweeps.h"

using namespace stepcast;

// Behind by 10 % in all five draws: distinguishable. Behind by 1 % in four and ahead in the last:
// not distinguishable.
TEST_CASE("what is behind the first is told from it where its interval has one sign") {
    CHECK(behind({110, 220, 330, 440, 550}, {100, 200, 300, 400, 500}).p50 == Approx(0.1));
    CHECK(behind({110, 220, 330, 440, 550}, {100, 200, 300, 400, 500}).distinguishable);
    CHECK_FALSE(behind({101, 202, 303, 404, 490}, {100, 200, 300, 400, 500}).distinguishable);
    // three different shares have one sign by chance too often; equal shares do not come by chance
    CHECK_FALSE(behind({110, 210, 310}, {100, 200, 300}).distinguishable);
    CHECK(behind({110, 220}, {100, 200}).distinguishable);
}

TEST_CASE("a step never ranks where the work of a step differs") {
    Experiment e = eight_ranks(small_gpt());
    e.parallelism.dp = 8;
    const auto objective = [&](const std::vector<std::string>& vary) {
        return answerable(asked(e, vary)).objective;
    };
    // 16 sequences per step either way
    CHECK(objective({"parallelism.micro_batch=1,2"}) == Objective::step);
    CHECK(objective({"parallelism.global_batch=8,16"}) == Objective::tokens);
    CHECK(objective({"workload.seq=64,128"}) == Objective::tokens);
    e.parallelism.global_batch = 0;
    CHECK(objective({"parallelism.micro_batch=1,2"}) == Objective::tokens);
    CHECK(objective({"parallelism=all"}) == Objective::tokens);
    CHECK(objective({"parallelism.zero=0,1"}) == Objective::step);
    const SweepAnswer answer = sweep(asked(e, {"parallelism.micro_batch=1,2,4"}));
    CHECK(answer.work_differs);
    CHECK(std::ranges::is_sorted(answer.best, std::greater<>(), &SweepRow::tokens_per_second));
    // the smallest batch has the shortest step
    CHECK(answer.best.front().settings[0].second != "1");
}

TEST_CASE("the best of each machine is that of a sweep over this machine alone") {
    Experiment e = eight_ranks(small_gpt());
    const std::vector<std::string> splits{"parallelism=all", "parallelism.vp=1",
                                          "parallelism.zero=1"};
    auto all = splits;
    all.emplace_back("machines=8xdgx-a100,16xdgx-h100");
    SweepQuestion q = asked(e, all);
    q.training = Training{1e9, 0, read_market()};
    const SweepAnswer answer = sweep(q);
    CHECK(answer.each_of == std::vector<std::string>{"machines"});
    REQUIRE(answer.of_each.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
        Experiment one = e;
        set_varied(one, "machines", i == 0 ? "8xdgx-a100" : "16xdgx-h100");
        CHECK(rank_count(one.cluster) == (i == 0 ? 8 : 16));
        const SweepAnswer alone = sweep(asked(one, splits));
        CHECK(answer.of_each[i].step == alone.best.front().step);
        CHECK(answer.of_each[i].forecast == alone.best.front().forecast);
        REQUIRE(answer.of_each[i].campaign);
        CHECK(answer.of_each[i].campaign->money[1] > 0);
    }
    CHECK(answer.calibrated);
    all.back() = "machines=8xdgx-a100,8xh20-x8";
    CHECK_FALSE(sweep(asked(e, all)).calibrated);
    CHECK_THROWS_WITH(sweep(asked(e, {"machines=12xdgx-a100"})),
                      Catch::Contains("expected a multiple"));
    CHECK_THROWS_WITH(sweep(asked(e, {"machines=dgx-a100"})), Catch::Contains("COUNTxCLUSTER"));
}

// Of 8, 16 and 24 ranks two finish in time, and the smaller is marked.
TEST_CASE("the least machines within a time are the fewest ranks that end in it") {
    Experiment e = eight_ranks(small_gpt());
    e.parallelism.global_batch = 48;
    auto q = asked(
        e, {"parallelism=all", "parallelism.vp=1", "parallelism.zero=1", "cluster.nodes=2,4,6"});
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
    // Two counts of one machine are compared with each other, whichever way they are stated.
    q.within = Seconds(1e18);
    q.axes.back() = parse_axis("machines=8xdgx-h100,16xdgx-h100,8xdgx-a100");
    const SweepAnswer machines = sweep(q);
    REQUIRE(machines.of_each.size() == 3);
    for (const SweepRow& row : machines.of_each) CHECK(row.least_within == (row.ranks == 8));
}

// The market knows both GPUs, H100 at the higher price; a stated price applies to every machine.
TEST_CASE("money ranks machines by the market's prices, or by the one that is stated") {
    Experiment e = eight_ranks(small_gpt());
    auto q = asked(e, {"parallelism.dp=rest", "machines=8xdgx-a100,8xdgx-h100"});
    q.objective = Objective::cost;
    CHECK_THROWS_WITH(sweep(q), Catch::Contains("cluster.price_per_gpu_hour is not stated"));
    q.training = Training{1e12, 0, read_market()};
    for (const SweepRow& row : sweep(q).best) {
        REQUIRE(row.campaign);
        CHECK(row.campaign->offer.price_per_gpu_hour > 0);
        CHECK(row.cost_per_token ==
              Approx(row.campaign->offer.price_per_gpu_hour * 8 / 3600 / row.tokens_per_second));
    }
    q.stated = {{"cluster.price_per_gpu_hour", "2"}};
    for (const SweepRow& row : sweep(q).best) CHECK(row.campaign->offer.price_per_gpu_hour == 2);
}

// 90 GiB are more than an H100 has and less than an H200: the limit is that of the varied machine,
// not of the experiment's own. V100 has no bf16: beside another machine it is allowed, alone it is
// refused.
TEST_CASE("limits of one machine do not refuse a sweep over others") {
    Experiment e = eight_ranks(small_gpt());
    auto q = asked(e, {"parallelism.dp=rest", "machines=8xdgx-h100,8xdgx-h200"});
    q.where = parse_constraints(std::vector<std::string>{"memory.peak < 90 GiB"});
    CHECK(sweep(q).best.size() == 2);
    q.where = parse_constraints(std::vector<std::string>{"memory.peak > 100 GiB"});
    CHECK_THROWS_WITH(sweep(q), Catch::Contains("not memory.peak > 100 GiB"));
    q = asked(e, {"parallelism.dp=rest", "cluster.preset=dgx-v100,dgx-h100"});
    q.training = Training{1e12, 0, read_market()};
    q.within = Seconds(1e9);
    CHECK_NOTHROW(add_node_counts(q));
    q = asked(e, {"parallelism.dp=rest", "cluster.preset=dgx-v100"});
    q.training = Training{1e12, 0, read_market()};
    q.within = Seconds(1e9);
    CHECK_THROWS_WITH(add_node_counts(q),
                      "--within: none of dgx-v100 states a peak of bf16; expected one that does, "
                      "or another --set dtype");
}

// 2 nodes of 4 ranks at the peak would just finish in time, so 2 to 32 nodes are tried, with four
// significant bits (18, not 17).
TEST_CASE("without a number of nodes those are tried that may be needed") {
    auto q = asked(eight_ranks(small_gpt()), {"parallelism=all"});
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

TEST_CASE("what no closed form covers is simulated whole") {
    Experiment e = small_gpt();
    e.workload = {};
    e.workload.hidden = 64;
    e.workload.ffn = 128;
    e.workload.seq = 64;
    e.workload.moe.experts = 4;
    e.parallelism.dp = e.parallelism.ep = 4;
    const SweepAnswer answer =
        sweep(asked(e, {"parallelism.micro_batch=1..4", "workload.hidden=64,128"}));
    CHECK(answer.counts.simulated == 8);
    CHECK(answer.counts.bounded_away == 0);
    // the sequences per step are dp x micro_batch, so tokens rank
    CHECK(answer.objective == Objective::tokens);
    CHECK(std::ranges::is_sorted(answer.best, std::greater<>(), &SweepRow::tokens_per_second));
    REQUIRE(answer.map);
    CHECK(answer.map->simulated);
    CHECK(answer.map->of_token);
    CHECK(answer.map->rows == std::vector<std::string>{"1", "2", "3", "4"});
    CHECK(answer.map->columns == std::vector<std::string>{"64", "128"});
    CHECK_THAT(proof_text(answer), Catch::Contains("all 8 feasible configurations were simulated"));
}

// A small space is one round: every job reports the points walked, then every simulated point
// reports the best so far.
TEST_CASE(
    "progress says what has been walked, what is legal, and what is simulated with the best") {
    const auto q = asked(eight_ranks(small_gpt()), {"parallelism=all", "parallelism.vp=1"});
    std::vector<std::string> told;
    const SweepAnswer answer = sweep(
        q, {.threads = 1, .progress = [&](std::string_view text) { told.emplace_back(text); }});
    const auto points = static_cast<double>(answer.counts.points),
               legal = static_cast<double>(answer.counts.legal);
    const auto screened =
        std::ranges::find_if(told,
                             [](const std::string& t) { return t.starts_with("simulating"); }) -
        told.begin();
    REQUIRE(screened > 1);
    CHECK_THAT(told.front(), Catch::StartsWith("screening: ") && Catch::Contains(" s left"));
    const std::string all =
        fmt::format("{:.3g} of {:.3g} points ({:.3g} legal, ", points, points, legal);
    CHECK_THAT(
        told[static_cast<std::size_t>(screened) - 1],
        Catch::StartsWith("screening: " + all) && Catch::EndsWith(", at most 0 to simulate"));
    const auto simulated = told.size() - static_cast<std::size_t>(screened);
    CHECK(simulated == answer.counts.simulated - answer.counts.twins);
    CHECK_THAT(told[static_cast<std::size_t>(screened)],
               Catch::StartsWith("simulating: " + all) && Catch::Contains(", 1 simulated, best "));
    CHECK_THAT(told.back(),
               Catch::StartsWith("simulating: " + all) &&
                   Catch::Contains(fmt::format(", {} simulated, best {}, at most ", simulated,
                                               to_string(answer.best.front().step))));
}

// Cells of tp and pp, each with the shortest estimate of any point with both values; 0 where no
// point fits or is legal.
TEST_CASE("a heat map holds the best estimate of every pair of values") {
    for (const bool of_token : {false, true}) {
        auto q = asked(eight_ranks(small_gpt()),
                       {"parallelism.tp=1,2,4", "parallelism.pp=1,2,4,8", "parallelism.dp=rest",
                        "parallelism.micro_batch=1,2",
                        of_token ? "workload.seq=64,128" : "parallelism.zero=0,1"});
        const SweepAnswer answer = sweep(q);
        REQUIRE(answer.map);
        q = answerable(q);
        HeatMap expected{.row_key = "parallelism.tp",
                         .column_key = "parallelism.pp",
                         .rows = {"1", "2", "4"},
                         // 8 stages exceed 4 layers
                         .columns = {"1", "2", "4"},
                         .step = std::vector<Seconds>(9),
                         .of_token = of_token};
        for (const MetPoint& s : simulate_all(q)) {
            const Parallelism p =
                SweepSpace(q.experiment, q.axes).experiment_of(s.candidate.id).parallelism;
            const auto log2 = [](int n) { return n == 1 ? 0U : n == 2 ? 1U : 2U; };
            Seconds& cell = expected.step[3 * log2(p.tp) + log2(p.pp)];
            const Seconds estimate =
                of_token ? s.candidate.estimate / s.candidate.tokens : s.candidate.estimate;
            if (cell == Seconds(0) || estimate < cell) cell = estimate;
        }
        CHECK(*answer.map == expected);
        CHECK(answer.map->step.back() == Seconds(0));  // 16 ranks
    }
}

// One stage sends nothing, so the points with and without overlap of sends are the same.
TEST_CASE("of two points that differ in a switch without effect one is simulated") {
    const SweepAnswer answer = sweep(asked(
        eight_ranks(small_gpt()), {"parallelism.dp=8", "parallelism.overlap_p2p=true,false"}));
    CHECK(answer.counts.simulated == 2);
    CHECK(answer.counts.twins == 1);
    CHECK(answer.best[0].step == answer.best[1].step);
    REQUIRE(answer.best[1].behind);
    CHECK(answer.best[1].behind->p50 == 0);
    CHECK_FALSE(answer.best[1].behind->distinguishable);
}

TEST_CASE("what is ranked by memory is not behind in time") {
    auto q = asked(eight_ranks(small_gpt()), {"parallelism.dp=rest", "parallelism.tp=1,2,4"});
    q.objective = Objective::memory;
    const SweepAnswer answer = sweep(q);
    REQUIRE(answer.best.size() == 3);
    for (const SweepRow& row : answer.best) CHECK_FALSE(row.behind);
    CHECK(std::ranges::is_sorted(answer.best, {}, &SweepRow::peak));
}

TEST_CASE("a sweep that can have no answer says why") {
    const Experiment e = eight_ranks(small_gpt());
    CHECK_THROWS_WITH(sweep(asked(e, {"parallelism.tp=3,5"})),
                      Catch::Contains("none of 2 configurations is legal: tp = 3, 5 does not "
                                      "divide 8 GPUs; ") &&
                          Catch::Contains("is not the number of ranks (2)"));
    CHECK_THROWS_WITH(sweep(asked(e, {"parallelism=all"}, {"step < 1 ns"})),
                      Catch::Contains("is feasible: not step < 1 ns"));
    Experiment free = e;
    free.cluster.price_per_gpu_hour = 0;
    auto q = asked(free, {"parallelism=all"});
    q.objective = Objective::cost;
    CHECK_THROWS_WITH(sweep(q), Catch::Contains("cluster.price_per_gpu_hour is 0"));
    q.objective = Objective::step;
    q.top = 0;
    CHECK_THROWS_WITH(sweep(q), Catch::Contains("--top 0"));
    std::string announced;
    CHECK_THROWS_AS(sweep(asked(e, {"parallelism.tp=3..1002", "parallelism.pp=3..1002",
                                    "parallelism.dp=3..1002", "parallelism.micro_batch=3..1002"}),
                          {.announce = [&](std::string_view text) { announced = text; }}),
                    ConfigError);
    CHECK_THAT(announced, Catch::Contains("1,000,000,000,000 points"));
}

// A system that needs all four ranks spreads the experts of this run: of ep 1, 2 and 4 only the
// last is legal, of zero 0 and 3 only the first. No order of the values and no number of threads
// may admit another.
TEST_CASE("what only check_experiment() knows holds for every point of a sweep") {
    const Experiment e = read_unchecked_experiment("bert_mix_moe", {});
    for (const char* axis : {"parallelism.ep=1,2,4", "parallelism.ep=4,2,1", "parallelism.zero=0,3",
                             "parallelism.zero=3,0"})
        for (const int threads : {1, 3}) {
            INFO(axis << ", threads " << threads);
            const SweepAnswer answer = sweep(asked(e, {axis}), {.threads = threads});
            CHECK(answer.counts.legal == 1);
            REQUIRE(answer.best.size() == 1);
            CHECK(answer.best[0].settings[0].second ==
                  (std::string(axis).find("ep") == std::string::npos ? "0" : "4"));
            CHECK(answer.best[0].lower == Seconds(0));  // no closed form knows this model
        }
}

TEST_CASE("points without a price are not the cheapest") {
    Experiment e = eight_ranks(small_gpt());
    e.cluster.price_per_gpu_hour = 0;
    SweepQuestion q =
        asked(e, {"cluster.price_per_gpu_hour=0,2", "parallelism.tp=1,2", "parallelism.dp=rest"});
    q.objective = Objective::cost;
    const SweepAnswer answer = sweep(q);
    REQUIRE_FALSE(answer.best.empty());
    for (const auto& point : answer.best) CHECK(point.settings[0].second == "2");
}
