#include <algorithm>
#include <set>

#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/base/errors.h"
#include "sim/sweep/space.h"
#include "tests/split_space.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

std::vector<Axis> axes(const std::vector<std::string>& texts) {
    std::vector<Axis> all;
    for (const auto& text : texts) all.push_back(parse_axis(text));
    return all;
}

struct Walked {
    std::vector<PointId> legal;
    std::vector<ParallelPlan> splits;
    std::uint64_t illegal = 0;
    std::map<std::string, std::uint64_t> reasons;
};

Walked walk(const SweepSpace& space) {
    Walked walked;
    for (std::uint64_t item = 0; item < space.item_count(); ++item) {
        const std::uint64_t number = space.base_of_item(item);
        space.visit(space.base(number), item,
                    {.legal =
                         [&](std::uint64_t inner, const ParallelPlan& split) {
                             walked.legal.push_back({number, inner});
                             walked.splits.push_back(split);
                         },
                     .illegal =
                         [&](std::string_view reason, std::uint64_t points) {
                             walked.illegal += points;
                             walked.reasons[std::string(reason)] += points;
                         }});
    }
    return walked;
}

Experiment on_eight(Experiment e) {
    e.cluster.nodes = 2;
    e.parallelism.global_batch = 12;
    return e;
}

}  // namespace

TEST_CASE("every point is met once: legal where check_experiment() accepts it, else counted") {
    Experiment e = on_eight(small_gpt());
    e.runtime.attention = AttentionKind::plain;
    for (const bool experts : {false, true}) {
        if (experts) e = on_eight(small_moe());
        const SweepSpace space(
            e,
            axes({"parallelism.tp=1,2,3,8", "parallelism.pp=1,2,4", "parallelism.dp=1,2,4",
                  "parallelism.cp=1,2", "parallelism.vp=1..3", "parallelism.ep=1,2,3",
                  "parallelism.micro_batch=1,2,5", "parallelism.schedule=gpipe,1f1b,zb-v,dualpipe",
                  "parallelism.zero=0,3", "parallelism.sequence_parallel=false,true"}));
        CHECK(space.point_count() == 4ULL * 3 * 3 * 2 * 3 * 3 * 3 * 4 * 2 * 2);
        const Walked walked = walk(space);
        CHECK(walked.legal.size() + walked.illegal == space.point_count());
        CHECK(std::set(walked.legal.begin(), walked.legal.end()).size() == walked.legal.size());
        // the same count by asking check_experiment() about every combination
        std::size_t expected = 0;
        for (int tp : {1, 2, 3, 8})
            for (int pp : {1, 2, 4})
                for (int dp : {1, 2, 4})
                    for (int cp : {1, 2})
                        for (int ep : {1, 2, 3})
                            for (int mb : {1, 2, 5})
                                for (bool sp : {false, true}) {
                                    if (tp * pp * dp * cp != 8) continue;
                                    for (int vp : {1, 2, 3})
                                        for (auto s : {Schedule::gpipe, Schedule::one_f_one_b,
                                                       Schedule::zb_v, Schedule::dualpipe}) {
                                            Experiment tried = e;
                                            auto& p = tried.parallelism;
                                            p.tp = tp, p.pp = pp, p.dp = dp, p.cp = cp, p.ep = ep,
                                            p.vp = vp;
                                            p.micro_batch = mb, p.sequence_parallel = sp,
                                            p.schedule = s;
                                            if (is_legal(tried)) expected += 2;  // both zero stages
                                        }
                                }
        CHECK(expected > 0);
        CHECK(walked.legal.size() == expected);
        for (std::size_t i = 0; i < walked.legal.size(); i += 7) {
            const Experiment found = space.experiment_of(walked.legal[i]);
            CHECK(plan_of(found) == walked.splits[i]);
            CHECK(is_legal(found));
        }
    }
}

// A framework derives from the split: who shares experts (tp > 1), whether tokens go once (ep > 1),
// blocking sends (pp > 1), the rate of shards (zero 3), groups of the optimizer (ep and pp). No
// point may depend on the split that the sweep began with.
TEST_CASE(
    "a point is what its keys make of the experiment, whatever the framework derives from them") {
    Experiment e = on_eight(small_moe());
    Framework& f = e.framework;
    f.name = "trainer";
    for (const auto& [key, value] :
         std::vector<std::pair<const char*, const char*>>{{"experts.tensor_parallel", "wide"},
                                                          {"exchanges.gradients", "always"},
                                                          {"exchanges.tensor", "split_sequence"},
                                                          {"experts.dispatch", "once_dropless"}})
        set_rule(f, std::string("runtime.") + key, value);
    e.runtime.experts.tensor_parallel = ExpertSplit::none;
    for (const bool more : {false, true}) {
        if (more) {
            const Condition zero_3{"parallelism.zero", {"3"}}, one_chunk{"parallelism.vp", {"1"}},
                one_stage{"parallelism.pp", {"1"}};
            f.rules.push_back({{zero_3}, {}, {"cluster.link.inter.training", "0.5"}});
            f.rules.push_back({{one_chunk}, {one_stage}, {"runtime.pipeline.blocking", "true"}});
            set_rule(f, "runtime.optimizer.calls", "3");
            set_rule(f, "runtime.optimizer.visits_experts", "true");
        }
        for (const int tp : {1, 2}) {
            set_key(e, {"parallelism.tp", std::to_string(tp)});
            const SweepSpace space(
                e, axes({"parallelism.tp=1,2", "parallelism.pp=1,2", "parallelism.dp=rest",
                         "parallelism.ep=1,2", "parallelism.zero=0,3",
                         "parallelism.sequence_parallel=false,true"}));
            CHECK(space.point_count() == 32);
            const Walked walked = walk(space);
            CHECK(walked.legal.size() > 8);
            for (const PointId id : walked.legal) {
                const Experiment found = space.experiment_of(id);
                Experiment set = e;
                for (const char* key :
                     {"parallelism.tp", "parallelism.pp", "parallelism.dp", "parallelism.ep",
                      "parallelism.zero", "parallelism.sequence_parallel"})
                    set_key(set, {key, get_key(found, key)});
                CHECK(found.parallelism == set.parallelism);
                CHECK(found.runtime == set.runtime);
                CHECK(found.cluster == set.cluster);
                CHECK(found.workload == set.workload);
            }
        }
    }
}

// Experts of width 68, which 8 does not divide, and 16 of them on 16 ranks of tp, dp and cp
// together: legal where the framework leaves experts whole as soon as tp is above 1, illegal where
// each is split. The sweep begins at tp = 1, where experts are split.
TEST_CASE(
    "the rules of tp and of expert groups are those of experts as the framework has them at that "
    "tp") {
    Experiment e = small_moe();
    e.workload.heads = 8;
    e.workload.moe = {.experts = 16, .top_k = 2, .ffn = 68};
    e.cluster.nodes = 16;
    e.parallelism = {};
    e.parallelism.dp = 64;
    e.parallelism.global_batch = 64;
    e.framework.name = "trainer";
    for (const bool whole : {true, false}) {
        set_rule(e.framework, "runtime.experts.tensor_parallel", whole ? "none" : "wide");
        apply_framework(e);
        const SweepSpace space(e, axes({"parallelism.tp=1,2,4,8", "parallelism.dp=rest",
                                        "parallelism.ep=1,2,4,8,16"}));
        const Walked walked = walk(space);
        CHECK(walked.legal.size() + walked.illegal == 20);
        std::size_t expected = 0;
        for (const int tp : {1, 2, 4, 8})
            for (const int ep : {1, 2, 4, 8, 16}) {
                Experiment tried = e;
                tried.parallelism.tp = tp, tried.parallelism.dp = 64 / tp,
                tried.parallelism.ep = ep;
                apply_framework(tried);
                expected += is_legal(tried) ? 1 : 0;
            }
        CHECK(walked.legal.size() == expected);
        CHECK(expected == (whole ? 20U : 5 + 5 + 5));  // split: 68 / 8 is no whole number
        const bool there = std::ranges::any_of(walked.splits, [](const ParallelPlan& plan) {
            return plan.parallelism.tp == 8 && plan.parallelism.ep == 16;
        });
        CHECK(there == whole);
    }
}

// Eight ranks, 4 layers, 4 heads, batch 12. Every split is legal, and none is there twice.
TEST_CASE("parallelism=all makes legal splits only, each once") {
    const Experiment e = on_eight(small_gpt());
    const SweepSpace space(e, axes({"parallelism=all"}));
    const Walked walked = walk(space);
    CHECK(walked.legal.size() + walked.illegal == space.point_count());
    for (const auto& [split, exchanges] : walked.splits) {
        Experiment tried = e;
        tried.parallelism = split;
        REQUIRE(is_legal(tried));
        CHECK(split.tp * split.pp * split.cp * split.dp == 8);
        CHECK((split.pp > 1 || (split.schedule == Schedule::one_f_one_b && split.vp == 1)));
    }
    // with tp = 4, pp = 2 and the rest fixed: micro-batches 1, 2, 3, 4, 6, 12 of 12 sequences; the
    // schedules gpipe, zb-h1 and zb-v (two chunks, four layers), 1f1b with vp 1, and vp 2 where
    // their number is even (12, 6, 4, 2); dualpipe where named. Two chunks are laid as 2, 2 (also
    // with both ends light) or 3, 1; four as 1, 1, 1, 1, as 2, 1, 1, 0 or as 1, 2, 1, 0.
    auto some = axes({"parallelism=all", "parallelism.tp=4", "parallelism.pp=2", "parallelism.cp=1",
                      "parallelism.recompute=none", "parallelism.zero=0",
                      "parallelism.sequence_parallel=false"});
    const SweepSpace narrow(e, some);
    CHECK(walk(narrow).legal.size() == 6 * (3 * 2 + 3) + 4 * 3);
    CHECK(narrow.schedules_left_out() == std::vector<std::string>{"dualpipe"});
    some.push_back(parse_axis("parallelism.schedule=1f1b,dualpipe"));
    const SweepSpace named(e, some);
    CHECK(walk(named).legal.size() == 6 * (2 + 2) + 4 * 3);
    CHECK(named.schedules_left_out().empty());
    CHECK(SweepSpace(e, axes({"parallelism.tp=1,2"})).schedules_left_out().empty());
}

// torchtitan's selective recompute is alternate; a framework that states nothing has Megatron's.
TEST_CASE("parallelism=all walks the recompute modes of the framework") {
    Experiment e = on_eight(small_gpt());
    const auto walked = [&] {
        std::set<Recompute> modes;
        for (const auto& [split, exchanges] : walk(SweepSpace(e, axes({"parallelism=all"}))).splits)
            modes.insert(split.recompute);
        return modes;
    };
    CHECK(walked() == std::set{Recompute::none, Recompute::selective, Recompute::full});
    e.framework.can.recompute = {Recompute::none, Recompute::full, Recompute::alternate};
    CHECK(walked() == std::set{Recompute::none, Recompute::full, Recompute::alternate});
}

// Prices belong to a base; returning to an earlier base would mean pricing it again.
TEST_CASE("items are screened once each, base after base") {
    Experiment e = small_gpt();
    e.parallelism.global_batch = 12;
    const SweepSpace space(e, {parse_axis("parallelism=all"), parse_axis("cluster.nodes=1,2,3"),
                               parse_axis("workload.hidden=64,128")});
    std::vector<std::uint64_t> items, bases;
    for (std::uint64_t position = 0; position < space.item_count(); ++position) {
        items.push_back(space.screened_item(position));
        bases.push_back(space.base_of_item(items.back()));
    }
    CHECK(std::ranges::is_sorted(bases));
    CHECK(bases.back() == 5);
    // within a base the first items already come from all regions
    CHECK_FALSE(std::ranges::is_sorted(items));
    std::ranges::sort(items);
    for (std::uint64_t i = 0; i < items.size(); ++i) REQUIRE(items[i] == i);
}

TEST_CASE("data-parallel ranks are what the other splits leave") {
    const SweepSpace space(
        on_eight(small_gpt()),
        axes({"parallelism.dp=rest", "parallelism.tp=1,2,4", "cluster.nodes=1,2"}));
    const Walked walked = walk(space);
    std::vector<int> replicas;
    for (const auto& [p, exchanges] : walked.splits) replicas.push_back(p.dp);
    CHECK(replicas ==
          // on two nodes tp = 1 would be dp 8: 12 sequences do not divide
          std::vector<int>{4, 2, 1, 4, 2});
    CHECK(space.settings_of(walked.legal.back()) ==
          Settings{{"parallelism.dp", "2"}, {"parallelism.tp", "4"}, {"cluster.nodes", "2"}});
    const VariedKey& nodes = space.varied()[2];
    CHECK(nodes.name == "cluster.nodes");
    CHECK(space.value_at(nodes, 1) == "2");
    CHECK(space.position(nodes, walked.legal.back().base, walked.splits.back()) == 1);
}

TEST_CASE(
    "workloads without fast rules go through check_experiment(), complaints with their numbers") {
    Experiment e = small_gpt();
    e.workload = {};
    e.workload.hidden = 64;
    e.workload.ffn = 128;
    e.workload.seq = 64;
    e.workload.moe.experts = 4;
    e.parallelism.dp = e.parallelism.ep = 4;
    const Walked walked = walk(SweepSpace(
        e,
        axes({"parallelism.dp=2,4,8", "parallelism.micro_batch=1,2", "workload.hidden=64,128"})));
    CHECK(walked.legal.size() == 4);
    CHECK(walked.illegal == 8);
    REQUIRE(walked.reasons.size() == 2);  // count_reason() makes one of them, with a range
    for (const auto& [reason, points] : walked.reasons) {
        CHECK_THAT(reason,
                   Catch::Contains("data 2 x tensor 1") || Catch::Contains("data 8 x tensor 1"));
        CHECK(points == 4);
    }
}

TEST_CASE("spaces beyond counting are refused, large ones are not stored") {
    CHECK(
        SweepSpace(small_gpt(), axes({"parallelism.tp=1..1000", "parallelism.pp=1..1000",
                                      "parallelism.dp=1..1000", "parallelism.micro_batch=1..1000"}))
            .point_count() == 1'000'000'000'000);
    CHECK_THROWS_WITH(
        SweepSpace(small_gpt(),
                   axes({"parallelism.tp=1..99999", "parallelism.pp=1..99999",
                         "parallelism.dp=1..99999", "parallelism.micro_batch=1..99999"})),
        Catch::Contains("expected at most 1e+18"));
    // six keys of 1000 values are 1e18 points; three settings of 1000^5 x 400 are 1.2e18
    std::vector<std::string> thousand;
    for (const char* key : {"tp", "pp", "dp", "cp", "ep", "micro_batch"})
        thousand.push_back(std::string("parallelism.") + key + "=1..1000");
    CHECK(SweepSpace(small_gpt(), axes(thousand)).point_count() == 1'000'000'000'000'000'000);
    thousand.back() = "parallelism.micro_batch=1..400";
    thousand.push_back("workload.hidden=64,128,256");
    CHECK_THROWS_WITH(SweepSpace(small_gpt(), axes(thousand)),
                      "sweep: 1.2e+18 points are asked for; expected at most 1e+18");
    thousand.back() = "workload.hidden=64,128";
    CHECK(SweepSpace(small_gpt(), axes(thousand)).point_count() == 800'000'000'000'000'000);
    CHECK_THROWS_WITH(
        SweepSpace(small_gpt(), axes({"workload.hidden=1..10000", "workload.ffn=1..10000"})),
        Catch::Contains("1e+08 settings of keys"));
}
