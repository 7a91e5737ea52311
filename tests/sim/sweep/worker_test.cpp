#include "sim/sweep/worker.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "model/base/numbers.h"
#include "sim/predict.h"
#include "sim/sweep/sweep.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

SweepQuestion asking(const std::vector<std::string>& vary) {
    SweepQuestion q;
    q.experiment = small_gpt();
    q.experiment.parallelism.global_batch = 16;
    for (const auto& text : vary) q.axes.push_back(parse_axis(text));
    return q;
}

}  // namespace

// A step of 3 s with 500 tokens, at a price of 7 per second, in 11 bytes: 3 s, 0.006 s per token,
// 0.042 money per token, 11 bytes.
TEST_CASE("each objective's score is the less the better") {
    const Candidate c{{1, 2}, Seconds(2), Seconds(5), Bytes(11), 500, 7, 4};
    CHECK(score(Objective::step, c, Seconds(3)) == 3);
    CHECK(score(Objective::tokens, c, Seconds(3)) == 3.0 / 500);
    CHECK(score(Objective::cost, c, Seconds(3)) == Approx(0.042));
    CHECK(score(Objective::memory, c, Seconds(3)) == 11);
    SweepQuestion q = asking({"parallelism.tp=1,2"});
    CHECK(scores(q, c, Seconds(3)) == Score{3, 0});
    q.second = Objective::memory;
    CHECK(scores(q, c, Seconds(3)) == Score{3, 11});
    // the lower bound of 2 s, less a margin for sums in another order
    CHECK(lower_scores(q, c).first == Approx(2).epsilon(1e-8));
    CHECK(lower_scores(q, c).first < 2);
}

// A global batch of eight is the same work whatever the split; a batch per replica is more with
// more replicas.
TEST_CASE(
    "the work of a step differs with the model, the length and the batch, and with replicas that "
    "each bring their own") {
    CHECK_FALSE(work_differs(
        asking({"parallelism.tp=1,2", "parallelism.dp=1,2", "parallelism.micro_batch=1,2"})));
    CHECK(work_differs(asking({"workload.seq=64,128"})));
    CHECK_FALSE(work_differs(asking({"workload.seq=64"})));
    CHECK(work_differs(asking({"parallelism.global_batch=8,16"})));
    CHECK_FALSE(work_differs(asking({"parallelism.global_batch=8", "parallelism.dp=1,2"})));
    CHECK(work_differs(asking({"parallelism.global_batch=0", "parallelism.dp=1,2"})));
    SweepQuestion unset = asking({"parallelism.dp=rest", "parallelism.tp=1,2"});
    unset.experiment.parallelism.global_batch = 0;
    CHECK(work_differs(unset));
    unset.axes = {parse_axis("parallelism.micro_batch=1,2")};
    CHECK(work_differs(unset));
    unset.axes = {parse_axis("parallelism.micro_batch=2"), parse_axis("parallelism.dp=2")};
    CHECK_FALSE(work_differs(unset));
    unset.axes = {parse_axis("parallelism=all")};
    CHECK(work_differs(unset));
    unset.axes = {parse_axis("parallelism=all"), parse_axis("parallelism.dp=2")};
    CHECK_FALSE(work_differs(unset));
}

TEST_CASE("where the work differs tokens take the place of the step, once") {
    SweepQuestion q = asking({"workload.seq=64,128"});
    q.objective = Objective::memory;
    q.second = Objective::step;
    CHECK(answerable(q).objective == Objective::memory);
    CHECK(answerable(q).second == Objective::tokens);
    q.objective = Objective::tokens;
    CHECK(answerable(q).objective == Objective::tokens);
    CHECK_FALSE(answerable(q).second);
    q.axes = {parse_axis("parallelism.tp=1,2")};
    q.objective = Objective::step;
    q.second = Objective::memory;
    CHECK(answerable(q).objective == Objective::step);
    CHECK(answerable(q).second == Objective::memory);
}

// Up to 256 settings have their own best each, 257 none; splits are not settings.
TEST_CASE("the best is wanted of each number of ranks, or of each setting of machines") {
    CHECK(grouping(asking({"parallelism.tp=1,2"})) == Grouping::none);
    CHECK(grouping(asking({"cluster.link.intra.bandwidth=1 GB/s,2 GB/s"})) == Grouping::none);
    CHECK(grouping(asking({"cluster.nodes=1,2", "parallelism=all"})) == Grouping::ranks);
    CHECK(grouping(asking({"cluster.gpus_per_node=1,2"})) == Grouping::ranks);
    CHECK(grouping(asking({"machines=8xdgx-a100,16xdgx-a100"})) == Grouping::settings);
    // a single setting has none to compare with
    CHECK(grouping(asking({"cluster.preset=dgx-a100"})) == Grouping::none);
    CHECK(grouping(asking({"cluster.preset=dgx-a100,dgx-h100", "parallelism.tp=1,2"})) ==
          Grouping::settings);
    SweepQuestion q = asking({"cluster.nodes=1..256"});
    q.within = Seconds(1);
    CHECK(grouping(q) == Grouping::settings);
    q.second = Objective::memory;
    CHECK(grouping(q) == Grouping::ranks);
    q = asking({"cluster.nodes=1..257"});
    q.within = Seconds(1);
    CHECK(grouping(q) == Grouping::ranks);
    const Candidate c{{3, 5}, Seconds(1), Seconds(1), Bytes(1), 1, 1, 7};
    CHECK(group_of(Grouping::none, c) == 0);
    CHECK(group_of(Grouping::settings, c) == 3);
    CHECK(group_of(Grouping::ranks, c) == 7);
    q.top = 3;
    CHECK(wanted(q).top == 3);
    CHECK(wanted(q).by_group);
    CHECK_FALSE(wanted(q).front);
}

TEST_CASE("what parts of a sweep screened adds up, and of a cell the shorter estimate stays") {
    const Candidate a{{1, 1}, Seconds(1), Seconds(1), Bytes(1), 1, 1, 1},
        b{{2, 2}, Seconds(2), Seconds(2), Bytes(2), 2, 2, 2};
    Screened all{.legal = 2,
                 .bounded_away = 3,
                 .illegal = {{"tp 2", 5}},
                 .infeasible = {{"does not fit", 7}},
                 .candidates = {a},
                 .cells = {{{0, 0}, Seconds(5)}, {{0, 1}, Seconds(7)}}};
    merge(all,
          Screened{.legal = 11,
                   .bounded_away = 13,
                   .illegal = {{"tp 4", 17}},
                   .infeasible = {{"does not fit", 19}, {"other", 23}},
                   .candidates = {b},
                   .cells = {{{0, 0}, Seconds(3)}, {{0, 1}, Seconds(9)}, {{1, 1}, Seconds(8)}}});
    CHECK(all ==
          Screened{.legal = 13,
                   .bounded_away = 16,
                   .illegal = {{"tp 2..4", 22}},
                   .infeasible = {{"does not fit", 26}, {"other", 23}},
                   .candidates = {a, b},
                   .cells = {{{0, 0}, Seconds(3)}, {{0, 1}, Seconds(7)}, {{1, 1}, Seconds(8)}}});
}

// Draws of the routing have different peaks and the largest counts: half of it does not fit, ample
// memory does.
TEST_CASE("a split fits where the worst of its routings does") {
    Experiment e = small_moe();
    e.routing.kind = RoutingSpec::Kind::random_gate;
    e.routing.draws = 3;
    e.cluster.gpu.memory = Bytes(1e15);
    const StepBound roomy = PointEvaluator(e).bound(plan_of(e));
    CHECK(roomy.fits);
    e.cluster.gpu.memory = 0.5 * roomy.peak;
    CHECK_FALSE(PointEvaluator(e).bound(plan_of(e)).fits);
}

// 3,600 per hour and rank, four ranks: four per second. 16 sequences of 128 tokens.
TEST_CASE("what is known of a point beside its step follows from the machine and the batch") {
    Experiment e = small_gpt();
    e.cluster.price_per_gpu_hour = 3600;
    e.parallelism.dp = 2;
    e.parallelism.micro_batch = 5;
    const PointEvaluator evaluator(e);
    const double a_token = model_flops(e, 1).si();
    const PointFacts facts = evaluator.facts(plan_of(e), Bytes(3));
    CHECK(facts.tokens == 2 * 5 * 128);
    CHECK(facts.price == 4);
    CHECK(facts.peak == Bytes(3));
    CHECK(facts.flops.si() == Approx(2 * 5 * 128 * a_token));
    CHECK(facts.peak_flops == 4 * peak(e.cluster.gpu, Dtype::bf16));
    CHECK(evaluator.ranks() == 4);
    e.parallelism.global_batch = 16;
    CHECK(evaluator.facts(plan_of(e), Bytes(3)).tokens == 16 * 128);
}

// The two dispatches are two bases, as are two widths of the model. A pipeline's paths do not
// depend on the dispatch.
TEST_CASE("bases that differ in the software's switches share their pipelines") {
    SweepQuestion q = asking({"parallelism=all"});
    q.experiment.framework.name = "trainer";
    q.experiment.framework.can.switches = {"runtime.experts.dispatch=all_to_all|once"};
    q.experiment.workload.moe = {.experts = 4, .top_k = 2};
    const SweepSpace switched(q.experiment, q.axes);
    REQUIRE(switched.switches().size() == 1);
    SweepCommons commons;
    const auto first = commons.pipelines(switched, 0);
    CHECK(commons.pipelines(switched, 1) == first);
    const SweepSpace asked(q.experiment,
                           {parse_axis("parallelism=all"), parse_axis("workload.ffn=64,128")});
    SweepCommons others;
    const auto narrow = others.pipelines(asked, 0);
    CHECK(others.pipelines(asked, 1) != narrow);
}

// One job with all items: what it finds without incumbents, with the middle one of its bounds as
// the best step so far, and with a step that is below all coarse bounds. Some points are excluded
// then, or all, many by their coarse bound alone; every count, every cell and every other point is
// as before.
TEST_CASE("what incumbents exclude by coarse bounds changes no count, no cell and no other point") {
    SweepQuestion q =
        asking({"parallelism.pp=1,2,4", "parallelism.tp=1,2,4", "parallelism.micro_batch=1,2",
                "parallelism.zero=0,1", "parallelism.schedule=1f1b,gpipe,zb-h1"});
    q.top = 1;
    const SweepSpace space(q.experiment, q.axes);
    const auto run = [&](SweepJob job) {
        for (std::uint64_t item = 0; item < space.item_count(); ++item) job.items.push_back(item);
        return SweepWorker(space, q, std::make_shared<SweepCommons>()).run(job).screened;
    };
    const Screened all = run({});
    REQUIRE(all.candidates.size() > 20);
    std::vector<Candidate> sorted = all.candidates;
    std::ranges::sort(sorted, {}, &Candidate::lower);
    const Candidate middle = sorted[sorted.size() / 2];
    const auto taking = [&](Seconds step) {
        return std::vector{incumbent(middle, scores(q, middle, step), Grouping::none)};
    };
    for (const auto& [step, least] : {std::pair(middle.lower, all.candidates.size() / 3),
                                      {Seconds(1e-9), all.candidates.size()}})
        for (const MapCells& cells : {MapCells(), all.cells}) {
            const Screened found = run({.incumbents = taking(step), .cells = cells});
            CHECK(found.legal == all.legal);
            CHECK(found.tight == all.tight);
            CHECK(found.infeasible == all.infeasible);
            CHECK(found.cells == all.cells);
            CHECK(found.bounded_away + found.candidates.size() == all.candidates.size());
            CHECK(found.bounded_away >= least);
            for (const Candidate& c : found.candidates)
                CHECK(std::ranges::find(all.candidates, c) != all.candidates.end());
        }
}

// Of all items, the three kinds of split with the least coarse bound, and the best by it of each of
// the nine cells of tp x pp: as one that screens them all finds them, with their estimates. Nothing
// is counted. Of kinds beyond the three only those of cells come back.
TEST_CASE("scouts find the best kinds by their coarse bounds, and one point of each cell") {
    SweepQuestion q = asking({"parallelism=all", "parallelism.pp=1,2,4", "parallelism.tp=1,2,4",
                              "parallelism.schedule=1f1b,gpipe"});
    const SweepSpace space(q.experiment, q.axes);
    const auto run = [&](std::uint64_t scouted) {
        SweepJob job;
        for (std::uint64_t item = 0; item < space.item_count(); ++item) job.items.push_back(item);
        job.scouted = scouted;
        return SweepWorker(space, q, std::make_shared<SweepCommons>()).run(job).screened;
    };
    const Screened all = run(0), scouted = run(3);
    CHECK(scouted.legal + scouted.bounded_away + scouted.tight == 0);
    CHECK(scouted.infeasible.empty());
    std::map<std::uint64_t, Seconds> coarse;  // by kind
    for (const Candidate& c : all.candidates) {
        PointEvaluator evaluator(space.experiment_of(c.id));
        const Seconds least = evaluator.coarse(plan_of(space.experiment_of(c.id))).lower;
        const auto [kind, is_new] = coarse.try_emplace(c.kind, least);
        if (!is_new) kind->second = std::min(kind->second, least);
    }
    std::vector<std::pair<Seconds, std::uint64_t>> kinds;
    for (const auto& [kind, least] : coarse) kinds.emplace_back(least, kind);
    std::ranges::sort(kinds);
    REQUIRE(kinds.size() > 3);
    for (std::size_t i = 0; i < 3; ++i)
        CHECK(std::ranges::find(scouted.candidates, kinds[i].second, &Candidate::kind) !=
              scouted.candidates.end());
    for (const Candidate& c : scouted.candidates)
        CHECK(std::ranges::find(all.candidates, c) != all.candidates.end());
    CHECK(scouted.candidates.size() <= 3 + all.cells.size());
    REQUIRE(scouted.cells.size() == all.cells.size());
    for (const auto& [cell, best] : all.cells) CHECK(scouted.cells.at(cell) >= best);
}

// Half of the memory is to stay free, so that large peaks are within the margin: each cell has the
// best estimate of the others, and one that has no other is not there.
TEST_CASE("cells leave out what is within the margin of the memory") {
    SweepQuestion q = asking({"parallelism.pp=1,2,4", "parallelism.tp=1,2,4",
                              "parallelism.micro_batch=1,2,4", "parallelism.recompute=none,full"});
    q.experiment.cluster.overheads = {.context = Bytes(0)};
    q.experiment.cluster.overheads.margin = 0.5;
    const auto run = [&](Bytes memory) {
        q.experiment.cluster.gpu.memory = memory;
        const SweepSpace space(q.experiment, q.axes);
        SweepJob job;
        for (std::uint64_t item = 0; item < space.item_count(); ++item) job.items.push_back(item);
        const Screened found =
            SweepWorker(space, q, std::make_shared<SweepCommons>()).run(job).screened;
        MapCells cells;
        for (const Candidate& c : found.candidates) {
            if (c.tight) continue;
            const ParallelPlan split = plan_of(space.experiment_of(c.id));
            const std::vector<VariedKey> keys = map_keys(space);
            merge(cells, {{{space.position(keys[0], c.id.base, split),
                            space.position(keys[1], c.id.base, split)},
                           c.estimate}});
        }
        CHECK(found.cells == cells);
        return found;
    };
    const Screened roomy = run(Bytes(1e15));
    CHECK(roomy.tight == 0);
    std::vector<Bytes> peaks;
    for (const Candidate& c : roomy.candidates) peaks.push_back(c.peak);
    std::ranges::sort(peaks);
    const Screened narrow = run(2 * peaks[peaks.size() / 4]);
    CHECK(narrow.tight > 0);
    CHECK(narrow.cells != roomy.cells);
}

// A job whose incumbent excludes all: the map of the page has all the same the best point of each
// pair of values.
TEST_CASE("what incumbents exclude is in the map all the same") {
    const SweepQuestion q = asking({"parallelism.pp=1,2,4", "parallelism.tp=1,2,4",
                                    "parallelism.micro_batch=1,2", "parallelism.zero=0,1"});
    const SweepSpace space(q.experiment, q.axes);
    MapCells cells;
    const auto mapped = [&](std::vector<Incumbent> incumbents) {
        MapCollectors map(space, false);
        SweepWorker worker(space, q, std::make_shared<SweepCommons>(&map));
        SweepJob job{.incumbents = std::move(incumbents), .cells = cells};
        for (std::uint64_t item = 0; item < space.item_count(); ++item) job.items.push_back(item);
        cells = worker.run(job).screened.cells;
        int joined = 0;
        std::vector<std::pair<PointId, double>> points;
        for (const auto& [id, point] : map.together().best(1000, joined))
            points.emplace_back(id, point.score);
        return points;
    };
    std::vector<Incumbent> best;  // as many as are wanted
    for (std::uint64_t i = 0; best.size() < as_index(q.top); ++i)
        best.push_back({.score = {1e-9 * (1 + real(i))}, .id = {0, i}, .group = 0, .kind = i});
    const auto all = mapped({});
    REQUIRE(all.size() >= 3);
    for (auto& [at, step] : cells) step = Seconds(1e-9);  // below all bounds, as the incumbents
    CHECK(mapped(best) == all);
}

// This allocator rounds tensors up to halves of powers of two, of which the closed form knows
// nothing: in 1.01 times what that needs no replay fits. Where the step is too slow for the table
// anyway, the closed form's word stands.
TEST_CASE("memory is replayed of a split that is fast enough, and of no other") {
    SweepQuestion q = asking({"parallelism.zero=0"});
    q.top = 1;
    q.experiment.cluster.overheads = {.context = Bytes(0)};
    q.experiment.cluster.overheads.margin = 0;
    q.experiment.parallelism.dp = rank_count(q.experiment.cluster);
    q.experiment.run.allocator = "roundup_power2_divisions:2";
    q.experiment.workload.seq = 4400;  // 1.07 x 4096
    const auto simulated = [&](Bytes memory, double best) {
        q.experiment.cluster.gpu.memory = memory;
        const SweepSpace space(q.experiment, q.axes);
        SweepWorker worker(space, q, std::make_shared<SweepCommons>());
        SweepJob job;
        for (std::uint64_t item = 0; item < space.item_count(); ++item) job.items.push_back(item);
        SweepJob one{.points = worker.run(job).screened.candidates};
        if (best > 0) one.incumbents = {{.score = {best}, .id = {1, 0}, .group = 0, .kind = 1}};
        return worker.run(one).simulated;
    };
    const Bytes needs = PointEvaluator(q.experiment).coarse(plan_of(q.experiment)).peak;
    const auto found = simulated(1.01 * needs, 0);
    REQUIRE(found.size() == 1);
    CHECK(found.front().refused ==
          "does not fit into the device's memory, as its allocator is replayed");
    const double step = found.front().step.si();
    CHECK_FALSE(simulated(1.01 * needs, 2 * step).front().refused.empty());
    CHECK(simulated(1.01 * needs, step / 2).front().refused.empty());
    CHECK(simulated(100 * needs, 0).front().refused.empty());
}

// The same allocator on a device that leaves 1 % free of what is reserved, less than the margin of
// 2 %: by the closed form, whose peak is a fifth less, more is free. With full recompute there is
// room, and the step is longer.
TEST_CASE("a split that only its replay finds within the margin comes last") {
    SweepQuestion q = asking({"parallelism.recompute=none,full"});
    q.experiment.cluster.overheads = {.context = Bytes(0)};
    q.experiment.parallelism.dp = rank_count(q.experiment.cluster);
    q.experiment.run.allocator = "roundup_power2_divisions:2";
    q.experiment.workload.seq = 4400;
    q.experiment.cluster.gpu.memory = Bytes(1e12);
    const SweepRow roomy = sweep(q).best.front();
    REQUIRE(roomy.settings == Settings{{"parallelism.recompute", "none"}});
    q.experiment.cluster.gpu.memory = roomy.forecast.memory.reserved / 0.99;
    REQUIRE_FALSE(PointEvaluator(q.experiment).coarse(plan_of(q.experiment)).tight);
    const SweepAnswer answer = sweep(q);
    REQUIRE(answer.best.size() == 2);
    CHECK((!answer.best[0].tight && answer.best[1].tight));
    CHECK(answer.best[1].settings == roomy.settings);
    CHECK(answer.best[1].step < answer.best[0].step);
    CHECK(answer.counts.tight == 1);
    q.experiment.cluster.overheads.margin = 0;  // ranked with the others again
    CHECK(sweep(q).best.front().settings == roomy.settings);
}
