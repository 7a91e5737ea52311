#include "model/framework.h"

#include <array>
#include <functional>

#include "measured/read.h"
#include "model/experiment.h"
#include "model/input/keys.h"
#include "model/input/presets.h"
#include "model/machine/generation.h"
#include "model/runtime_rules.h"
#include "tests/model/files.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

// A run of 13 billion weights on 16 ranks, as in a file.
const std::string run_13b =
    "[workload]\nfamily = \"llama\"\nlayers = 40\nhidden = 5120\nheads = 40\nffn = 13824\nvocab = "
    "32000\nseq = 4096\n"
    "dtype = \"bf16\"\noptimizer = \"adam\"\n"
    "[parallelism]\ntp = 4\npp = 2\ndp = 2\nzero = 1\nsequence_parallel = true\nmicro_batch = "
    "1\nglobal_batch = 128\n"
    "[cluster]\npreset = \"dgx-h100\"\nnodes = 2\n";

Experiment read_ruled(const std::string& text, std::vector<Override> overrides = {}) {
    const TestFolder folder;
    return read_experiment(folder.write("run.toml", text), overrides);
}

}  // namespace

TEST_CASE("every shipped framework reads, says what it is and is written as it was read") {
    const TestFolder folder;
    for (const auto& name : preset_names(PresetKind::framework)) {
        const Framework framework = read_framework(name);
        CHECK(framework.name == name);
        CHECK_FALSE(framework.about.empty());
        CHECK(read_framework(folder.write("again.toml", write_framework(framework))) == framework);
    }
}

// An untuned loop, by default.toml: fp32 gradients, exchanged after the last backward in one
// bucket, eager passes.
TEST_CASE("an experiment without a framework has the default one") {
    const Experiment e = read_ruled(run_13b);
    CHECK(e.framework.name == "default");
    CHECK(e.runtime.attention == AttentionKind::flash);
    CHECK(gradient_type(e) == Dtype::fp32);
    CHECK(bucket_bytes(e) > Bytes(4.0 * 13e9));
    CHECK(is_eager(e));
    CHECK_FALSE((overlaps_gradients(e) || overlaps_parameters(e) || overlaps_tensor(e)));
}

TEST_CASE("a framework may be others, which have to be known") {
    CHECK(read_ruled(run_13b).framework.may_be ==
          std::vector<std::string>{"eager", "nanotron", "deepspeed-transformers",
                                   "megatron-lm-untuned", "megatron-bridge", "fsdp"});
    CHECK(read_ruled(run_13b, {{"framework.may_be", "[\"fsdp\"]"}}).framework.may_be ==
          std::vector<std::string>{"fsdp"});
    CHECK_THROWS_WITH(read_ruled(run_13b, {{"framework.may_be", "[\"fsdp\", \"fsp\"]"}}),
                      Catch::Contains("\"fsp\" is no preset framework"));
}

// Conventions of nemo-2, by hand: bf16 gradients; buckets of 40 million weights of 2 bytes;
// collectives of tensor parallelism overlap GEMMs, as the sequence is split too.
TEST_CASE("keys that an experiment states stay as its framework finds them") {
    const std::string recipe = run_13b + "[framework]\npreset = \"nemo-2\"\n";
    const Experiment e = read_ruled(recipe);
    CHECK(gradient_type(e) == Dtype::bf16);
    CHECK(bucket_bytes(e) == Bytes(80e6));
    CHECK(overlaps_tensor(e));
    CHECK_FALSE(overlaps_tensor(read_ruled(recipe, {{"parallelism.sequence_parallel", "false"}})));
    const Experiment stated = read_ruled(
        recipe, {{"parallelism.gradient_dtype", "fp32"}, {"parallelism.overlap", "false"}});
    CHECK(gradient_type(stated) == Dtype::fp32);
    CHECK(bucket_bytes(stated) == Bytes(160e6));
    CHECK_FALSE(overlaps_gradients(stated));
    const Experiment plain = read_ruled(run_13b + "[framework]\npreset = \"native\"\n");
    CHECK(gradient_type(plain) == Dtype::fp32);
    CHECK(bucket_bytes(plain) == Bytes(25e6));
    CHECK_FALSE(overlaps_tensor(plain));
}

TEST_CASE("naming another framework gives back what the one before had replaced") {
    const Experiment first = read_ruled(run_13b, {{"framework.preset", "megatron-lm-2021"}});
    CHECK(first.runtime.attention == AttentionKind::plain);
    CHECK(first.workload.dropout == 0.1);
    CHECK_FALSE(overlaps_gradients(first));
    Experiment second = first;
    set_key(second, {"framework.preset", "native"});
    CHECK(second.workload.dropout == 0);
    CHECK(overlaps_gradients(second));
    CHECK(second == read_ruled(run_13b, {{"framework.preset", "native"}}));
    set_key(second, {"framework.preset", "megatron-lm-2021"});
    CHECK(second == first);
}

// deepspeed-2021 states 0.12. Below ZeRO 3 the machine's own rate stays, and it returns when
// another framework is named.
TEST_CASE("a framework's rate of sharded exchanges is that of ZeRO 3 between nodes alone") {
    const double usual = read_ruled(run_13b).cluster.inter.training;
    CHECK(read_ruled(run_13b, {{"framework.preset", "deepspeed-2021"}}).cluster.inter.training ==
          usual);
    const std::vector<Override> sharded{
        {"parallelism.tp", "1"},   {"parallelism.pp", "1"},
        {"parallelism.dp", "16"},  {"parallelism.sequence_parallel", "false"},
        {"parallelism.zero", "3"}, {"framework.preset", "deepspeed-2021"}};
    Experiment e = read_ruled(run_13b, sharded);
    CHECK(e.cluster.inter.training == 0.12);
    set_key(e, {"framework.preset", "native"});
    CHECK(e.cluster.inter.training == usual);
    std::vector<Override> of_links = sharded;  // 0: the machine's own
    of_links.push_back({"framework.shard_rate", "0"});
    CHECK(read_ruled(run_13b, of_links).cluster.inter.training == usual);
    std::vector<Override> stated = sharded;
    stated.push_back({"cluster.link.inter.training", "0.74"});
    CHECK(read_ruled(run_13b, stated).cluster.inter.training == 0.74);
}

TEST_CASE(
    "costs of a framework's own code replace the cluster's, and those that it does not state "
    "stay") {
    const Experiment e =
        read_ruled(run_13b + "[framework]\npreset = \"nemo\"\nhost.layer = \"1.5 ms\"\n");
    CHECK(e.cluster.host.layer == Seconds(1.5e-3));
    CHECK(e.cluster.host.expert_layer == read_cluster("dgx-h100").host.expert_layer);
    CHECK(read_ruled(run_13b, {{"framework.host.layer", "2 ms"}, {"cluster.host.layer", "3 ms"}})
              .cluster.host.layer == Seconds(3e-3));
    Experiment other = e;
    set_key(other, {"cluster.preset", "dgx-a100"});
    CHECK(other.cluster.host.layer == Seconds(1.5e-3));
    set_key(other, {"framework.preset", "nemo"});
    CHECK(other.cluster.host.layer == read_cluster("dgx-a100").host.layer);
}

// Fused products exist only for narrow types, on devices that multiply fp4.
TEST_CASE("a framework's fused experts are one by one where no such kernel runs") {
    Experiment e = read_ruled(
        run_13b, {{"framework.preset", "megatron-bridge-26.06"}, {"workload.moe.experts", "8"}});
    const auto on = [&](const std::string& cluster, const std::string& dtype) {
        set_key(e, {"cluster.preset", cluster});
        set_key(e, {"workload.dtype", dtype});
        return e.runtime.experts.products;
    };
    CHECK(on("dgx-h100", "fp8") == ExpertProducts::each);
    CHECK(on("b200-x8", "bf16") == ExpertProducts::each);
    CHECK(on("b200-x8", "fp8") == ExpertProducts::fused);
    CHECK(read_ruled(run_13b, {{"framework.preset", "nemo"}, {"workload.moe.experts", "8"}})
              .runtime.experts.products == ExpertProducts::grouped);
}

TEST_CASE("each cost of a framework's own code takes the place of the cluster's of that name") {
    for (const std::string key :
         {"call", "layer", "expert_layer", "micro_batch", "exchange", "exchange_setup", "update"})
        CHECK(get_key(read_ruled(run_13b, {{"framework.host." + key, "7 ms"}}),
                      "cluster.host." + key) == "7 ms");
    const Experiment graphs = read_ruled(run_13b, {{"framework.expert_graphs", "true"},
                                                   {"workload.moe.experts", "8"},
                                                   {"cluster.preset", "b200-x8"},
                                                   {"cluster.nodes", "2"},
                                                   {"framework.host.expert_layer", "7 ms"}});
    CHECK(graphs.cluster.host.expert_layer == Seconds(0));  // they run as graphs
}

// Hooks gather weights under ZeRO 3 alone, so other stages have no common base with it.
TEST_CASE("the cost of a module's hooks takes the place of the cluster's under ZeRO 3") {
    for (const std::string key : {"module_forward", "module_backward"}) {
        std::vector<Override> hooked{{"framework.host." + key, "7 ms"},
                                     {"parallelism.dp", "16"},
                                     {"parallelism.tp", "1"},
                                     {"parallelism.pp", "1"},
                                     {"parallelism.sequence_parallel", "false"},
                                     {"parallelism.zero", "2"}};
        CHECK(get_key(read_ruled(run_13b, hooked), "cluster.host." + key) == "500 us");
        hooked.back().value = "3";
        CHECK(get_key(read_ruled(run_13b, hooked), "cluster.host." + key) == "7 ms");
        // default asks for the device and for the products' type
        CHECK(condition_keys(read_ruled(run_13b, hooked).framework) ==
              std::vector<std::string_view>{"workload.dtype", "cluster.gpu.name",
                                            "parallelism.zero"});
    }
}

// A framework with dispatch_once uses it between ranks and without capacity limits;
// expert_tensor_parallel splits wide experts over tp.
TEST_CASE("what a framework does with experts holds where they are split") {
    const auto e = [&](std::vector<Override> more) {
        std::vector<Override> all{{"workload.moe.experts", "8"},
                                  {"framework.dispatch_once", "true"},
                                  {"framework.expert_tensor_parallel", "true"},
                                  {"parallelism.dp", "4"},
                                  {"parallelism.tp", "2"},
                                  {"parallelism.ep", "4"}};
        all.insert(all.end(), more.begin(), more.end());
        return read_ruled(run_13b, all);
    };
    CHECK(sends_once(e({})));
    CHECK_FALSE(sends_once(e({{"parallelism.ep", "1"}})));
    CHECK_FALSE(sends_once(e({{"workload.moe.capacity_factor", "1.5"}})));
    CHECK_FALSE(sends_once(e({{"framework.dispatch_once", "false"}})));
    CHECK(splits_experts(e({})));
    // as wide as the model
    CHECK(splits_experts(e({{"workload.moe.ffn", "5120"}})));
    CHECK_FALSE(splits_experts(e({{"workload.moe.ffn", "5118"}})));
    CHECK_FALSE(splits_experts(e({{"framework.expert_tensor_parallel", "false"}})));
}

// 8 experts over 2 ranks and 40 layers over 2 stages make 4 x 20 experts of two tensors on a rank,
// besides what is fused.
TEST_CASE("experts that run one by one are tensors that the optimizer goes over") {
    const auto groups = [](const std::string& framework, const std::string& ep) {
        const Experiment e = read_ruled(run_13b, {{"framework.preset", framework},
                                                  {"workload.moe.experts", "8"},
                                                  {"workload.moe.top_k", "2"},
                                                  {"parallelism.ep", ep}});
        return std::pair{optimizer_groups(e), e.runtime.optimizer.calls};
    };
    CHECK(groups("megatron-lm-profiled", "2") == std::pair{161, 12});
    CHECK(groups("megatron-lm-profiled", "1") == std::pair{321, 12});
    CHECK(groups("megatron-lm", "2") == std::pair{1, OptimizerKernels{}.calls});
    CHECK(optimizer_groups(read_ruled(run_13b, {{"framework.preset", "megatron-lm-profiled"}})) ==
          1);
    CHECK(read_ruled(run_13b, {{"framework.preset", "megatron-lm-profiled"}})
              .runtime.optimizer.reads_loss);
    const auto split = [](const std::string& framework, const std::string& pp,
                          const std::string& dp) {
        return read_ruled(run_13b, {{"framework.preset", framework},
                                    {"workload.moe.experts", "8"},
                                    {"workload.moe.top_k", "2"},
                                    {"workload.moe.ffn", "1408"},
                                    {"parallelism.pp", pp},
                                    {"parallelism.dp", dp}});
    };
    CHECK(splits_experts(split("megatron-lm-profiled", "2", "2")));
    CHECK_FALSE(splits_experts(split("megatron-lm", "2", "2")));
    CHECK(split("megatron-lm-profiled", "2", "2").runtime.pipeline.blocking);
    CHECK_FALSE(split("megatron-lm-profiled", "1", "4").runtime.pipeline.blocking);
    CHECK_FALSE(split("megatron-lm", "2", "2").runtime.pipeline.blocking);
}

namespace {

// small_gpt() under a framework that states a single key.
Experiment under(const std::string& key, const std::string& value, Experiment e = small_gpt()) {
    e.framework.name = "mine";
    set_key(e, {"framework." + key, value});
    return e;
}

}  // namespace

// The framework's value of a key becomes the experiment's, unless the experiment states it; without
// a value the experiment keeps its own.
TEST_CASE("each sentence of a framework sets its key") {
    struct Sentence {
        std::string key, value, decided, becomes;
    };
    std::vector<Sentence> all{{"attention", "flash", "runtime.attention", "flash"},
                              {"dropout", "0.25", "workload.dropout", "0.25"},
                              {"optimizer", "lamb", "workload.optimizer", "lamb"},
                              {"head_share", "0.125", "workload.head_share", "0.125"},
                              {"gradients", "fp16", "parallelism.gradient_dtype", "fp16"},
                              {"gradients", "training", "parallelism.gradient_dtype", "bf16"},
                              // of fp32
                              {"bucket_weights", "3e6", "parallelism.bucket", "12 MB"},
                              // one for all, beyond any model
                              {"bucket_weights", "0", "parallelism.bucket", "4 TB"},
                              {"eager_traffic", "3", "parallelism.eager_traffic", "3"}};
    const std::vector<std::pair<std::string, std::string>> flags{
        {"fused_loss", "workload."},
        {"reads_loss", "workload."},
        {"overlap", "parallelism."},
        {"overlap_params", "parallelism."},
        {"overlap_p2p", "parallelism."},
        {"overlap_weight_gradient", "parallelism."},
        {"fused_accumulation", "parallelism."},
        {"eager", "parallelism."},
        {"unfused", "parallelism."},
        {"recompute_stops_early", "parallelism."}};
    for (const auto& [key, table] : flags)
        for (const std::string value : {"true", "false"})
            all.push_back({key, value, table + key, value});
    for (const auto& [key, value, decided, becomes] : all) {
        INFO(key << " = " << value);
        CHECK(get_key(under(key, value), decided) == becomes);
        CHECK(may_be_ruled(canonical(*find_key(decided))));
        Experiment stating = small_gpt();
        stating.overlay.stated = {std::string(canonical(*find_key(decided)))};
        CHECK(get_key(under(key, value, stating), decided) == get_key(small_gpt(), decided));
    }
    CHECK_FALSE(may_be_ruled("workload.hidden"));
    CHECK_FALSE(may_be_ruled("parallelism.zero"));
}

TEST_CASE("gradients of the training type are of its 16 bits") {
    const auto gradients = [](const std::string& word, Dtype training) {
        Experiment e = small_gpt();
        e.workload.dtype = training;
        return gradient_type(under("gradients", word, e));
    };
    CHECK(gradients("training", Dtype::fp32) == Dtype::fp32);
    CHECK(gradients("training", Dtype::tf32) == Dtype::fp32);
    CHECK(gradients("training", Dtype::fp16) == Dtype::fp16);
    CHECK(gradients("training", Dtype::fp8) == Dtype::bf16);
    CHECK(gradients("fp32", Dtype::bf16) == Dtype::fp32);
    CHECK(gradients("bf16", Dtype::fp16) == Dtype::bf16);
}

// V100 has no bf16, so that mixed precision there is fp16 by a list of operators.
TEST_CASE("an unnamed script on V100 casts operator by operator") {
    const auto casts = [](const char* cluster, const char* framework) {
        return read_ruled(run_13b, {{"cluster.preset", cluster},
                                    {"workload.dtype", "fp16"},
                                    {"framework.preset", framework}})
            .runtime.autocast;
    };
    CHECK(casts("dgx-v100", "default"));
    CHECK(casts("v100-16gb-x8", "eager"));
    CHECK(casts("v100-pcie-x8", "default"));
    CHECK_FALSE(casts("dgx-a100", "default"));
    CHECK_FALSE(casts("dgx-v100", "megatron-lm-2021"));
}

// DistributedDataParallel sends 25 MiB at once, 6.5536 million fp32 gradients; FSDP has no buckets.
// DeepSpeed states a size of its own, which its base's condition does not change.
TEST_CASE("loops around FSDP send their gradients in DDP's buckets where nothing is sharded") {
    const auto bucket = [](const char* framework, const char* zero) {
        return read_ruled(run_13b, {{"parallelism.tp", "1"},
                                    {"parallelism.pp", "1"},
                                    {"parallelism.dp", "16"},
                                    {"parallelism.sequence_parallel", "false"},
                                    {"parallelism.zero", zero},
                                    {"framework.preset", framework}})
            .runtime.gradients.bucket;
    };
    CHECK(bucket("torchtitan-eager", "0") == BucketSize::of_weights(6.5536e6));
    CHECK(bucket("transformers", "1") == BucketSize::of_weights(6.5536e6));
    CHECK(bucket("torchtitan-eager", "3") == BucketSize::one());
    CHECK(bucket("deepspeed", "0") == BucketSize::of_weights(5e8));
}

// Four layers with 5 parameter groups each, and one more layer for the ends, make 25 groups.
TEST_CASE("sentences of a framework that hold under a condition") {
    Experiment e = under("optimizer_calls", "3", under("optimizer_groups_a_layer", "5"));
    CHECK(optimizer_groups(e) == 25);
    CHECK(e.runtime.optimizer.calls == 3);
    e = small_gpt();
    e.runtime.optimizer.groups = 7;
    CHECK(optimizer_groups(under("optimizer_calls", "3", e)) == 7);
    CHECK(under("optimizer_calls", "3", e).runtime.optimizer.calls == e.runtime.optimizer.calls);
    e.workload.head_share = 0.5;  // stated by the model; a framework that makes all logits keeps it
    CHECK(under("head_share", "1", e).workload.head_share == 0.5);

    const auto tied = [](Positions positions, const std::string& word) {
        Experiment model = small_gpt();
        model.workload.positions = positions;
        model.workload.tied = true;
        return under("tied", word, model).workload.tied;
    };
    CHECK_FALSE(tied(Positions::learned, "false"));
    CHECK(tied(Positions::learned, "true"));
    CHECK(tied(Positions::rotary, "false"));

    const auto attention = [](const std::function<void(Experiment&)>& change) {
        Experiment model = small_gpt();
        change(model);
        return under("attention", "flash", model).runtime.attention;
    };
    CHECK(attention([](Experiment& m) { m.workload.mla.kv_rank = 16; }) == AttentionKind::plain);
    CHECK(attention([](Experiment& m) { m.workload.positions = Positions::relative; }) ==
          AttentionKind::plain);
    CHECK(attention([](Experiment& m) { m.runtime.kernels = KernelStyle::operations; }) ==
          AttentionKind::plain);
    CHECK(attention([](Experiment& m) { m.runtime.kernels = KernelStyle::script; }) ==
          AttentionKind::plain);
    CHECK(attention([](Experiment& m) {
              m.runtime.kernels = KernelStyle::operations;
              set_rule(m.framework, "runtime.kernels",
                       "operations");  // the framework's own way: its kernel stands
          }) == AttentionKind::flash);

    // Latent and relative attention have their own projections, so the framework's key for query,
    // key and value does not apply.
    const auto fused = [](int kv_rank, Positions positions) {
        Experiment model = small_gpt();
        model.workload.mla.kv_rank = kv_rank;
        model.workload.positions = positions;
        model.runtime.fused_projections = true;
        return under("fused_projections", "false", model).runtime.fused_projections;
    };
    CHECK_FALSE(fused(0, Positions::rotary));
    CHECK(fused(16, Positions::rotary));
    CHECK(fused(0, Positions::relative));
}

// Flash attention takes 16 bits; PyTorch's own function has a kernel for fp32. What an experiment
// states stays.
TEST_CASE("Megatron's attention goes through memory in fp32 and TF32") {
    const auto attention = [](const std::string& framework, const std::string& dtype,
                              std::vector<Override> more = {}) {
        more.push_back({"framework.preset", framework});
        more.push_back({"workload.dtype", dtype});
        return read_experiment("llama3_8b_h100_fsdp", more).runtime.attention;
    };
    for (const char* name : {"megatron-core", "default", "megatron-bridge"}) {
        CAPTURE(name);
        CHECK(attention(name, "bf16") != AttentionKind::plain);
        CHECK(attention(name, "tf32") == AttentionKind::plain);
        CHECK(attention(name, "fp32") == AttentionKind::plain);
        CHECK(attention(name, "fp32", {{"runtime.attention", "flash"}}) == AttentionKind::flash);
    }
    CHECK(attention("fsdp", "tf32") == AttentionKind::flash2);
}

// Falcon-7B's layer norms tell it from Gemma and other models with RMS norms, which repeat
// their head of keys.
TEST_CASE("Transformers' attention goes through memory where Falcon hands it one head of keys") {
    const auto attention = [](const std::string& framework, const std::string& kv_heads,
                              const std::string& norm) {
        const std::vector<Override> with{{"framework.preset", framework},
                                         {"workload.kv_heads", kv_heads},
                                         {"workload.norm", norm}};
        return read_experiment("llama3_8b_h100_fsdp", with).runtime.attention;
    };
    for (const char* name : {"transformers", "transformers-trainer", "deepspeed-transformers"}) {
        CAPTURE(name);
        CHECK(attention(name, "1", "layernorm") == AttentionKind::plain);
        CHECK(attention(name, "8", "layernorm") == AttentionKind::flash);
        CHECK(attention(name, "1", "rmsnorm") == AttentionKind::flash);
    }
    CHECK(attention("fsdp", "1", "layernorm") == AttentionKind::flash2);
}

// Transformer Engine calls its fused kernels for heads of 8, 16, .. elements; PyTorch pads others.
TEST_CASE("Megatron's attention goes through memory where heads are no multiple of 8 wide") {
    const auto attention = [](const std::string& framework, const std::string& width) {
        const std::vector<Override> with{{"framework.preset", framework},
                                         {"workload.head_dim", width}};
        return read_experiment("llama3_8b_h100_fsdp", with).runtime.attention;
    };
    for (const char* name : {"megatron-core", "default", "nemo-2", "transformer-engine"}) {
        CAPTURE(name);
        CHECK(attention(name, "152") == AttentionKind::flash);
        CHECK(attention(name, "150") == AttentionKind::plain);
    }
    CHECK(attention("nanotron", "150") == AttentionKind::flash2);
    CHECK(attention("fsdp", "150") == AttentionKind::flash2);
}

// "Bias in Moe is only supported when ETP==1" (Megatron-Core 0.16.1, transformer_config.py): a rule
// of frameworks on it, not of nanotron, whose file has NeMo's below it.
TEST_CASE("experts with biases stay whole in Megatron-Core's frameworks alone") {
    const auto split = [](const std::string& framework, const char* bias) {
        const std::vector<Override> with{{"framework.preset", framework},
                                         {"workload.moe.experts", "8"},
                                         {"workload.linear_bias", bias}};
        return read_experiment("llama3_8b_h100_fsdp", with).runtime.experts.tensor_parallel;
    };
    const auto usual = split("megatron-core", "false"), whole = split("megatron-core", "true");
    CHECK(usual != whole);
    for (const char* name : {"megatron-lm", "nemo", "megatron-bridge"}) {
        CAPTURE(name);
        CHECK(split(name, "true") == whole);
    }
    CHECK(split("nanotron", "true") == usual);
    CHECK(split("nanotron", "false") == usual);
}

// ZeRO 3 gathers ahead of use whatever the framework states; exchanges beside GEMMs need a split
// sequence.
TEST_CASE("overlaps follow the split") {
    const auto overlaps = [](int zero, bool sequence) {
        Experiment e = small_gpt();
        e.parallelism.zero = zero;
        e.parallelism.sequence_parallel = sequence;
        e = under("overlap", "false",
                  under("overlap_params", "false", under("overlap_tp", "true", e)));
        return std::array{overlaps_gradients(e), overlaps_parameters(e), overlaps_tensor(e)};
    };
    CHECK(overlaps(2, false) == std::array{false, false, false});
    CHECK(overlaps(3, true) == std::array{true, true, true});
}

TEST_CASE("experts run as graphs on Blackwell alone") {
    Experiment e = small_moe();
    e.cluster.host.expert_layer = Seconds(0.5);
    CHECK(under("expert_graphs", "true", e).cluster.host.expert_layer == Seconds(0.5));
    e.cluster.gpu.peaks[Dtype::fp4] = FlopsPerSecond(16e12);
    REQUIRE(is_blackwell(e.cluster.gpu));
    CHECK(under("expert_graphs", "true", e).cluster.host.expert_layer == Seconds(0));
    CHECK(under("expert_graphs", "false", e).cluster.host.expert_layer == Seconds(0.5));
    e.workload.moe = {};
    CHECK(under("expert_graphs", "true", e).cluster.host.expert_layer == Seconds(0.5));
}

// By kind of workload: what its step reads.
TEST_CASE("a framework decides of a step that is no transformer what that step reads") {
    const TestFolder folder;
    const std::string mine =
        folder.write("mine.toml",
                     "attention = \"flash\"\ndropout = 0.3\nbucket_weights = 30e6\noverlap = true\n"
                     "host.call = \"9 us\"\nhost.update = \"7 ms\"\nhost.layer = \"5 ms\"\n");
    const auto of = [&](const char* experiment) {
        return read_experiment(experiment, std::vector<Override>{{"framework.preset", mine}});
    };
    const Experiment coca = of("coca_zero1");
    CHECK(coca.cluster.host.call == Seconds(9e-6));
    CHECK(coca.cluster.host.update == Seconds(7e-3));
    CHECK(coca.cluster.host.layer == Seconds(5e-3));
    CHECK(bucket_bytes(coca) == Bytes(1e9));  // the experiment states it, and overlap = false
    CHECK_FALSE(overlaps_gradients(coca));
    CHECK(coca.runtime.attention == AttentionKind::plain);
    CHECK(coca.workload.dropout == 0);
    CHECK(of("moe_layer_alltoall").cluster.host.call == Seconds(9e-6));
    CHECK(of("moe_layer_alltoall").cluster.host.layer ==
          read_experiment("moe_layer_alltoall").cluster.host.layer);
    CHECK(of("host_ddp").cluster.host.call == Seconds(9e-6));
    const auto unfused = [](const char* experiment) {
        return runs_operations(
            read_experiment(experiment, std::vector<Override>{{"framework.preset", "tutel"}}));
    };
    CHECK(unfused("moe_layer_alltoall"));
    CHECK_FALSE(unfused("moe_layer_mix_moe"));  // whose kernels are one by one already
    CHECK(read_experiment("coca_zero1").framework.name.empty());  // none is assumed
    for (const auto& name : preset_names(PresetKind::framework))
        for (const char* experiment :
             {"coca_zero1", "moe_layer_alltoall", "moe_layer_mix_moe", "host_ddp", "host_moe"}) {
            INFO(name << " " << experiment);
            CHECK_NOTHROW(
                read_experiment(experiment, std::vector<Override>{{"framework.preset", name}}));
        }
}

TEST_CASE("a framework file's mistakes are named with line and column") {
    const TestFolder folder;
    const auto told = [&](const std::string& text) {
        return complaint([&] { (void)read_framework(folder.write("mine.toml", text)); },
                         folder.path());
    };
    CHECK(told("preset = \"nemo\"\nattension = \"flash\"\n") ==
          "mine.toml:2:1: attension: unknown key, did you mean \"attention\"?");
    CHECK(told("dropout = 2\n")
              .starts_with("mine.toml:1:11: dropout: 2 is out of range; expected 0 to 1"));
    CHECK(told("preset = \"nemmo\"\n")
              .starts_with("mine.toml:1:10: preset: \"nemmo\" is no preset framework, did you mean "
                           "\"nemo\"?"));
    CHECK(told("[can]\nschedules = [\"1f2b\"]\n").starts_with("mine.toml:2:13: can.schedules: "));
}
