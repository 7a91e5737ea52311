#include "sim/sweep/split_rules.h"

#include <catch2/catch.hpp>

#include "tests/transformers.h"

using namespace stepcast;

namespace {

// 8 ranks; 4 layers, 4 heads, feed-forward of 256, 128 tokens.
Experiment on_eight_ranks() {
    Experiment e = small_gpt();
    e.cluster.nodes = 2;
    e.parallelism.global_batch = 16;
    return e;
}

template <class Change>
std::optional<SplitRule> broken(SplitKey key, Change change, bool once = false) {
    Experiment e = on_eight_ranks();
    change(e, e.parallelism);
    return SplitRules(e, once).broken_by(key, e.parallelism);
}

constexpr std::optional<SplitRule> legal;

}  // namespace

TEST_CASE("tensor parallelism divides the ranks, heads and feed-forward blocks") {
    const auto tp = [](int n, auto change) {
        return broken(SplitKey::tp, [&](Experiment& e, Parallelism& p) {
            p.tp = n;
            change(e.workload);
        });
    };
    const auto as_is = [](Workload&) {};
    CHECK(tp(4, as_is) == legal);
    CHECK(tp(3, as_is) == SplitRule::ranks);
    CHECK(tp(8, as_is) == SplitRule::heads);
    CHECK(tp(4, [](Workload& w) { w.kv_heads = 2; }) == legal);  // each on two ranks
    CHECK(tp(2, [](Workload& w) { w.kv_heads = 3; }) == SplitRule::kv_heads);
    CHECK(tp(4, [](Workload& w) { w.ffn = 258; }) == SplitRule::ffn);
    CHECK(tp(2, [](Workload& w) { w.ffn = 258; }) == legal);
    const auto experts = [](Workload& w) {
        w.moe.experts = 4;
        w.moe.top_k = 2;
    };
    CHECK(tp(4, [&](Workload& w) { experts(w), w.ffn = 258, w.moe.ffn = 256; }) == legal);  // no layer has the dense one
    CHECK(tp(4, [&](Workload& w) { experts(w), w.ffn = 258, w.moe.ffn = 256, w.moe.dense_layers = 1; }) == SplitRule::ffn);
    CHECK(tp(4, [&](Workload& w) { experts(w), w.ffn = 258, w.moe.ffn = 256, w.moe.interval = 2; }) == SplitRule::ffn);
    CHECK(tp(4, [&](Workload& w) { experts(w), w.moe.ffn = 258; }) == SplitRule::ffn);
    CHECK(tp(4, [&](Workload& w) { experts(w), w.moe.shared_experts = 1, w.moe.shared_ffn = 128; }) == legal);
    CHECK(tp(4, [&](Workload& w) { experts(w), w.moe.shared_experts = 1, w.moe.shared_ffn = 130; }) == SplitRule::ffn);
}

TEST_CASE("context, pipeline and data parallelism make up the ranks, the tokens and the batch") {
    const auto with = [](SplitKey key, auto change) { return broken(key, [&](Experiment&, Parallelism& p) { change(p); }); };
    CHECK(with(SplitKey::cp, [](Parallelism& p) { p.tp = 2, p.cp = 4; }) == legal);
    CHECK(with(SplitKey::cp, [](Parallelism& p) { p.tp = 4, p.cp = 4; }) == SplitRule::ranks);
    CHECK(with(SplitKey::cp, [](Parallelism& p) { p.cp = 3; }) == SplitRule::seq);
    CHECK(with(SplitKey::pp, [](Parallelism& p) { p.tp = 2, p.cp = 2, p.pp = 2; }) == legal);
    CHECK(with(SplitKey::pp, [](Parallelism& p) { p.tp = 2, p.cp = 2, p.pp = 4; }) == SplitRule::ranks);
    CHECK(with(SplitKey::dp, [](Parallelism& p) { p.tp = 2, p.dp = 4; }) == legal);
    CHECK(with(SplitKey::dp, [](Parallelism& p) { p.tp = 2, p.dp = 2; }) == SplitRule::ranks);
    CHECK(with(SplitKey::dp, [](Parallelism& p) { p.dp = 8, p.micro_batch = 2; }) == legal);
    CHECK(with(SplitKey::dp, [](Parallelism& p) { p.dp = 8, p.micro_batch = 4; }) == SplitRule::batch);
    CHECK(with(SplitKey::dp, [](Parallelism& p) { p.dp = 8, p.ep = 3; }) == SplitRule::expert_groups);
    CHECK(with(SplitKey::dp, [](Parallelism& p) { p.dp = 8, p.shard = 3; }) == SplitRule::expert_groups);
    CHECK(with(SplitKey::micro_batch, [](Parallelism& p) { p.micro_batch = 16; }) == legal);
    CHECK(with(SplitKey::micro_batch, [](Parallelism& p) { p.micro_batch = 5; }) == SplitRule::batch);
    CHECK(with(SplitKey::sequence_parallel, [](Parallelism& p) { p.sequence_parallel = true, p.tp = 4, p.cp = 32; }) == legal);
    CHECK(with(SplitKey::sequence_parallel, [](Parallelism& p) { p.sequence_parallel = true, p.tp = 8, p.cp = 32; }) == SplitRule::sequence_parallel);
    CHECK(with(SplitKey::sequence_parallel, [](Parallelism& p) { p.tp = 8, p.cp = 32; }) == legal);
    CHECK(with(SplitKey::ep, [](Parallelism& p) { p.ep = 2; }) == SplitRule::experts);
    const auto ep = [](int n) { return broken(SplitKey::ep, [&](Experiment& e, Parallelism& p) { e.workload.moe.experts = 6, p.ep = n; }); };
    CHECK(ep(3) == legal);
    CHECK(ep(4) == SplitRule::experts);
    // 1e9 slots: 2 of each of 128 tokens, 3,906,250 sequences
    const auto slots = [](int sequences) {
        return broken(SplitKey::micro_batch, [&](Experiment& e, Parallelism& p) { e.workload.moe.top_k = 2, p.micro_batch = p.global_batch = sequences; });
    };
    CHECK(slots(3'906'250) == legal);
    CHECK(slots(3'906'251) == SplitRule::slots);
}

TEST_CASE("a pipeline's chunks are those of its schedule, and no more than layers") {
    const auto chunks = [](Schedule schedule, int pp, int vp, std::vector<int> stated = {}, int batch = 16) {
        return broken(SplitKey::vp, [&](Experiment&, Parallelism& p) {
            p.schedule = schedule;
            p.pp = pp;
            p.vp = vp;
            p.stage_layers = std::move(stated);
            p.global_batch = batch;
        });
    };
    CHECK(chunks(Schedule::one_f_one_b, 2, 2) == legal);
    CHECK(chunks(Schedule::one_f_one_b, 2, 3) == SplitRule::stage_chunks);
    CHECK(chunks(Schedule::one_f_one_b, 2, 2, {}, 3) == SplitRule::interleaved_rounds);
    CHECK(chunks(Schedule::one_f_one_b, 2, 1, {}, 3) == legal);
    CHECK(chunks(Schedule::gpipe, 2, 2) == SplitRule::schedule_chunks);
    CHECK(chunks(Schedule::gpipe, 2, 1) == legal);
    CHECK(chunks(Schedule::zb_v, 2, 1) == legal);  // two by itself
    CHECK(chunks(Schedule::zb_v, 2, 3) == SplitRule::schedule_chunks);
    CHECK(chunks(Schedule::dualpipe, 3, 1) == SplitRule::paired_stages);
    CHECK(chunks(Schedule::dualpipe, 2, 1) == legal);
    CHECK(chunks(Schedule::one_f_one_b, 2, 1, {1, 3}) == legal);
    CHECK(chunks(Schedule::one_f_one_b, 2, 1, {1, 2}) == SplitRule::stage_layers);
    CHECK(chunks(Schedule::one_f_one_b, 2, 1, {1, 1, 2}) == SplitRule::stage_layers);
    const auto again = [](Recompute recompute, int layers) {
        return broken(SplitKey::recompute_layers, [&](Experiment&, Parallelism& p) { p.recompute = recompute, p.recompute_layers = layers; });
    };
    CHECK(again(Recompute::none, 0) == legal);
    CHECK(again(Recompute::full, 4) == legal);
    CHECK(again(Recompute::full, 5) == SplitRule::recompute_layers);
    CHECK(again(Recompute::selective, 1) == SplitRule::recompute_layers);
    const auto zero = [](int stage, int shard) { return broken(SplitKey::zero, [&](Experiment&, Parallelism& p) { p.zero = stage, p.shard = shard; }); };
    CHECK(zero(3, 2) == legal);
    CHECK(zero(2, 2) == SplitRule::shard);
    CHECK(zero(3, 1) == SplitRule::shard);
    CHECK(zero(2, 0) == legal);
}

// What does the same as another split is refused where each is wanted once, and there alone.
TEST_CASE("of splits that do the same one is legal") {
    const auto once = [](SplitKey key, auto change) {
        const auto both = [&](Experiment& e, Parallelism& p) { change(e, p); };
        CHECK(broken(key, both) == legal);
        return broken(key, both, true);
    };
    CHECK(once(SplitKey::sequence_parallel, [](Experiment&, Parallelism& p) { p.sequence_parallel = true; }) == SplitRule::sequence_alone);
    CHECK(once(SplitKey::sequence_parallel, [](Experiment&, Parallelism& p) { p.sequence_parallel = true, p.tp = 2; }) == legal);
    CHECK(once(SplitKey::schedule, [](Experiment&, Parallelism& p) { p.schedule = Schedule::gpipe; }) == SplitRule::schedule_alone);
    CHECK(once(SplitKey::schedule, [](Experiment&, Parallelism& p) { p.schedule = Schedule::gpipe, p.pp = 2; }) == legal);
    CHECK(once(SplitKey::vp, [](Experiment&, Parallelism& p) { p.vp = 2; }) == SplitRule::chunks_alone);
    CHECK(once(SplitKey::vp, [](Experiment&, Parallelism& p) { p.vp = 2, p.pp = 2; }) == legal);
    CHECK(once(SplitKey::vp, [](Experiment&, Parallelism& p) { p.vp = 2, p.pp = 2, p.schedule = Schedule::zb_v; }) == SplitRule::same_chunks);
    CHECK(once(SplitKey::recompute, [](Experiment&, Parallelism& p) { p.recompute = Recompute::selective; }) == legal);
    CHECK(once(SplitKey::recompute, [](Experiment& e, Parallelism& p) { e.workload.attention = AttentionKind::flash, p.recompute = Recompute::selective; }) ==
          SplitRule::scores);
    CHECK(once(SplitKey::zero, [](Experiment&, Parallelism& p) { p.zero = 1; }) == SplitRule::zero_alone);
    CHECK(once(SplitKey::zero, [](Experiment&, Parallelism& p) { p.zero = 1, p.cp = 2; }) == legal);
}

TEST_CASE("what a framework has not is refused in its name") {
    Experiment e = on_eight_ranks();
    e.framework.name = "trainer";
    FrameworkAbilities& can = e.framework.can;
    can.tensor = can.context = can.pipeline = can.sequence = can.interleaved = false;
    can.schedules = {Schedule::gpipe};
    can.zero = {0, 1};
    can.recompute = {Recompute::full};
    const SplitRules rules(e, true), any(e, false);
    const auto refused = [&](SplitKey key, auto change) {
        Parallelism p = e.parallelism;
        p.dp = 8;
        change(p);
        CHECK(any.broken_by(key, p) != SplitRule::framework);
        return rules.broken_by(key, p) == SplitRule::framework;
    };
    CHECK(refused(SplitKey::tp, [](Parallelism& p) { p.tp = 2; }));
    CHECK_FALSE(refused(SplitKey::tp, [](Parallelism&) {}));
    CHECK(refused(SplitKey::cp, [](Parallelism& p) { p.cp = 2; }));
    CHECK_FALSE(refused(SplitKey::cp, [](Parallelism&) {}));
    CHECK(refused(SplitKey::pp, [](Parallelism& p) { p.pp = 2; }));
    CHECK_FALSE(refused(SplitKey::pp, [](Parallelism&) {}));
    CHECK(refused(SplitKey::sequence_parallel, [](Parallelism& p) { p.sequence_parallel = true, p.tp = 2; }));
    CHECK(refused(SplitKey::schedule, [](Parallelism& p) { p.schedule = Schedule::zb_h1, p.pp = 2; }));
    CHECK_FALSE(refused(SplitKey::schedule, [](Parallelism& p) { p.schedule = Schedule::gpipe, p.pp = 2; }));
    CHECK_FALSE(refused(SplitKey::schedule, [](Parallelism&) {}));
    CHECK(refused(SplitKey::vp, [](Parallelism& p) { p.vp = 2, p.pp = 2; }));
    CHECK_FALSE(refused(SplitKey::vp, [](Parallelism& p) { p.pp = 2; }));
    CHECK(refused(SplitKey::zero, [](Parallelism& p) { p.zero = 2; }));
    CHECK_FALSE(refused(SplitKey::zero, [](Parallelism& p) { p.zero = 1; }));
    CHECK(refused(SplitKey::recompute, [](Parallelism& p) { p.recompute = Recompute::none; }));
    CHECK_FALSE(refused(SplitKey::recompute, [](Parallelism& p) { p.recompute = Recompute::full; }));
    CHECK(rules.reason(SplitRule::framework) == "not in trainer");
    CHECK(rules.reason(SplitRule::heads) == "tp does not divide workload.heads");
}
