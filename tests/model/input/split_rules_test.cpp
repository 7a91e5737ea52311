#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/base/errors.h"
#include "model/input/check_experiment.h"
#include "model/input/split_rules.h"
#include "tests/model/files.h"
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
std::string broken(SplitKey key, Change change, bool once = false) {
    Experiment e = on_eight_ranks();
    change(e, e.parallelism);
    return std::string(SplitRules(e, once).broken_by(key, e.parallelism));
}

namespace rule {
constexpr std::string_view ranks = "tp x cp x pp x dp is not the number of ranks",
                           heads = "tp does not divide workload.heads",
                           delta_heads = "tp does not divide workload.delta.key_heads",
                           whole_sequences = "cp above 1 with gated delta nets or sparse attention",
                           kv_heads = "tp neither divides workload.kv_heads nor is a multiple",
                           ffn = "tp does not divide the width of a feed-forward block",
                           seq = "cp does not divide workload.seq",
                           stage_chunks = "more stage chunks than layers",
                           stage_layers = "parallelism.stage_layers does not fit the stage chunks",
                           experts = "ep does not divide workload.moe.experts",
                           expert_groups = "ep does not divide its ranks into regular groups",
                           sequence_parallel =
                               "tp does not divide the tokens that sequence_parallel splits",
                           batch = "dp x micro_batch does not divide global_batch",
                           slots = "more than 1e9 slots on a rank",
                           schedule_chunks = "vp is not what the schedule runs",
                           paired_stages = "dualpipe with an odd number of stages",
                           interleaved_rounds =
                               "interleaved 1f1b whose micro-batches are no multiple of pp",
                           recompute_layers =
                               "recompute_layers without full recompute, or above workload.layers",
                           shard = "parallelism.shard without zero = 3, or of one rank",
                           schedule_alone = "a schedule other than 1f1b without a pipeline",
                           chunks_alone = "vp above 1 without a pipeline",
                           sequence_alone = "sequence_parallel with tp = 1 (does nothing)",
                           zero_alone = "zero on a lone replica (does nothing)",
                           scores =
                               "selective recompute that leaves neither scores nor a wide copy "
                               "(next to no memory)",
                           same_chunks = "vp = 2 under a schedule that implies it (does nothing)",
                           framework = "not in trainer";
}
constexpr std::string_view legal = "";

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
    CHECK(tp(3, as_is) == rule::ranks);
    CHECK(tp(8, as_is) == rule::heads);
    CHECK(tp(4, [](Workload& w) { w.kv_heads = 2; }) == legal);  // each key head is on two ranks
    CHECK(tp(2, [](Workload& w) { w.kv_heads = 3; }) == rule::kv_heads);
    CHECK(tp(4, [](Workload& w) { w.ffn = 258; }) == rule::ffn);
    CHECK(tp(4, [](Workload& w) { w.delta = {.value_heads = 8, .key_heads = 2}; }) ==
          rule::delta_heads);
    CHECK(tp(2, [](Workload& w) { w.delta = {.value_heads = 8, .key_heads = 2}; }) == legal);
    CHECK(tp(2, [](Workload& w) { w.ffn = 258; }) == legal);
    const auto experts = [](Workload& w) {
        w.moe.experts = 4;
        w.moe.top_k = 2;
    };
    // no layer has the dense feed-forward
    CHECK(tp(4, [&](Workload& w) { experts(w), w.ffn = 258, w.moe.ffn = 256; }) == legal);
    CHECK(tp(4, [&](Workload& w) {
              experts(w), w.ffn = 258, w.moe.ffn = 256, w.moe.dense_layers = 1;
          }) == rule::ffn);
    CHECK(tp(4, [&](Workload& w) {
              experts(w), w.ffn = 258, w.moe.ffn = 256, w.moe.interval = 2;
          }) == rule::ffn);
    CHECK(tp(4, [&](Workload& w) { experts(w), w.moe.ffn = 258; }) == rule::ffn);
    CHECK(tp(4, [&](Workload& w) {
              experts(w), w.moe.shared_experts = 1, w.moe.shared_ffn = 128;
          }) == legal);
    CHECK(tp(4, [&](Workload& w) {
              experts(w), w.moe.shared_experts = 1, w.moe.shared_ffn = 130;
          }) == rule::ffn);
}

TEST_CASE("context, pipeline and data parallelism make up the ranks, the tokens and the batch") {
    const auto with = [](SplitKey key, auto change) {
        return broken(key, [&](Experiment&, Parallelism& p) { change(p); });
    };
    CHECK(with(SplitKey::cp, [](Parallelism& p) { p.tp = 2, p.cp = 4; }) == legal);
    CHECK(with(SplitKey::cp, [](Parallelism& p) { p.tp = 4, p.cp = 4; }) == rule::ranks);
    CHECK(with(SplitKey::cp, [](Parallelism& p) { p.cp = 3; }) == rule::seq);
    const auto split_context = [](auto change) {
        return broken(SplitKey::cp, [&](Experiment& e, Parallelism& p) {
            p.cp = 2;
            change(e.workload);
        });
    };
    CHECK(split_context([](Workload&) {}) == legal);
    CHECK(split_context([](Workload& w) { w.delta.value_heads = 4; }) == rule::whole_sequences);
    CHECK(split_context([](Workload& w) { w.indexer.heads = 4; }) == rule::whole_sequences);
    CHECK(with(SplitKey::pp, [](Parallelism& p) { p.tp = 2, p.cp = 2, p.pp = 2; }) == legal);
    CHECK(with(SplitKey::pp, [](Parallelism& p) { p.tp = 2, p.cp = 2, p.pp = 4; }) == rule::ranks);
    CHECK(with(SplitKey::dp, [](Parallelism& p) { p.tp = 2, p.dp = 4; }) == legal);
    CHECK(with(SplitKey::dp, [](Parallelism& p) { p.tp = 2, p.dp = 2; }) == rule::ranks);
    CHECK(with(SplitKey::dp, [](Parallelism& p) { p.dp = 8, p.micro_batch = 2; }) == legal);
    CHECK(with(SplitKey::dp, [](Parallelism& p) { p.dp = 8, p.micro_batch = 4; }) == rule::batch);
    CHECK(with(SplitKey::dp, [](Parallelism& p) { p.dp = 8, p.ep = 3; }) == rule::expert_groups);
    CHECK(with(SplitKey::dp, [](Parallelism& p) { p.dp = 8, p.shard = 3; }) == rule::expert_groups);
    CHECK(with(SplitKey::micro_batch, [](Parallelism& p) { p.micro_batch = 16; }) == legal);
    CHECK(with(SplitKey::micro_batch, [](Parallelism& p) { p.micro_batch = 5; }) == rule::batch);
    CHECK(with(SplitKey::sequence_parallel,
               [](Parallelism& p) { p.sequence_parallel = true, p.tp = 4, p.cp = 32; }) == legal);
    CHECK(with(SplitKey::sequence_parallel, [](Parallelism& p) {
              p.sequence_parallel = true, p.tp = 8, p.cp = 32;
          }) == rule::sequence_parallel);
    CHECK(with(SplitKey::sequence_parallel, [](Parallelism& p) { p.tp = 8, p.cp = 32; }) == legal);
    CHECK(with(SplitKey::ep, [](Parallelism& p) { p.ep = 2; }) == rule::experts);
    const auto ep = [](int n) {
        return broken(SplitKey::ep,
                      [&](Experiment& e, Parallelism& p) { e.workload.moe.experts = 6, p.ep = n; });
    };
    CHECK(ep(3) == legal);
    CHECK(ep(4) == rule::experts);
    // 1e9 slots: 2 of each of 128 tokens, 3,906,250 sequences
    const auto slots = [](int sequences) {
        return broken(SplitKey::micro_batch, [&](Experiment& e, Parallelism& p) {
            e.workload.moe.top_k = 2, p.micro_batch = p.global_batch = sequences;
        });
    };
    CHECK(slots(3'906'250) == legal);
    CHECK(slots(3'906'251) == rule::slots);
}

TEST_CASE("a pipeline's chunks are those of its schedule, and no more than layers") {
    const auto chunks = [](Schedule schedule, int pp, int vp, std::vector<int> stated = {},
                           int batch = 16) {
        return broken(SplitKey::vp, [&](Experiment&, Parallelism& p) {
            p.schedule = schedule;
            p.pp = pp;
            p.vp = vp;
            p.stage_layers = std::move(stated);
            p.global_batch = batch;
        });
    };
    CHECK(chunks(Schedule::one_f_one_b, 2, 2) == legal);
    CHECK(chunks(Schedule::one_f_one_b, 2, 3) == rule::stage_chunks);
    CHECK(chunks(Schedule::one_f_one_b, 2, 2, {}, 3) == rule::interleaved_rounds);
    CHECK(chunks(Schedule::one_f_one_b, 2, 1, {}, 3) == legal);
    CHECK(chunks(Schedule::gpipe, 2, 2) == rule::schedule_chunks);
    CHECK(chunks(Schedule::gpipe, 2, 1) == legal);
    CHECK(chunks(Schedule::zb_v, 2, 1) == legal);  // zb-v has two chunks by itself
    CHECK(chunks(Schedule::zb_v, 2, 3) == rule::schedule_chunks);
    CHECK(chunks(Schedule::dualpipe, 3, 1) == rule::paired_stages);
    CHECK(chunks(Schedule::dualpipe, 2, 1) == legal);
    CHECK(chunks(Schedule::one_f_one_b, 2, 1, {1, 3}) == legal);
    CHECK(chunks(Schedule::one_f_one_b, 2, 1, {1, 2}) == rule::stage_layers);
    CHECK(chunks(Schedule::one_f_one_b, 2, 1, {1, 1, 2}) == rule::stage_layers);
    const auto again = [](Recompute recompute, int layers) {
        return broken(SplitKey::recompute_layers, [&](Experiment&, Parallelism& p) {
            p.recompute = recompute, p.recompute_layers = layers;
        });
    };
    CHECK(again(Recompute::none, 0) == legal);
    CHECK(again(Recompute::full, 4) == legal);
    CHECK(again(Recompute::full, 5) == rule::recompute_layers);
    CHECK(again(Recompute::selective, 1) == rule::recompute_layers);
    const auto zero = [](int stage, int shard) {
        return broken(SplitKey::zero,
                      [&](Experiment&, Parallelism& p) { p.zero = stage, p.shard = shard; });
    };
    CHECK(zero(3, 2) == legal);
    CHECK(zero(2, 2) == rule::shard);
    CHECK(zero(3, 1) == rule::shard);
    CHECK(zero(2, 0) == legal);
}

// A split that does the same as another is refused only where each effect is wanted once.
TEST_CASE("of splits that do the same one is legal") {
    const auto once = [](SplitKey key, auto change) {
        const auto both = [&](Experiment& e, Parallelism& p) { change(e, p); };
        CHECK(broken(key, both) == legal);
        return broken(key, both, true);
    };
    CHECK(once(SplitKey::sequence_parallel, [](Experiment&, Parallelism& p) {
              p.sequence_parallel = true;
          }) == rule::sequence_alone);
    CHECK(once(SplitKey::sequence_parallel,
               [](Experiment&, Parallelism& p) { p.sequence_parallel = true, p.tp = 2; }) == legal);
    CHECK(once(SplitKey::schedule, [](Experiment&, Parallelism& p) {
              p.schedule = Schedule::gpipe;
          }) == rule::schedule_alone);
    CHECK(once(SplitKey::schedule, [](Experiment&, Parallelism& p) {
              p.schedule = Schedule::gpipe, p.pp = 2;
          }) == legal);
    CHECK(once(SplitKey::vp, [](Experiment&, Parallelism& p) { p.vp = 2; }) == rule::chunks_alone);
    CHECK(once(SplitKey::vp, [](Experiment&, Parallelism& p) { p.vp = 2, p.pp = 2; }) == legal);
    CHECK(once(SplitKey::vp, [](Experiment&, Parallelism& p) {
              p.vp = 2, p.pp = 2, p.schedule = Schedule::zb_v;
          }) == rule::same_chunks);
    CHECK(once(SplitKey::recompute,
               [](Experiment&, Parallelism& p) { p.recompute = Recompute::selective; }) == legal);
    CHECK(once(SplitKey::recompute, [](Experiment& e, Parallelism& p) {
              e.runtime.attention = AttentionKind::flash, p.recompute = Recompute::selective;
          }) == rule::scores);
    CHECK(once(SplitKey::recompute, [](Experiment& e, Parallelism& p) {
              e.runtime.attention = AttentionKind::flash, p.recompute = Recompute::selective;
              e.workload.dtype = Dtype::fp8;
          }) == legal);
    CHECK(once(SplitKey::recompute, [](Experiment& e, Parallelism& p) {
              e.runtime.attention = AttentionKind::flash, p.recompute = Recompute::selective;
              p.recompute_modules = {RecomputedModule::mlp};
          }) == legal);
    CHECK(once(SplitKey::recompute, [](Experiment& e, Parallelism& p) {
              e.runtime.attention = AttentionKind::flash, p.recompute = Recompute::selective;
              p.recompute_modules = {RecomputedModule::moe};  // which the model has not
          }) == rule::scores);
    CHECK(once(SplitKey::zero, [](Experiment&, Parallelism& p) { p.zero = 1; }) ==
          rule::zero_alone);
    CHECK(once(SplitKey::zero, [](Experiment&, Parallelism& p) { p.zero = 1, p.cp = 2; }) == legal);
}

// Megatron-Core 0.16.1, transformer_config.py: biases of experts only where
// expert_tensor_parallel_size is 1. Its framework keeps such experts whole unless told, so that
// gpt-oss runs over tp.
TEST_CASE("experts with biases are not split over tensor-parallel ranks where Megatron has them") {
    const auto refused = [](int tp, bool bias, bool can, ExpertSplit split) {
        Experiment e = on_eight_ranks();
        e.framework.name = "trainer";
        e.framework.can.experts_without_sequence = can;
        e.workload.moe.experts = 4;
        e.workload.linear_bias = bias;
        e.runtime.experts.tensor_parallel = split;
        e.parallelism.tp = tp;
        e.parallelism.dp = 8 / tp;
        e.parallelism.sequence_parallel = tp > 1;
        const std::string said = complaint([&] { check_experiment(e); });
        const bool broken =
            SplitRules(e, false).broken_by(SplitKey::tp, e.parallelism) == rule::framework;
        CHECK(broken == said.starts_with("parallelism.tp: 2, but trainer splits no experts with"));
        return broken;
    };
    CHECK(refused(2, true, false, ExpertSplit::all));
    CHECK_FALSE(refused(2, true, false, ExpertSplit::none));
    CHECK_FALSE(refused(2, false, false, ExpertSplit::all));
    CHECK_FALSE(refused(1, true, false, ExpertSplit::all));
    CHECK_FALSE(refused(2, true, true, ExpertSplit::all));
    for (const auto& [model, split] :
         {std::pair{"gpt-oss-120b", ExpertSplit::none}, {"mixtral-8x7b", ExpertSplit::wide}}) {
        const Experiment e = read_unchecked_experiment(
            model, std::vector<Override>{{"cluster.preset", "dgx-h100"},
                                         {"framework.preset", "megatron-core"}});
        CHECK(e.runtime.experts.tensor_parallel == split);
    }
}

// It raises at its start, so every verb refuses it, not only sweeps that want each effect once.
TEST_CASE(
    "experts over tensor-parallel ranks need sequence parallelism where the framework says so") {
    const auto refused = [](int tp, bool sequence, int experts, bool can) {
        Experiment e = on_eight_ranks();
        e.framework.name = "trainer";
        e.framework.can.experts_without_sequence = can;
        e.workload.linear_bias = false;
        e.workload.moe.experts = experts;
        e.parallelism.tp = tp;
        e.parallelism.dp = 8 / tp;
        e.parallelism.sequence_parallel = sequence;
        std::string complaint;
        try {
            check_experiment(e);
        } catch (const ConfigError& error) {
            complaint = error.what();
        }
        const std::string_view broken =
            SplitRules(e, false).broken_by(SplitKey::sequence_parallel, e.parallelism);
        CHECK((broken == rule::framework) ==
              complaint.starts_with("parallelism.sequence_parallel: false, but trainer runs "
                                    "experts on 2 tensor-parallel"));
        return broken == rule::framework;
    };
    CHECK(refused(2, false, 4, false));
    CHECK_FALSE(refused(2, true, 4, false));
    CHECK_FALSE(refused(1, false, 4, false));
    CHECK_FALSE(refused(2, false, 0, false));
    CHECK_FALSE(refused(2, false, 4, true));
}

// What a forecast says of a split that its framework cannot run: one sentence for each key of it.
TEST_CASE("what a framework cannot run is said of a single split") {
    Experiment e = on_eight_ranks();
    e.framework.name = "trainer";
    e.framework.can.zero = {0, 1};
    e.framework.can.tensor = e.framework.can.interleaved = false;
    CHECK(beyond_framework(e).empty());
    e.parallelism.tp = 2;
    e.parallelism.zero = 3;
    CHECK(
        beyond_framework(e) ==
        std::vector<std::string>{
            "parallelism.tp = 2, which framework trainer cannot run (framework.can.tensor = false)",
            "parallelism.zero = 3, which framework trainer cannot run (framework.can.zero = [0, "
            "1])"});
    e.parallelism = {};
    e.parallelism.pp = e.parallelism.vp = 2;
    CHECK(beyond_framework(e).size() == 1);
    e.framework.can.narrow = false;
    CHECK(beyond_framework(e).size() == 1);  // its products are in 16 bits
    e.workload.dtype = Dtype::fp8;
    CHECK(
        beyond_framework(e).back() ==
        "workload.dtype = fp8, which framework trainer cannot run (framework.can.narrow = false)");
    e.framework.name.clear();
    CHECK(beyond_framework(e).empty());
    e.framework.name = "trainer";
    e.workload.kind = Workload::Kind::mlp;
    CHECK(beyond_framework(e).empty());
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
        CHECK(any.broken_by(key, p) != rule::framework);
        return rules.broken_by(key, p) == rule::framework;
    };
    CHECK(refused(SplitKey::tp, [](Parallelism& p) { p.tp = 2; }));
    CHECK_FALSE(refused(SplitKey::tp, [](Parallelism&) {}));
    CHECK(refused(SplitKey::cp, [](Parallelism& p) { p.cp = 2; }));
    CHECK_FALSE(refused(SplitKey::cp, [](Parallelism&) {}));
    CHECK(refused(SplitKey::pp, [](Parallelism& p) { p.pp = 2; }));
    CHECK_FALSE(refused(SplitKey::pp, [](Parallelism&) {}));
    CHECK(refused(SplitKey::sequence_parallel,
                  [](Parallelism& p) { p.sequence_parallel = true, p.tp = 2; }));
    CHECK(refused(SplitKey::schedule,
                  [](Parallelism& p) { p.schedule = Schedule::zb_h1, p.pp = 2; }));
    CHECK_FALSE(refused(SplitKey::schedule,
                        [](Parallelism& p) { p.schedule = Schedule::gpipe, p.pp = 2; }));
    CHECK_FALSE(refused(SplitKey::schedule, [](Parallelism&) {}));
    CHECK(refused(SplitKey::vp, [](Parallelism& p) { p.vp = 2, p.pp = 2; }));
    CHECK_FALSE(refused(SplitKey::vp, [](Parallelism& p) { p.pp = 2; }));
    CHECK(refused(SplitKey::zero, [](Parallelism& p) { p.zero = 2; }));
    CHECK_FALSE(refused(SplitKey::zero, [](Parallelism& p) { p.zero = 1; }));
    CHECK(refused(SplitKey::recompute, [](Parallelism& p) { p.recompute = Recompute::none; }));
    CHECK_FALSE(
        refused(SplitKey::recompute, [](Parallelism& p) { p.recompute = Recompute::full; }));
}

// What depends on two keys is refused at the later one, and only where both are there.
TEST_CASE("what a framework has not beside something else is refused in its name") {
    Experiment e = on_eight_ranks();
    e.framework.name = "trainer";
    FrameworkAbilities& can = e.framework.can;
    can.tensor_without_sequence = can.context_without_shards = false;
    can.pipeline_zero = {0, 1};
    const SplitRules rules(e, true);
    const auto refused = [&](SplitKey key, const Parallelism& p) {
        return rules.broken_by(key, p) == rule::framework;
    };
    const auto alone = SplitKey::sequence_parallel;
    CHECK(refused(alone, {.dp = 4, .tp = 2}));
    CHECK_FALSE(refused(alone, {.dp = 4, .tp = 2, .sequence_parallel = true}));
    CHECK_FALSE(refused(alone, {.dp = 8}));
    CHECK(refused(SplitKey::zero, {.dp = 4, .cp = 2}));
    CHECK_FALSE(refused(SplitKey::zero, {.dp = 4, .cp = 2, .zero = 2}));
    CHECK(refused(SplitKey::zero, {.dp = 4, .pp = 2, .zero = 2}));
    CHECK_FALSE(refused(SplitKey::zero, {.dp = 4, .pp = 2, .zero = 1}));
    CHECK_FALSE(refused(SplitKey::zero, {.dp = 8, .zero = 3}));
}
