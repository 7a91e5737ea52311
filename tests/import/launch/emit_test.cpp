#include "import/launch/emit.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "import/launch/translate.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "tests/import/launch/every_key.h"
#include "tests/model/files.h"

using namespace stepcast;
using Catch::Matchers::Contains;

TEST_CASE("a split that a framework cannot run is not emitted") {
    Experiment e = read_unchecked_experiment(
        "llama3-8b", std::vector<Override>{{"cluster.preset", "dgx-h100"}, {"cluster.nodes", "8"}});
    const auto refusal = [&](EmitFormat format) { return complaint([&] { emit(e, format); }); };
    e.parallelism.pp = 4;
    e.parallelism.dp = 16;
    e.parallelism.global_batch = 256;
    e.parallelism.schedule = Schedule::zb_h1;
    for (const auto format : {EmitFormat::megatron, EmitFormat::nemo, EmitFormat::megatron_bridge,
                              EmitFormat::torchtitan})
        CHECK_THAT(refusal(format),
                   Contains("cannot run this parallel layout: ") && Contains("schedule zb-h1"));
    e.parallelism.schedule = Schedule::one_f_one_b;
    e.parallelism.zero = 1;
    CHECK_THAT(refusal(EmitFormat::torchtitan), Contains("zero 1"));
    // 32 layers in 12 chunks: chunk g ends with layer 32 (g + 1) / 12, rounded down.
    e.parallelism.vp = 3;
    CHECK_THAT(emit(e, EmitFormat::megatron).text,
               Contains("--pipeline-model-parallel-layout "
                        "\"Et*2|t*3|t*3|t*2|t*3|t*3|t*2|t*3|t*3|t*2|t*3|t*3L\""));
    e.parallelism.vp = 2;
    e.parallelism.recompute = Recompute::full;
    e.parallelism.recompute_layers = 3;
    CHECK_THAT(
        refusal(EmitFormat::megatron),
        Contains("3 layers of a stage computed again: it takes as many of each of 2 chunks"));
    e.parallelism.recompute_layers = 4;
    for (const auto& [format, two] : {std::pair{EmitFormat::megatron, "--recompute-num-layers 2\n"},
                                      {EmitFormat::megatron_bridge, "recompute_num_layers: 2\n"},
                                      {EmitFormat::nemo, "activations_checkpoint_num_layers: 2\n"}})
        CHECK_THAT(emit(e, format).text, Contains(two));
    e.parallelism.vp = 1;
    e.parallelism.global_batch = 32;
    // fewer micro-batches than stages: its plain 1F1B warms up with all of them (schedules.py)
    CHECK_THAT(emit(e, EmitFormat::megatron).text, Contains("--global-batch-size 32"));
    CHECK_THAT(complaint([] { parse_name<EmitFormat>("megatorn"); }),
               Contains("did you mean \"megatron\"?"));
}

// torchtitan shards over its shard degree times that of context: 8 over 4 parts are 2, 2 none.
TEST_CASE("torchtitan has as many shards as parts of a sequence, or a multiple") {
    Experiment e = read_unchecked_experiment(
        "llama3-8b", std::vector<Override>{{"cluster.preset", "dgx-h100"},
                                           {"framework.preset", "torchtitan"},
                                           {"parallelism.dp", "4"},
                                           {"parallelism.cp", "4"},
                                           {"parallelism.zero", "3"},
                                           {"parallelism.shard", "8"}});
    CHECK_THAT(emit(e, EmitFormat::torchtitan).text,
               Contains("data_parallel_replicate_degree = 2\ndata_parallel_shard_degree = 2\n"));
    e.parallelism.shard = 2;
    CHECK_THAT(complaint([&] { emit(e, EmitFormat::torchtitan); }),
               Contains("shard 2, no multiple of cp 4"));
}

// distributed/parallel_dims.py of 0.2.2: efsdp = dp_shard x cp x tp / (etp x ep). Of 8 replicas of
// 2 ranks with whole experts that is 1 x 2 / 4 = 0 unsharded, 8 x 2 / 4 = 4 sharded; 2 experts'
// ranks fit into tp alone.
TEST_CASE("torchtitan's expert parallelism lies within its shards") {
    Experiment e = read_unchecked_experiment(
        "qwen3-30b-a3b", std::vector<Override>{{"cluster.preset", "dgx-h100"},
                                               {"cluster.nodes", "2"},
                                               {"framework.preset", "torchtitan"},
                                               {"parallelism.dp", "8"},
                                               {"parallelism.tp", "2"},
                                               {"parallelism.ep", "4"},
                                               {"parallelism.sequence_parallel", "true"},
                                               {"parallelism.zero", "0"},
                                               {"runtime.experts.tensor_parallel", "none"}});
    CHECK_THAT(complaint([&] { emit(e, EmitFormat::torchtitan); }),
               Contains("ep 4 over shards of 2 ranks"));
    e.parallelism.ep = 2;
    CHECK_NOTHROW(emit(e, EmitFormat::torchtitan));
    e.parallelism.ep = 4;
    e.parallelism.zero = 3;
    CHECK_NOTHROW(emit(e, EmitFormat::torchtitan));
}

// megatron-bridge 0.6.2, training/config.py: runtime_config_update runs mixed_precision.setup(),
// and bf16_mixed() has grad_reduce_in_fp32 = True. fp32 gradients need no word.
TEST_CASE("16-bit gradients of Megatron-Bridge stand against its recipe of precision") {
    Experiment e = read_unchecked_experiment(
        "llama3-8b", std::vector<Override>{{"cluster.preset", "dgx-h100"},
                                           {"framework.preset", "megatron-bridge"},
                                           {"parallelism.dp", "8"},
                                           {"runtime.gradients.type", "bf16"}});
    const std::string recipe = "cfg.mixed_precision.grad_reduce_in_fp32 = False";
    const std::string text = emit(e, EmitFormat::megatron_bridge).text;
    CHECK_THAT(text, Contains(recipe));
    e.runtime.gradients.type = GradientType::fp32;
    CHECK_THAT(emit(e, EmitFormat::megatron_bridge).text, !Contains(recipe));
    const TestFolder folder;
    const auto open = [&](const std::string& yaml) {
        return translate(folder.write("b.yaml", yaml), {.format = ForeignFormat::megatron_bridge})
            .open;
    };
    const auto says = [](const std::vector<std::string>& lines) {
        return std::ranges::any_of(lines, [](const std::string& line) {
            return line.starts_with("ddp.grad_reduce_in_fp32 (");
        });
    };
    CHECK(says(open(text)));
    CHECK_FALSE(says(open(emit(e, EmitFormat::megatron_bridge).text)));
}

// Megatron-Core 0.16.1: TEGroupedMLP asserts not (add_bias_linear and bias_dropout_fusion), which
// is on by default; TransformerConfig asserts expert_tensor_parallel_size 1 beside such biases.
TEST_CASE("a script for gpt-oss switches off what Megatron refuses beside biases of experts") {
    Experiment e = read_unchecked_experiment(
        "gpt-oss-120b", std::vector<Override>{{"cluster.preset", "dgx-h100"},
                                              {"framework.preset", "megatron-core"},
                                              {"parallelism.dp", "4"},
                                              {"parallelism.tp", "2"},
                                              {"parallelism.ep", "8"},
                                              {"parallelism.sequence_parallel", "true"}});
    const std::string text = emit(e, EmitFormat::megatron).text;
    CHECK_THAT(text, Contains("--no-bias-dropout-fusion") &&
                         Contains("--expert-tensor-parallel-size 1\n"));
    CHECK_THAT(emit(e, EmitFormat::megatron_bridge).text, Contains("bias_dropout_fusion: false"));
    e.runtime.experts.tensor_parallel = ExpertSplit::all;
    CHECK_THAT(complaint([&] { emit(e, EmitFormat::megatron); }),
               Contains("experts with biases over tensor-parallel ranks"));
    e.runtime.experts.tensor_parallel = ExpertSplit::none;
    e.workload.moe.shared_experts = 1;
    CHECK_THAT(complaint([&] { emit(e, EmitFormat::megatron); }),
               Contains("shared experts with biases"));
    e.workload.linear_bias = false;
    CHECK_THAT(emit(e, EmitFormat::megatron).text, !Contains("bias-dropout"));
}

// Modules that the model lacks are not written: Megatron-Core refuses mla_up_proj without latent
// attention (transformer_config.py). NeMo 1 and torchtitan have no such words.
TEST_CASE("modules that run again are written where the tool has them") {
    Experiment e = read_unchecked_experiment(
        "llama3-8b",
        std::vector<Override>{{"cluster.preset", "dgx-h100"},
                              {"framework.preset", "megatron-core"},
                              {"parallelism.recompute", "selective"},
                              {"parallelism.recompute_modules", "[core_attn, mlp, mla_up_proj]"}});
    const auto refusal = [&](EmitFormat format) { return complaint([&] { emit(e, format); }); };
    CHECK_THAT(emit(e, EmitFormat::megatron).text, Contains("--recompute-modules core_attn mlp\n"));
    CHECK_THAT(emit(e, EmitFormat::megatron_bridge).text,
               Contains("recompute_modules: [core_attn, mlp]\n"));
    CHECK_THAT(refusal(EmitFormat::nemo), Contains("recompute_modules"));
    CHECK_THAT(refusal(EmitFormat::torchtitan), Contains("recompute_modules"));
    e.parallelism.recompute_modules = {RecomputedModule::core_attn};
    CHECK_THAT(emit(e, EmitFormat::torchtitan).text, Contains("mode = \"none\""));
}

// nemo_toolkit 2.0.0: DDP's own words for its distributed optimizer, buckets in weights (32 MB of
// fp32 are 8 million); other optimizers take no such argument.
TEST_CASE("NeMo's optimizers get the keys that they know") {
    Experiment e = read_unchecked_experiment(
        "llama3-8b",
        std::vector<Override>{{"cluster.preset", "dgx-h100"}, {"framework.preset", "nemo"}});
    e.parallelism.dp = 8;
    e.parallelism.zero = 1;
    e.runtime.exchanges.gradients = GradientOverlap::always;
    e.runtime.exchanges.parameters = true;
    e.runtime.gradients.type = GradientType::fp32;
    e.runtime.gradients.bucket = BucketSize(Bytes(32e6));
    const std::string one = emit(e, EmitFormat::nemo).text;
    for (const char* line : {"name: mcore_distributed_optim", "overlap_grad_sync: true",
                             "overlap_param_gather: true", "ddp_bucket_size: 8000000"})
        CHECK_THAT(one, Contains(line));
    e.parallelism.zero = 0;
    const Emission plain = emit(e, EmitFormat::nemo);
    CHECK_THAT(plain.text, Contains("name: fused_adam") && !Contains("overlap_grad_sync") &&
                               !Contains("ddp_bucket_size") && !Contains("overlap_param"));
    CHECK(std::ranges::count(plain.lost, "runtime.exchanges.gradients") == 1);
}

// Megatron-LM's arguments.py asserts the distributed optimizer and --overlap-grad-reduce beside it.
TEST_CASE("parameters are gathered early only where Megatron can") {
    Experiment e = read_unchecked_experiment(
        "llama3-8b", std::vector<Override>{{"cluster.preset", "dgx-h100"},
                                           {"framework.preset", "megatron-core"}});
    e.parallelism.dp = 8;
    e.parallelism.zero = 1;
    CHECK_THAT(emit(e, EmitFormat::megatron).text, Contains("--overlap-param-gather"));
    e.parallelism.zero = 0;
    CHECK_THAT(emit(e, EmitFormat::megatron).text,
               Contains("--overlap-grad-reduce") && !Contains("--overlap-param-gather"));
    e.parallelism.zero = 1;
    e.runtime.exchanges.gradients = GradientOverlap::never;
    CHECK_THAT(complaint([&] { emit(e, EmitFormat::megatron); }),
               Contains("needs --overlap-grad-reduce"));
}

// Megatron-Core's offload wants its distributed optimizer, and its Muon none: it deals the matrices
// out itself. torchtitan knows neither; DeepSpeed's file has both.
TEST_CASE("optimizers on the host and Muon are written where the tool has them") {
    Experiment e = read_unchecked_experiment(
        "llama3-8b", std::vector<Override>{{"cluster.preset", "dgx-h100"},
                                           {"framework.preset", "megatron-core"},
                                           {"workload.optimizer", "adam"},
                                           {"run.offload_optimizer", "true"}});
    e.parallelism.dp = 8;
    e.parallelism.zero = 1;
    const auto refusal = [&](EmitFormat format) { return complaint([&] { emit(e, format); }); };
    CHECK_THAT(emit(e, EmitFormat::megatron).text,
               Contains("--optimizer-cpu-offload") && Contains("--use-precision-aware-optimizer") &&
                   Contains("--use-distributed-optimizer"));
    CHECK_THAT(emit(e, EmitFormat::megatron_bridge).text, Contains("optimizer_cpu_offload: true"));
    CHECK_THAT(emit(e, EmitFormat::deepspeed).text,
               Contains("\"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true}"));
    CHECK_THAT(refusal(EmitFormat::nemo), Contains("run.offload_optimizer"));
    CHECK_THAT(refusal(EmitFormat::torchtitan), Contains("moves the weights, too"));
    e.parallelism.zero = 0;
    CHECK_THAT(refusal(EmitFormat::megatron), Contains("run.offload_optimizer without zero 1"));
    CHECK_THAT(refusal(EmitFormat::deepspeed), Contains("run.offload_optimizer without zero"));
    e.parallelism.zero = 3;
    e.run.offload_parameters = true;
    CHECK_THAT(emit(e, EmitFormat::deepspeed).text,
               Contains("\"offload_param\": {\"device\": \"cpu\", \"pin_memory\": true}"));
    CHECK_THAT(emit(e, EmitFormat::torchtitan).text, Contains("enable_cpu_offload = true"));
    e.parallelism.zero = 1;
    CHECK_THAT(refusal(EmitFormat::megatron), Contains("run.offload_parameters"));
    e.run.offload_optimizer = e.run.offload_parameters = false;
    e.parallelism.zero = 0;
    e.workload.optimizer = Optimizer::muon;
    CHECK_THAT(emit(e, EmitFormat::megatron).text, Contains("--optimizer muon"));
    e.parallelism.zero = 1;
    CHECK_THAT(emit(e, EmitFormat::megatron).text,
               Contains("--optimizer dist_muon") && !Contains("--use-distributed-optimizer"));
    CHECK_THAT(emit(e, EmitFormat::deepspeed).text, Contains("\"type\": \"Muon\""));
    for (const auto format :
         {EmitFormat::megatron_bridge, EmitFormat::nemo, EmitFormat::torchtitan})
        CHECK_THAT(refusal(format), Contains("workload.optimizer muon"));
}

// DeepSpeed's file says nothing of the model; the code loads it by bitsandbytes.
TEST_CASE("frozen weights in four bits are left to the model's code, or refused") {
    const Experiment e = read_unchecked_experiment(
        "llama3-8b", std::vector<Override>{{"cluster.preset", "dgx-h100"},
                                           {"workload.adapter_rank", "16"},
                                           {"workload.frozen", "nf4"}});
    for (const auto format : {EmitFormat::megatron, EmitFormat::megatron_bridge, EmitFormat::nemo,
                              EmitFormat::torchtitan, EmitFormat::torchtitan_flags})
        CHECK_THAT(complaint([&] { emit(e, format); }),
                   Contains("workload.frozen nf4: it keeps frozen weights in 16 bits"));
    const auto file = emit(e, EmitFormat::deepspeed);
    CHECK(std::ranges::any_of(file.without, [](const std::string& line) {
        return line.find("workload.frozen") != std::string::npos;
    }));
}

TEST_CASE("no script is written for layers that its program is not known to make") {
    for (const char* model : {"qwen3-next-80b-a3b", "deepseek-v3.2"}) {
        const Experiment e = read_unchecked_experiment(
            model, std::vector<Override>{{"cluster.preset", "dgx-h100"}, {"cluster.nodes", "8"}});
        const std::string key = e.workload.delta.value_heads > 0 ? "workload.delta.value_heads"
                                                                 : "workload.indexer.heads";
        for (const auto format :
             {EmitFormat::megatron, EmitFormat::nemo, EmitFormat::megatron_bridge,
              EmitFormat::torchtitan, EmitFormat::deepspeed})
            CHECK_THAT(complaint([&] { emit(e, format); }), Contains(key));
    }
}

TEST_CASE("squared ReLU has a flag of Megatron-LM, ReLU none") {
    const TestFolder folder;
    Experiment e = read_unchecked_experiment(
        "llama3-8b",
        std::vector<Override>{{"cluster.preset", "dgx-h100"}, {"workload.gated", "false"}});
    CHECK_THAT(emit(e, EmitFormat::megatron).text, !Contains("--squared-relu"));
    e.workload.activation = Activation::squared_relu;
    const std::string text = emit(e, EmitFormat::megatron).text;
    CHECK_THAT(text, Contains("--squared-relu"));
    const Translation back = translate(folder.write("flags.sh", text), {});
    CHECK((back.find("workload.activation") &&
           back.find("workload.activation")->value == "squared_relu"));
    e.workload.activation = Activation::relu;
    CHECK_THAT(complaint([&] { emit(e, EmitFormat::megatron); }), Contains("activation relu"));
}

TEST_CASE("scores that are not dropped are emitted and read so") {
    const TestFolder folder;
    Experiment e = read_unchecked_experiment(
        "llama3-8b", std::vector<Override>{{"cluster.preset", "dgx-h100"},
                                           {"workload.dropout", "0.1"},
                                           {"workload.score_dropout", "false"}});
    const std::string text = emit(e, EmitFormat::megatron).text;
    CHECK_THAT(text, Contains("--hidden-dropout 0.1") && Contains("--attention-dropout 0\n"));
    const Translation back = translate(folder.write("flags.sh", text), {});
    CHECK((back.find("workload.score_dropout") &&
           back.find("workload.score_dropout")->value == "false"));
}

// 7 layers on 4 chunks: even ones begin at 0, 7/4, 14/4 and 21/4, so they hold 1, 2, 2 and 2
// layers, where torchtitan's own division has the remainder in front: 2, 2, 2, 1.
TEST_CASE("chunks that torchtitan does not make by itself are listed by their modules") {
    const TestFolder folder;
    const Experiment e = read_unchecked_experiment(
        "llama3-8b", std::vector<Override>{{"cluster.preset", "dgx-h100"},
                                           {"framework.preset", "torchtitan"},
                                           {"workload.layers", "7"},
                                           {"parallelism.pp", "2"},
                                           {"parallelism.vp", "2"},
                                           {"parallelism.dp", "4"},
                                           {"parallelism.zero", "3"},
                                           {"parallelism.global_batch", "16"}});
    const Emission file = emit(e, EmitFormat::torchtitan),
                   flags = emit(e, EmitFormat::torchtitan_flags);
    CHECK_THAT(file.text,
               Contains("module_fqns_per_model_part = [[\"tok_embeddings\", \"layers.0\"], "
                        "[\"layers.1\", \"layers.2\"], [\"layers.3\", \"layers.4\"], "
                        "[\"layers.5\", \"layers.6\", \"norm\", \"output\"]]"));
    CHECK_THAT(flags.text,
               Contains("--parallelism.module_fqns_per_model_part tok_embeddings,layers.0 "
                        "layers.1,layers.2 layers.3,layers.4 layers.5,layers.6,norm,lm_head\n") &&
                   Contains("--compile.components model,loss\n"));
    for (const auto& [emission, name] : {std::pair{file, "titan.toml"}, {flags, "titan.sh"}}) {
        const Translation back = translate(folder.write(name, emission.text), {});
        REQUIRE(back.find("parallelism.stage_layers"));
        CHECK(back.find("parallelism.stage_layers")->value == "[1, 2, 2, 2]");
        REQUIRE(back.find("parallelism.vp"));
        CHECK(back.find("parallelism.vp")->value == "2");
        CHECK(std::ranges::find(emission.lost, "parallelism.stage_layers") == emission.lost.end());
    }
}

// From 0.3 on: flags beside a function of Python, the policy of recompute as a subcommand. 8 x 2
// ranks = dp 4 x tp 2 x pp 2; a local batch of 8 in micro-batches of 2 on four replicas.
// Transformer Engine and Megatron-Core call it all_gather (transformer_config.py of 0.16.1);
// torchtitan 0.2.2 rotates by all-to-alls or gathers, and 0.3 always gathers.
TEST_CASE("how context-parallel ranks exchange keys is written in each tool's word for it") {
    const auto text = [](const char* framework, const char* exchange, EmitFormat format) {
        const std::vector<Override> keys{{"cluster.preset", "dgx-h100"},
                                         {"cluster.nodes", "1"},
                                         {"framework.preset", framework},
                                         {"parallelism.cp", "2"},
                                         {"parallelism.dp", "4"},
                                         {"parallelism.zero", framework[0] == 't' ? "2" : "1"},
                                         {"parallelism.global_batch", "32"},
                                         {"runtime.context_exchange", exchange}};
        return emit(read_unchecked_experiment("llama3-8b", keys), format).text;
    };
    CHECK_THAT(text("megatron-core", "all-gather", EmitFormat::megatron),
               Contains("--cp-comm-type all_gather"));
    CHECK_THAT(text("megatron-core", "ring", EmitFormat::megatron), Contains("--cp-comm-type p2p"));
    CHECK_THAT(text("torchtitan", "ring", EmitFormat::torchtitan),
               Contains("context_parallel_rotate_method = \"alltoall\""));
    CHECK_THAT(text("torchtitan", "all-gather", EmitFormat::torchtitan),
               !Contains("rotate_method"));
    CHECK_THROWS_WITH(text("torchtitan", "ring", EmitFormat::torchtitan_flags),
                      Contains("0.3 has no context_parallel_rotate_method; expected all-gather"));
}

TEST_CASE("torchtitan's flags of 0.3 are read without a TOML file") {
    const TestFolder folder;
    const auto path = folder.write(
        "run.sh",
        "#!/bin/bash\ntorchrun --nnodes 2 --nproc_per_node 8 -m torchtitan.train --module llama3 "
        "--config llama3_70b --training.local_batch_size 8 --training.seq_len=4096 "
        "--parallelism.tensor_parallel_degree 2 --parallelism.pipeline_parallel_degree 2 "
        "--parallelism.pipeline-parallel-microbatch-size 2 --compile.enable "
        "--compile.enable_async_tensor_parallel --compile.components model,loss "
        "activation-checkpoint:full\n");
    CHECK(recognise_foreign(path) == ForeignFormat::megatron);
    const Translation t = translate(path, {});
    const auto value = [&](const char* key) {
        const Setting* const found = t.find(key);
        return found ? found->value : "none";
    };
    CHECK(value("workload.preset") == "llama3-70b");
    CHECK(value("parallelism.tp") == "2");
    CHECK(value("parallelism.pp") == "2");
    CHECK(value("parallelism.micro_batch") == "2");
    CHECK(value("parallelism.global_batch") == "32");
    CHECK(value("workload.seq") == "4096");
    CHECK(value("parallelism.recompute") == "full");
    CHECK(value("runtime.exchanges.tensor") == "always");
    CHECK(value("runtime.kernels") == "fused");
    CHECK(value("cluster.nodes") == "2");
    CHECK(std::ranges::any_of(t.open, [](const std::string& line) {
        return line.find("llama3_70b of llama3") != std::string::npos;
    }));
    const auto neither =
        folder.write("bad.sh", "#!/bin/bash\ntorchrun -m torchtitan.train --training.seq_len 64\n");
    CHECK_THROWS_WITH(translate(neither, {}), Catch::Contains("--module and --config"));
}

// Megatron-LM's default runs experts one by one; recipes of Bridge and NeMo have grouped ones on.
TEST_CASE("grouped products of experts are read and written") {
    const TestFolder folder;
    const std::string flags =
        "#!/bin/bash\ntorchrun --nnodes 1 --nproc_per_node 8 pretrain_gpt.py --num-layers 4 "
        "--hidden-size 64 --num-attention-heads 4 --seq-length 16 --micro-batch-size 1 "
        "--global-batch-size 8 --num-experts 8 --moe-router-topk 2 --bf16 ";
    const Translation one_by_one = translate(folder.write("each.sh", flags + "\n"), {});
    const Setting* const each = one_by_one.find("runtime.experts.products");
    REQUIRE(each);
    CHECK(each->value == "each");
    CHECK_FALSE(translate(folder.write("grouped.sh", flags + "--moe-grouped-gemm\n"), {})
                    .find("runtime.experts.products"));
    const Experiment e = every_key::experiment_with({{"parallelism.dp", "16"},
                                                     {"workload.moe.experts", "8"},
                                                     {"workload.moe.top_k", "2"},
                                                     {"parallelism.ep", "4"}});
    CHECK(emit(e, EmitFormat::megatron).text.find("--moe-grouped-gemm\n") != std::string::npos);
}

// Sizes of Llama 3 70B: both forms name it.
TEST_CASE("torchtitan's scripts name the model where it has one of these sizes") {
    const Experiment e = read_experiment(
        "llama3-70b", std::vector<Override>{{"cluster.preset", "dgx-h100"},
                                            {"cluster.gpus", "64"},
                                            {"framework.preset", "torchtitan"},
                                            {"parallelism.tp", "8"},
                                            {"parallelism.sequence_parallel", "true"},
                                            {"parallelism.zero", "3"}});
    CHECK(emit(e, EmitFormat::torchtitan).text.find("name = \"llama3\"\nflavor = \"70B\"") !=
          std::string::npos);
    CHECK(emit(e, EmitFormat::torchtitan_flags).text.find("--module llama3 --config llama3_70b") !=
          std::string::npos);
}
