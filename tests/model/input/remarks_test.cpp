#include <algorithm>

#include "measured/read.h"
#include "model/input/check_experiment.h"
#include "model/input/presets.h"
#include "model/input/remarks.h"
#include "model/machine/lacks.h"
#include "model/runtime_rules.h"
#include "tests/model/files.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

// small_gpt() as every one of its keys is read: two replicas of two tensor-parallel ranks, trained
// by Adam.
Experiment plain_gpt() {
    Experiment e = small_gpt();
    e.parallelism.dp = e.parallelism.tp = 2;
    return e;
}

Experiment with(Experiment e, const std::vector<Override>& changes) {
    for (const Override& one : changes) set_key(e, one);
    return e;
}

bool says(const std::vector<std::string>& remarks, const std::string& words) {
    return std::ranges::any_of(
        remarks, [&](const std::string& r) { return r.find(words) != std::string::npos; });
}

}  // namespace

// One key of each feature that is off, and the key that turns it on. With the feature the key is
// read, so nothing is said.
TEST_CASE("a key whose feature is off is named with the feature") {
    CHECK(remarks_on(plain_gpt()).empty());
    const struct {
        Override idle, feature;
    } all[] = {{{"workload.moe.top_k", "4"}, {"workload.moe.experts", "8"}},
               {{"workload.moe.ffn", "128"}, {"workload.moe.experts", "8"}},
               {{"workload.moe.capacity_factor", "1.5"}, {"workload.moe.experts", "8"}},
               {{"workload.moe.dense_layers", "1"}, {"workload.moe.experts", "8"}},
               {{"workload.mla.q_rank", "32"}, {"workload.mla.kv_rank", "32"}},
               {{"workload.mamba.state", "64"}, {"workload.mamba.heads", "4"}},
               {{"workload.mamba.attention", "0.25"}, {"workload.mamba.heads", "4"}},
               {{"workload.delta.interval", "2"}, {"workload.delta.value_heads", "4"}},
               {{"workload.indexer.top_k", "64"}, {"workload.indexer.heads", "4"}},
               {{"workload.window_share", "0.5"}, {"workload.window", "64"}},
               {{"workload.inner_dropout", "true"}, {"workload.dropout", "0.1"}},
               {{"workload.score_dropout", "false"}, {"workload.dropout", "0.1"}},
               {{"workload.adapter_on", "linear"}, {"workload.adapter_rank", "8"}},
               {{"workload.max_positions", "256"}, {"workload.positions", "learned"}},
               {{"parallelism.vp", "2"}, {"parallelism.pp", "2"}},
               {{"parallelism.schedule", "gpipe"}, {"parallelism.pp", "2"}},
               {{"parallelism.layout", "light_last"}, {"parallelism.pp", "2"}},
               {{"runtime.exchanges.scatter_sends", "false"}, {"parallelism.pp", "2"}},
               {{"runtime.context_exchange", "all-gather"}, {"parallelism.cp", "2"}},
               {{"runtime.eager_traffic", "3"}, {"runtime.kernels", "eager"}},
               {{"runtime.experts.products", "each"}, {"workload.moe.experts", "8"}},
               {{"runtime.fused_gate", "true"}, {"workload.gated", "true"}},
               {{"runtime.optimizer.calls", "9"}, {"runtime.optimizer.groups", "9"}},
               {{"routing.kind", "zipf"}, {"workload.moe.experts", "8"}}};
    for (const auto& [idle, feature] : all) {
        INFO(idle.key);
        Experiment e = plain_gpt();
        e.workload.positions = Positions::rotary;
        e.runtime.fused_projections = false;
        e = with(e, {idle});
        CHECK(says(remarks_on(e), idle.key + " = " + get_key(e, idle.key) + " changes nothing"));
        CHECK_FALSE(says(remarks_on(with(e, {feature})), idle.key + " ="));
    }
    Experiment lone = small_gpt();  // one rank
    lone = with(lone, {{"parallelism.zero", "1"},
                       {"parallelism.sequence_parallel", "true"},
                       {"workload.vision.layers", "3"}});
    for (const char* key :
         {"parallelism.zero", "parallelism.sequence_parallel", "workload.vision.layers"})
        CHECK(says(remarks_on(lone), key));
}

// A device of 64 GB with bf16 alone has no capability, so process_memory() is nothing. tf32 makes
// it Ampere's; a stated context is one.
TEST_CASE("a device whose generation is not known has no context, which is said") {
    Experiment e = plain_gpt();
    e.cluster.gpu.name = "X100";
    e.cluster.gpu.memory = Bytes(64e9);
    e.cluster.gpu.peaks = {};
    e.cluster.gpu.peaks[Dtype::fp16] = e.cluster.gpu.peaks[Dtype::bf16] = FlopsPerSecond(1e14);
    e.cluster.overheads.context = {};
    const std::string words =
        "cluster.overheads.context is not stated, and the peaks of X100 tell no generation";
    CHECK(says(remarks_on(e), words));
    CHECK_FALSE(says(remarks_on(with(e, {{"cluster.gpu.peak.tf32", "50 TFLOP/s"}})), words));
    CHECK_FALSE(says(remarks_on(with(e, {{"cluster.overheads.context", "1 GiB"}})), words));
    e.cluster.gpu.peaks[Dtype::fp16] = e.cluster.gpu.peaks[Dtype::bf16] = FlopsPerSecond(0);
    CHECK_FALSE(says(remarks_on(e), words));  // a host
}

// A layer of experts has no attention, no vocabulary and no gradients; a multi-layer perceptron no
// experts either.
TEST_CASE("a key that a step of this kind does not read is named with the kind") {
    const auto told = [](const char* preset, const Override& change) {
        Experiment e = read_experiment(preset);
        set_key(e, change);
        return remarks_on(e);
    };
    for (const char* preset : {"moe_layer_alltoall", "host_ddp"})
        for (const Override& idle : {Override{"workload.vocab", "100"},
                                     {"workload.tied", "false"},
                                     {"workload.window", "9"},
                                     {"workload.norm", "rmsnorm"},
                                     {"runtime.loss.fused", "false"},
                                     {"runtime.kernels", "eager"},
                                     {"runtime.optimizer.reads_loss", "true"},
                                     {"workload.patch", "8"}}) {
            INFO(preset << " " << idle.key);
            CHECK(says(told(preset, idle), idle.key + " = " + idle.value + " changes nothing"));
        }
    CHECK(says(told("coca_zero1", {"runtime.optimizer.clip_scales", "true"}),
               "workload.kind is no transformer"));
    CHECK(told("coca_zero1", {"workload.vocab", "1000"}).empty());
}

// What a framework sets is for all models that run in it.
TEST_CASE("a key that the framework set is not named") {
    Experiment e = small_gpt();
    e.framework.name = "mine";
    set_rule(e.framework, "runtime.exchanges.weight_gradient", "false");
    apply_framework(e);
    CHECK_FALSE(e.runtime.exchanges.weight_gradient);
    CHECK(remarks_on(e).empty());
    set_key(e, {"runtime.exchanges.weight_gradient", "false"});  // stated now
    CHECK(says(remarks_on(e),
               "runtime.exchanges.weight_gradient = false changes nothing: parallelism.tp is 1"));
}

// small_gpt() has 128 tokens, width 64, 1000 words.
TEST_CASE("sizes that reach beyond what they are of are named") {
    const auto told = [](const std::vector<Override>& changes) {
        return remarks_on(with(plain_gpt(), changes));
    };
    CHECK(says(told({{"workload.window", "129"}}),
               "workload.window = 129 reaches beyond workload.seq = 128"));
    CHECK(told({{"workload.window", "128"}}).empty());
    CHECK(told({{"workload.vocab", "1"}}) ==
          std::vector<std::string>{"workload.vocab = 1 leaves nothing to predict"});
    CHECK(told({{"workload.vocab", "2"}}).empty());
    CHECK(says(told({{"workload.adapter_rank", "65"}}),
               "workload.adapter_rank = 65 is above workload.hidden = 64"));
    CHECK(told({{"workload.adapter_rank", "64"}}).empty());
    CHECK(says(told({{"workload.max_positions", "100"}}),
               "workload.max_positions = 100 is below workload.seq = 128"));
    // 8 experts over 2 choices: at a capacity of 4 each has room for all tokens.
    CHECK(says(told({{"workload.moe.experts", "8"}, {"workload.moe.capacity_factor", "5"}}),
               "above experts / top_k = 4"));
    CHECK(told({{"workload.moe.experts", "8"}, {"workload.moe.capacity_factor", "4"}}).empty());
}

TEST_CASE("a machine that nobody builds is named") {
    const auto told = [](const Override& change) {
        return remarks_on(with(plain_gpt(), {change}));
    };
    for (const Override& odd : {Override{"cluster.gpu.memory", "1 B"},
                                {"cluster.gpu.memory", "100 TB"},
                                {"cluster.gpu.memory_bandwidth", "1 MB/s"},
                                {"cluster.gpu.memory_bandwidth", "2000 TB/s"},
                                {"cluster.gpu.peak.bf16", "1 MFLOP/s"},
                                {"cluster.link.intra.bandwidth", "1 MB/s"},
                                {"cluster.link.inter.bandwidth", "100 TB/s"}}) {
        INFO(odd.key << " = " << odd.value);
        CHECK(says(told(odd), odd.key + " = " + get_key(with(plain_gpt(), {odd}), odd.key) +
                                  " is that of no machine"));
    }
    CHECK(told({"cluster.gpu.memory", "4 GiB"}).empty());
    CHECK(says(told({"cluster.network.oversubscription", "4"}),
               "changes nothing: all 1 nodes meet below the spine"));
    for (const std::string& name : preset_names(PresetKind::cluster)) {
        Experiment e = small_gpt();
        e.cluster = read_cluster(name);
        e.workload.dtype =
            e.cluster.gpu.peaks[Dtype::fp16] > FlopsPerSecond(0) ? Dtype::fp16 : Dtype::fp32;
        INFO(name);
        CHECK_FALSE(says(remarks_on(e), "no machine"));
    }
}

// A calibrated machine has measured tables, which no stated rate moves.
TEST_CASE("a rate stated beside measurements of what it would price is named") {
    Experiment e = plain_gpt();
    e.cluster.intra.all_reduce = {{Bytes(1024), Seconds(1e-6)}, {Bytes(4096), Seconds(2e-6)}};
    const Override rate{"cluster.link.intra.bandwidth", "10 GB/s"};
    CHECK(says(remarks_on(with(e, {rate})),
               "cluster.link.intra.bandwidth = 10 GB/s changes nothing of what was measured on "
               "this machine; cluster.link.intra.all_reduce = [] takes its cost model instead"));
    CHECK(remarks_on(with(e, {{"cluster.link.inter.bandwidth", "10 GB/s"}})).empty());
    CHECK(remarks_on(with(e, {rate, {"cluster.link.intra.all_reduce", "[]"}})).empty());
    CHECK(remarks_on(with(plain_gpt(), {rate})).empty());
    e.cluster.kernel.memory_curve = e.cluster.intra.all_reduce;
    CHECK(says(remarks_on(with(e, {{"cluster.gpu.memory_bandwidth", "1 TB/s"}})),
               "cluster.kernel.memory_curve = [] takes its cost model instead"));
}

TEST_CASE("no shipped experiment has an idle key or an odd value") {
    for (const std::string& name : preset_names(PresetKind::experiment)) {
        INFO(name);
        CHECK(remarks_on(read_experiment(name)).empty());
    }
}

TEST_CASE("a dropout of everything is refused, from whatever file") {
    CHECK_THROWS_WITH(
        check_experiment(with(small_gpt(), {{"parallelism.dp", "4"}, {"workload.dropout", "1"}})),
        Catch::Contains("workload.dropout: 1 drops everything"));
    Experiment e = with(small_gpt(), {{"parallelism.dp", "4"}});
    e.framework.name = "mine";
    e = with(e, {{"framework.dropout", "1"}});
    CHECK_THROWS_WITH(check_experiment(e), Catch::Contains("workload.dropout: 1 drops everything"));
}

namespace {

// A V100 has neither bf16 nor tf32.
Experiment on_volta(const std::vector<Override>& changes) {
    Experiment e = small_gpt();
    e.workload.dtype = Dtype::fp16;
    e.cluster.gpu.name = "old";
    e.cluster.gpu.peaks[Dtype::bf16] = e.cluster.gpu.peaks[Dtype::tf32] =
        e.cluster.gpu.peaks[Dtype::fp8] = FlopsPerSecond(0);
    e.framework.name = "mine";
    return with(e, changes);
}

}  // namespace

// 100 is no multiple of 8.
TEST_CASE("a framework without fused attention for odd heads says so") {
    Experiment e = small_gpt();
    e.framework.name = "mine";
    e.framework.can.odd_heads = false;
    e = with(e, {{"framework.attention", "flash"}, {"workload.head_dim", "100"}});
    CHECK(e.runtime.attention == AttentionKind::plain);
    CHECK(says(remarks_on(e),
               "runtime.attention = plain: the fused kernels of mine take heads of a "
               "multiple of 8 elements, not of 100"));
}

// FlashAttention-2's own source refuses devices below sm80, so its default there is plain
// attention.
TEST_CASE("a framework's flash attention is plain where the device has no such kernel") {
    for (const std::string kind : {"flash", "flash2", "triton"}) {
        INFO(kind);
        const Experiment e = on_volta({{"framework.attention", kind}});
        CHECK(e.runtime.attention == AttentionKind::plain);
        CHECK(says(remarks_on(e), "runtime.attention = plain: old has no " + kind +
                                      " kernel below compute capability 80"));
        Experiment newer = e;  // bf16 and tf32 make it an A100
        newer.cluster.gpu.peaks[Dtype::bf16] = newer.cluster.gpu.peaks[Dtype::tf32] =
            FlopsPerSecond(4e12);
        apply_framework(newer);
        CHECK(to_string(newer.runtime.attention) == kind);
        CHECK(remarks_on(newer).empty());
        // Whoever states the kernel gets it, and is told.
        const Experiment stated =
            on_volta({{"framework.attention", "plain"}, {"runtime.attention", kind}});
        CHECK(to_string(stated.runtime.attention) == kind);
        CHECK(says(remarks_on(stated), "runtime.attention = " + kind + " is not there on old"));
    }
    CHECK(remarks_on(on_volta({{"framework.attention", "plain"}})).empty());
    // A preset model's flash attention is no statement either.
    Experiment preset = on_volta({});
    preset.runtime.attention = AttentionKind::flash;
    apply_framework(preset);
    CHECK(preset.runtime.attention == AttentionKind::plain);
    // Latent attention is the model's: it stays, and the forecast says that it cannot run.
    CHECK(says(remarks_on(on_volta({{"workload.mla.kv_rank", "32"}})),
               "the forecast is of what cannot run"));
}

TEST_CASE("tokens are dispatched once only where the device has such kernels") {
    const auto e = [](bool volta) {
        Experiment moe = volta ? on_volta({}) : small_gpt();
        moe.framework.name = "mine";
        moe.parallelism.dp = moe.parallelism.ep = 2;
        return with(moe, {{"workload.moe.experts", "4"}, {"framework.dispatch_once", "true"}});
    };
    CHECK(sends_once(e(false)));
    CHECK_FALSE(sends_once(e(true)));
}

TEST_CASE("a peak that a device lacks is refused with the capability where it begins") {
    CHECK_THROWS_WITH(peak(on_volta({}).cluster.gpu, Dtype::bf16),
                      Catch::Contains("begins at compute capability 80"));
}
