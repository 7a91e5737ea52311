// What the files of other tools state that the forecast has not, has under another name, or has
// from two places that disagree.

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "import/launch/translate.h"
#include "import/launch/translation.h"
#include "measured/read.h"
#include "tests/import/launch/told.h"
#include "tests/model/files.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

// "torchrun .. pretrain_gpt.py" of a small model on 8 GPUs, its batch of 16 in pieces of one.
Translation megatron(const std::string& flags, const std::string& program = "pretrain_gpt.py") {
    const TestFolder folder;
    return translate(
        folder.write("run.sh",
                     "torchrun --nproc_per_node 8 examples/" + program +
                         " --num-layers 7 --hidden-size 64 --num-attention-heads 4 --seq-length 16 "
                         "--max-position-embeddings 16 "
                         "--micro-batch-size 1 --global-batch-size 16 --vocab-size 1000 --bf16 " +
                         flags + "\n"),
        {});
}

Translation deepspeed(const std::string& fields, long replicas = 0) {
    const TestFolder folder;
    TranslateOptions how;
    how.format = ForeignFormat::deepspeed;
    how.replicas = replicas;
    return translate(
        folder.write("ds.json", "{\"zero_optimization\": {\"stage\": 3}, " + fields + "}"), how);
}

Translation torchtitan(const std::string& model, const std::string& rest = "") {
    const TestFolder folder;
    return translate(
        folder.write("t.toml", "[model]\nname = \"llama3\"\nflavor = \"8B\"\n" + model +
                                   "\n[parallelism]\ntensor_parallel_degree = 1\n" + rest + "\n"),
        {});
}

}  // namespace

// 128 sequences on 16 replicas: 8 at once, or 2 in each of 4 pieces.
TEST_CASE(
    "two of DeepSpeed's three batch numbers give the third, and three may contradict each other") {
    const std::string all = "\"train_batch_size\": 128",
                      pieces = ", \"gradient_accumulation_steps\": ",
                      micro = ", \"train_micro_batch_size_per_gpu\": ";
    CHECK(value(deepspeed(all, 16), "parallelism.micro_batch") == "8");
    CHECK(value(deepspeed(all + pieces + "4", 16), "parallelism.micro_batch") == "2");
    CHECK_THAT(lines(deepspeed(all + pieces + "3", 16).problems),
               Contains("128 is no multiple of accumulation 3 x 16 replicas"));
    CHECK(deepspeed(all + micro + "2" + pieces + "4", 16).problems.empty());
    CHECK_THAT(lines(deepspeed(all + micro + "2" + pieces + "1", 16).problems),
               Contains("128 is not 2 sequences x accumulation 1 x 16 replicas"));
    CHECK_THAT(lines(deepspeed(all + micro + "3" + pieces + "4").problems),
               Contains("128 is not 3 sequences x accumulation 4 x replicas"));
    for (const auto& open : {deepspeed(all), deepspeed(all + pieces + "\"auto\"", 16)}) {
        CHECK(value(open, "parallelism.micro_batch").empty());
        CHECK_THAT(lines(open.open), Contains("train_micro_batch_size_per_gpu = 128 / (") &&
                                         Contains("--set micro_batch=N"));
    }
    const std::string billion = "1000000000",
                      largest = "\"train_micro_batch_size_per_gpu\": " + billion;
    for (const std::string& rest : {pieces + billion, ", " + all + pieces + billion})
        CHECK_THROWS_WITH(deepspeed(largest + rest, 16),
                          Contains("train_micro_batch_size_per_gpu: found \"1000000000\"; expected "
                                   "a step of at most 10^9 sequences"));
}

TEST_CASE("the program that a script launches says which model its flags are of") {
    CHECK(value(megatron("", "pretrain_bert.py"), "workload.causal") == "false");
    CHECK(value(megatron(""), "workload.causal").empty());
    for (const char* program :
         {"pretrain_t5.py", "pretrain_mamba.py", "pretrain_vlm.py", "pretrain_retro.py"})
        CHECK_THAT(
            complaint([&] { megatron("", program); }),
            Contains(std::string("found ") + program) && Contains("expected pretrain_gpt.py"));
}

TEST_CASE("flags that change a step and have no key are among the problems, whatever the tool") {
    for (const char* flag : {"--hybrid-attention-ratio 0.1", "--is-hybrid-model",
                             "--spec megatron.core.models.mamba.mamba_layer_specs mamba_stack_spec",
                             "--encoder-num-layers 2", "--decoder-num-layers 2",
                             "--experimental-attention-variant gdn2", "--linear-attention-type x",
                             "--heterogeneous-layers-config-path x.json", "--moe-latent-size 16",
                             "--optimizer-cpu-offload --optimizer-offload-fraction 0.5",
                             "--use-precision-aware-optimizer", "--cpu-offloading-num-layers 2",
                             "--fine-grained-activation-offloading", "--exp-avg-dtype bf16"}) {
        INFO(flag);
        CHECK(megatron(flag).problems.size() == 1);
    }
    for (const char* flag :
         {"--hybrid-attention-ratio 0.0", "--encoder-num-layers 7", "--cpu-offloading-num-layers 0",
          "--exp-avg-dtype fp32", "--spec local"}) {
        INFO(flag);
        CHECK(megatron(flag).problems.empty());
    }
    const TestFolder folder;
    const auto document =
        translate(folder.write("doc.sh",
                               "cat <<EOT > ds.json\n{\"zero_optimization\": {\"stage\": 1, "
                               "\"offload_optimizer\": {\"device\": \"cpu\"}}}\nEOT\n"
                               "deepspeed pretrain_gpt.py --deepspeed --deepspeed_config ds.json "
                               "--num-layers 4 --hidden-size 64 "
                               "--num-attention-heads 4 --seq-length 16 --micro-batch-size 1\n"),
                  {});
    CHECK(value(document, "run.offload_optimizer") == "true");
    CHECK_THAT(lines(document.problems), !Contains("offload"));
    const auto old = translate(
        folder.write(
            "ds.json",
            R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2, "cpu_offload": true,
                                                           "zero_quantized_weights": true, "zero_quantized_gradients": false}})"),
        {});
    REQUIRE(old.problems.size() == 1);
    CHECK(value(old, "run.offload_optimizer") == "true");
    CHECK_THAT(lines(old.problems), Contains("zero_optimization.zero_quantized_weights ("));
}

TEST_CASE("flags of old and new name the same") {
    CHECK(value(megatron("--fp8-hybrid"), "workload.dtype") == "fp8");
    CHECK(value(megatron("--fp8-e4m3"), "workload.dtype") == "fp8");
    CHECK(value(megatron("--attention-backend unfused"), "runtime.attention") == "plain");
    CHECK(value(megatron("--use-custom-fsdp --data-parallel-sharding-strategy optim_grads"),
                "parallelism.zero") == "2");
    CHECK(value(megatron("--recompute-granularity selective"), "parallelism.recompute") ==
          "selective");
    const auto modules =
        megatron("--recompute-granularity selective --recompute-modules moe_act layernorm");
    CHECK(value(modules, "parallelism.recompute") == "selective");
    CHECK(value(modules, "parallelism.recompute_modules") == R"(["moe_act", "layernorm"])");
    CHECK(modules.problems.empty());
    const auto moe = megatron("--moe-layer-recompute");
    CHECK(value(moe, "parallelism.recompute") == "selective");
    CHECK(value(moe, "parallelism.recompute_modules") == R"(["core_attn", "moe"])");
    CHECK(value(megatron("--moe-layer-recompute --recompute-granularity selective "
                         "--recompute-modules layernorm"),
                "parallelism.recompute_modules") == R"(["layernorm", "moe"])");
    CHECK(value(megatron("--recompute-granularity selective --recompute-modules core_attn"),
                "parallelism.recompute_modules")
              .empty());
    CHECK_THAT(
        lines(megatron("--recompute-granularity selective --recompute-modules attn").problems),
        Contains("attn: no modules that can run again"));
    const auto heads = megatron("--context-parallel-size 2 --cp-comm-type a2a");
    CHECK(value(heads, "runtime.context_exchange") == "ring");
    CHECK_THAT(lines(heads.problems), Contains("(a2a) are not modelled"));
    CHECK(value(megatron("--context-parallel-size 2 --cp-comm-type all_gather"),
                "runtime.context_exchange") == "all-gather");
}

// arguments.py: num_query_groups is 1 unless stated, and counts with group_query_attention alone.
TEST_CASE("grouped attention without a number of groups is of one group") {
    CHECK(value(megatron("--group-query-attention"), "workload.kv_heads") == "1");
    CHECK(value(megatron("--group-query-attention --num-query-groups 2"), "workload.kv_heads") ==
          "2");
    CHECK(value(megatron(""), "workload.kv_heads").empty());
    CHECK(value(megatron("--num-query-groups 2"), "workload.kv_heads").empty());
}

// Megatron counts by chunk, of 2 layers here; more than it has are all.
TEST_CASE("layers that are computed again: of each chunk, of one stage together") {
    const std::string full =
        "--num-layers 16 --pipeline-model-parallel-size 4 --recompute-granularity full "
        "--recompute-method ";
    const auto block = [&](const std::string& layers,
                           const std::string& flags = "--num-virtual-stages-per-pipeline-rank 2") {
        return value(megatron(full + "block --recompute-num-layers " + layers + " " + flags),
                     "parallelism.recompute_layers");
    };
    CHECK(block("1", "") == "1");
    CHECK(block("1") == "2");
    CHECK(block("2") == "4");
    CHECK(block("999999999") == "16");
    CHECK_THAT(complaint([&] { block("0"); }), Contains("from 1 to 10^9"));
    CHECK(megatron(full + "uniform --recompute-num-layers 1").problems.empty());
    const auto together = megatron(full + "uniform --recompute-num-layers 4");
    CHECK(value(together, "parallelism.recompute_layers").empty());
    CHECK_THAT(lines(together.problems), Contains("recompute_num_layers (") &&
                                             Contains("4 layers are computed again together") &&
                                             Contains("the activations of 3 layers"));
}

TEST_CASE("tokens that experts gather from all ranks are named") {
    const auto problems = [](const std::string& way) {
        return lines(megatron("--num-experts 4 --moe-token-dispatcher-type " + way).problems);
    };
    CHECK_THAT(problems("allgather"), Contains("the forecast exchanges tokens by all-to-all"));
    CHECK_THAT(problems("alltoall"), !Contains("all-to-all"));
}

TEST_CASE("patterns of layers with experts are lists of Python") {
    const auto dense = [](const std::string& pattern) {
        return value(megatron("--num-experts 4 --moe-layer-freq \"" + pattern + "\""),
                     "workload.moe.dense_layers");
    };
    for (const char* all : {"([1]*7)", "[1]*7", "[1, 1, 1, 1, 1, 1, 1]", "([1]*3+[1]*4)"})
        CHECK(dense(all) == "0");
    for (const char* some : {"([0]*3+[1]*4)", "[0]*3+[1]*4", "[0,0,0]+[1]*4", "[0]*3 + [1, 1]*2"})
        CHECK(dense(some) == "3");
    CHECK_THAT(complaint([&] { dense("([0]*3+[1]*10)"); }),
               Contains("moe_layer_freq: found \"([0]*3+[1]*10)\"; expected a pattern of "
                        "num_layers = 7 layers; this one is of 13"));
    for (const char* other : {"([1]*3+[0]*4)", "[0]*7", "[0, 2, 1]", "[x]*7"})
        CHECK_THAT(complaint([&] { dense(other); }), Contains("the patterns that are modelled"));
    CHECK_THAT(complaint([&] { dense("7*[1]"); }), Contains("a number behind each *"));
}

TEST_CASE("an optimizer that is not modelled is told, and which one is taken") {
    const auto lion = megatron("--optimizer lion");
    CHECK(value(lion, "workload.optimizer") == "adam");
    CHECK_THAT(lines(lion.problems), Contains("lion is not modelled; taken as adam"));
    for (const char* name : {"Adagrad", "OneBitAdam"})
        CHECK_THAT(
            lines(deepspeed(std::string("\"optimizer\": {\"type\": \"") + name + "\"}").problems),
            Contains("taken as adam"));
    CHECK_THAT(lines(deepspeed("\"optimizer\": {\"type\": \"OneBitLamb\"}").problems),
               Contains("taken as lamb"));
    CHECK_THAT(lines(torchtitan("[optimizer]\nname = \"Shampoo\"").problems),
               Contains("taken as adam"));
    for (const char* name : {"AdamW", "FusedAdam", "SGD", "Lamb", "Muon"})
        CHECK(
            deepspeed(std::string("\"optimizer\": {\"type\": \"") + name + "\"}").problems.empty());
}

// megatron-core 0.16.1: muon updates all on every rank, dist_muon deals the matrices out as states
// of ZeRO 1 are.
TEST_CASE("Muon is read with how its states are spread") {
    CHECK(value(megatron("--optimizer muon"), "workload.optimizer") == "muon");
    CHECK(value(megatron("--optimizer muon"), "parallelism.zero") == "0");
    CHECK(value(megatron("--optimizer dist_muon"), "workload.optimizer") == "muon");
    CHECK(value(megatron("--optimizer dist_muon"), "parallelism.zero") == "1");
    CHECK(value(deepspeed("\"optimizer\": {\"type\": \"Muon\"}"), "workload.optimizer") == "muon");
}

// Weights go to the host only with the optimizer that updates them and under zero 3 without a
// pipeline: else the forecast keeps them on the device and says so. Megatron-Core's switch asks for
// the precision-aware optimizer, which then changes nothing else.
TEST_CASE("an optimizer on the host is read from each tool") {
    const auto core = megatron("--optimizer-cpu-offload --use-precision-aware-optimizer");
    CHECK(value(core, "run.offload_optimizer") == "true");
    CHECK(core.problems.empty());
    CHECK(megatron("--optimizer-cpu-offload false").problems.empty());
    const auto nvme = deepspeed(
        "\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": \"nvme\"}, "
        "\"offload_param\": {\"device\": \"cpu\"}}");
    CHECK(value(nvme, "run.offload_optimizer") == "true");
    CHECK_THAT(lines(nvme.problems), Contains("offload_optimizer.device (") &&
                                         Contains("taken as the host's memory") &&
                                         !Contains("offload_param.device ("));
    CHECK(value(nvme, "run.offload_parameters") == "true");
    for (const char* which : {"\"stage\": 3",
                              "\"stage\": 2, \"offload_optimizer\": {\"device\": "
                              "\"cpu\"}"}) {
        const auto alone =
            deepspeed(fmt::format("\"zero_optimization\": {{{}, \"offload_param\": {{\"device\": "
                                  "\"cpu\"}}}}",
                                  which));
        CHECK_FALSE(alone.find("run.offload_parameters"));
        CHECK_THAT(lines(alone.problems), Contains("offload_param.device ("));
    }
    const auto titan = torchtitan("[training]\nenable_cpu_offload = true");
    CHECK(value(titan, "run.offload_optimizer") == "true");
    CHECK(value(titan, "run.offload_parameters") == "true");
    CHECK_THAT(lines(titan.problems), !Contains("enable_cpu_offload"));
    CHECK_THAT(
        lines(torchtitan("[training]\nenable_cpu_offload = true", "pipeline_parallel_degree = 2")
                  .problems),
        Contains("training.enable_cpu_offload (") && Contains("one pipeline stage"));
}

TEST_CASE("torchtitan's converters under both their names") {
    const auto rows = torchtitan("converters = [\"quantize.linear.float8\"]",
                                 "[quantize.linear.float8]\nrecipe_name = \"rowwise\"");
    CHECK(value(rows, "workload.dtype") == "fp8");
    CHECK(value(rows, "runtime.row_scales") == "true");
    for (const char* name : {"mx", "quantize.linear.mx"})
        CHECK(value(torchtitan(std::string("converters = [\"") + name + "\"]"), "workload.dtype") ==
              "fp8");
    CHECK(value(torchtitan("converters = [\"mx\"]", "[mx]\nrecipe_name = \"mxfp4_cutlass\""),
                "workload.dtype") == "fp4");
    CHECK_THAT(lines(torchtitan("converters = [\"nf4\"]").problems),
               Contains("nf4 is not modelled"));
    const auto inert = torchtitan("", "[quantize.linear.float8]\nrecipe_name = \"rowwise\"");
    CHECK(value(inert, "workload.dtype") == "bf16");
    CHECK_THAT(lines(inert.ignored), Contains("no converter in model.converters reads it"));
}

// DeepSeek-V3's layout has its prediction layer in a chunk of its own: the forecast has it with the
// loss.
TEST_CASE("a layout with a chunk for multi-token prediction alone can be forecast") {
    const auto t = megatron(
        "--pipeline-model-parallel-size 4 --mtp-num-layers 1 --untie-embeddings-and-output-weights "
        "--pipeline-model-parallel-layout \"Ett|ttt|m|ttL\"");
    CHECK(value(t, "parallelism.stage_layers") == "[2, 2, 1, 2]");
    CHECK_THAT(lines(t.problems), Contains("(m) in chunk 3 of 4 is forecast in the last, with the "
                                           "loss; a layer of chunk 2 is in its place"));
    CHECK_NOTHROW(read_experiment({"run.sh", experiment_text(t)},
                                  std::vector<Override>{{"cluster.preset", "dgx-h100"}}));
    const auto with_loss = megatron(
        "--pipeline-model-parallel-size 4 --mtp-num-layers 1 --pipeline-model-parallel-layout "
        "\"Ett|tt|tt|tmL\"");
    CHECK(value(with_loss, "parallelism.stage_layers") == "[2, 2, 2, 1]");
    CHECK(with_loss.problems.empty());
}

// deepspeed 0.19.8: precision_config.py takes the section's old name where there is no new one;
// stated off, or beside the new name, it says nothing.
TEST_CASE("DeepSpeed's section bfloat16 is bf16, and what changes precision beside it is named") {
    const std::string micro = R"("train_micro_batch_size_per_gpu": 1, )";
    const auto dtype = [&](const std::string& fields) {
        return value(deepspeed(micro + fields), "workload.dtype");
    };
    CHECK(dtype(R"("bfloat16": {"enabled": true})") == "bf16");
    CHECK(dtype(R"("bfloat16": {"enabled": false})") == "fp32");
    CHECK(dtype(R"("bfloat16": {"enabled": true}, "bf16": {"enabled": false})") == "fp32");
    const std::string bf16 = micro + R"("bf16": {"enabled": true}, )";
    CHECK(deepspeed(bf16 + R"("steps_per_print": 10)").problems.empty());
    for (const char* section :
         {R"("amp": {"enabled": true})", R"("torch_autocast": {"enabled": true})",
          R"("progressive_layer_drop": {"enabled": true})",
          R"("sparse_attention": {"mode": "fixed"})", R"("elasticity": {"enabled": true})",
          R"("curriculum_learning": {"enabled": true})",
          R"("compression_training": {"layer_reduction": {"enabled": true}})",
          R"("data_efficiency": {"data_routing": {"random_ltd": {"enabled": true}}})",
          R"("fp16": {"fp16_master_weights_and_grads": true})"}) {
        CAPTURE(section);
        CHECK(deepspeed(bf16 + section).problems.size() == 1);
        std::string off = section;
        if (const auto at = off.find("true"); at != std::string::npos) {
            off.replace(at, 4, "false");
            CHECK(deepspeed(bf16 + off).problems.empty());
        }
    }
    CHECK_THAT(
        lines(deepspeed(micro + R"("bf16": {"enabled": true, "bf16_optimizer_states": true})")
                  .problems),
        Contains("bf16.bf16_optimizer_states") && Contains("fp32 masters and moments"));
    const TestFolder folder;
    const auto zenflow = translate(
        folder.write("ds.json", R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization":
                                    {"stage": 2, "zenflow": {"topk_ratio": 0.1}}})"),
        {});
    CHECK_THAT(lines(zenflow.problems), Contains("zenflow.topk_ratio"));
}

// Each line states what a dense, fully trained model of equal layers on GPUs has not.
TEST_CASE("experts, adapters, other layers and other devices of YAML files are named") {
    const TestFolder folder;
    const auto told = [&](const std::string& text) {
        return translate(folder.write("r.yaml", text), {});
    };
    const std::string nanotron =
        "parallelism:\n  dp: 2\n  tp: 1\n  pp: 1\ntokens:\n  sequence_length: 64\n  "
        "micro_batch_size: 1\n  batch_accumulation_per_replica: 1\nmodel:\n  model_config:\n"
        "    num_hidden_layers: 2\n    hidden_size: 64\n    intermediate_size: 128\n"
        "    num_attention_heads: 4\n    vocab_size: 100\n    rms_norm_eps: 1.0e-05\n";
    CHECK(told(nanotron).problems.empty());
    for (const char* more : {"    moe_config:\n      num_experts: 8\n", "    moe_num_experts: 8\n",
                             "    is_starcoder2_config: true\n", "    sliding_window_size: 32\n"}) {
        CAPTURE(more);
        CHECK_THAT(lines(told(nanotron + more).problems), Contains("the forecast is without"));
    }
    CHECK(value(told(nanotron + "optimizer:\n  optimizer_factory:\n    name: sgd\n"),
                "workload.optimizer") == "sgd");
    const std::string foundry =
        "max_seq_len: 64\nglobal_train_batch_size: 8\ndevice_train_microbatch_size: 1\nmodel:\n"
        "  name: hf_causal_lm\n  pretrained_model_name_or_path: meta-llama/Llama-2-7b-hf\n";
    CHECK(value(told(foundry), "workload.adapter_rank").empty());
    check_values(told(foundry + "  peft_config:\n    peft_type: LORA\n    r: 4\n    "
                                "target_modules: [q_proj, k_proj, v_proj, o_proj]\n"),
                 {{"workload.adapter_rank", "4"}, {"workload.adapter_on", "attention"}});
    check_values(told(foundry + "  peft_config:\n    peft_type: LORA\n    target_modules: "
                                "all-linear\n"),
                 {{"workload.adapter_rank", "8"}, {"workload.adapter_on", "linear"}});
    CHECK_THAT(lines(told(foundry + "  block_overrides:\n    overrides:\n      x:\n        "
                                    "attn_config: 1\n")
                         .problems),
               Contains("blocks of several kinds"));
    const std::string accelerate =
        "compute_environment: LOCAL_MACHINE\nnum_processes: 8\ndistributed_type: ";
    CHECK(told(accelerate + "MULTI_GPU\n").problems.empty());
    for (const char* other : {"MULTI_CPU\n", "XLA\n", "MULTI_GPU\nuse_cpu: true\n"})
        CHECK_THAT(lines(told(accelerate + other).problems), Contains("the forecast is of GPUs"));
    // utils/dataclasses.py: MegatronLMPlugin.recompute_activations
    CHECK(value(told(accelerate + "MEGATRON_LM\nmegatron_lm_config:\n  "
                                  "megatron_lm_recompute_activations: true\n"),
                "parallelism.recompute") == "selective");
}

// config/job_config.py of 0.2.2: fused unless told.
TEST_CASE("torchtitan's optimizer kernels, masks of documents and replica groups are not lost") {
    const auto kernels = [](const std::string& name) {
        return torchtitan("", "[optimizer]\nimplementation = \"" + name + "\"");
    };
    CHECK(value(kernels("fused"), "runtime.optimizer.fused").empty());
    CHECK(value(kernels("foreach"), "runtime.optimizer.fused") == "false");
    CHECK(kernels("foreach").problems.empty());
    CHECK_THAT(lines(kernels("for-loop").problems),
               Contains("for-loop; the forecast updates lists"));
    CHECK_THAT(
        lines(torchtitan("use_flex_attn = true\nattn_mask_type = \"block_causal\"").problems),
        Contains("use_flex_attn") && Contains("attn_mask_type"));
    CHECK(torchtitan("use_flex_attn = false\nattn_mask_type = \"causal\"").problems.empty());
    CHECK_THAT(lines(torchtitan("", "[fault_tolerance]\nenable = true").problems),
               Contains("fault_tolerance.enable"));
}

TEST_CASE("optimizers of litgpt, and windows and preferences of GPT-NeoX, are read or named") {
    const TestFolder folder;
    const auto told = [&](const std::string& text) {
        return translate(folder.write("r.yaml", text), {});
    };
    const std::string litgpt =
        "model_name: pythia-1b\nprecision: bf16-mixed\ndevices: 8\ntrain:\n  micro_batch_size: 4\n"
        "  global_batch_size: 32\n";
    const auto optimizer = [&](const std::string& more) {
        return value(told(litgpt + more), "workload.optimizer");
    };
    CHECK(optimizer("optimizer: AdamW\n") == "adam");
    CHECK(optimizer("optimizer:\n  class_path: torch.optim.SGD\n") == "sgd");
    CHECK(optimizer("optimizer: bitsandbytes.optim.AdamW8bit\n") == "adam8bit");
    CHECK(optimizer("optimizer:\n  class_path: bitsandbytes.optim.PagedAdamW\n") == "adam");
    // of these names the last word alone is Adam's
    for (const std::string other : {"x.Lion", "torchao.optim.AdamW4bit", "galore_torch.GaLoreAdamW",
                                    "galore_torch.GaLoreAdamW8bit"})
        CHECK_THAT(lines(told(litgpt + "optimizer:\n  class_path: " + other + "\n").problems),
                   Contains(other));
    for (const std::string size :
         {"n_query_groups", "head_size", "n_expert", "sliding_window_size"})
        CHECK_THAT(lines(told(litgpt + "model_config:\n  " + size + ": 2\n").problems),
                   Contains(size));
    const std::string neox =
        "num_layers: 2\nhidden_size: 64\nnum_attention_heads: 4\nseq_length: 32\n"
        "pipe_parallel_size: 1\nmodel_parallel_size: 1\ntrain_micro_batch_size_per_gpu: 1\n";
    CHECK(told(neox + "train_impl: normal\n").problems.empty());
    for (const char* more : {"train_impl: dpo\n", "train_impl: kto\n", "sliding_window_width: 8\n"})
        CHECK_THAT(lines(told(neox + more).problems), Contains("the forecast is without"));
}

// Vocabularies of nanotron are padded to a multiple of 128 times tp, each rank's to one of 128.
TEST_CASE("nanotron's padding, biases and update are read; other keys of a layer are named") {
    const TestFolder folder;
    const auto told = [&](const std::string& model, const std::string& rest) {
        return translate(
            folder.write(
                "n.yaml",
                "model:\n  make_vocab_size_divisible_by: 128\n  model_config:\n    "
                "hidden_size: 64\n    intermediate_size: 128\n    num_attention_heads: 4\n"
                "    num_hidden_layers: 2\n    vocab_size: 1000\n" +
                    model +
                    "optimizer:\n  optimizer_factory:\n    name: adamW\n    "
                    "torch_adam_is_fused: false\nparallelism:\n  dp: 2\n  pp: 1\n  tp: 2\n" +
                    rest +
                    "tokens:\n  sequence_length: 32\n  micro_batch_size: 1\n  "
                    "batch_accumulation_per_replica: 1\n"),
            {});
    };
    const auto read = told("    attention_bias: true\n", "  tp_recompute_allgather: true\n");
    check_values(read, {{"runtime.vocab_multiple", "128"},
                        {"workload.qkv_bias", "true"},
                        {"runtime.optimizer.fused", "false"}});
    CHECK(read.problems.empty());
    CHECK_THAT(lines(told("    sliding_window: 8\n", "").problems), Contains("sliding_window"));
    CHECK_THAT(lines(told("", "  tp_recompute_allgather: false\n").problems),
               Contains("stay until the backward"));
}

TEST_CASE("llm-foundry's dropout is named, its norms of queries are read") {
    const TestFolder folder;
    const auto told = [&](const std::string& more) {
        return translate(
            folder.write(
                "m.yaml",
                "max_seq_len: 32\nmodel:\n  name: mpt_causal_lm\n  d_model: 64\n  n_heads: "
                "4\n  n_layers: 2\n  vocab_size: 1000\n  expansion_ratio: 4\n" +
                    more +
                    "global_train_batch_size: 8\ndevice_train_microbatch_size: 1\n"
                    "precision: amp_bf16\noptimizer:\n  name: adamw\n"),
            {});
    };
    CHECK(told("  resid_pdrop: 0\n  attn_config:\n    attn_pdrop: 0.0\n").problems.empty());
    CHECK_THAT(lines(told("  resid_pdrop: 0.1\n").problems), Contains("without dropout"));
    CHECK_THAT(lines(told("  attn_config:\n    attn_pdrop: 0.1\n").problems),
               Contains("without dropout"));
    CHECK(value(told("  attn_config:\n    qk_gn: true\n"), "workload.qk_norm") == "true");
}

// srun's options count above the directives: 2 nodes of 4 tasks, not 4 of 8 (srun(1): -N, -n,
// --ntasks-per-node); without any the directives do.
TEST_CASE("short options of srun on the launch line are the machine") {
    const TestFolder folder;
    const auto told = [&](const std::string& srun) {
        return translate(
            folder.write("run.sh",
                         "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=8\n" + srun +
                             " python pretrain_gpt.py --num-layers 2 --hidden-size 64 "
                             "--num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 "
                             "--micro-batch-size 1 --global-batch-size 64 --vocab-size 100\n"),
            {});
    };
    const auto check = [&](const std::string& srun, const char* nodes, const char* each) {
        CAPTURE(srun);
        check_values(told(srun), {{"cluster.nodes", nodes}, {"cluster.gpus_per_node", each}});
    };
    check("srun", "4", "8");
    check("srun -N 2 --ntasks-per-node=4", "2", "4");
    check("srun -N2 -n 8", "2", "4");
    check("srun -N 2 -u", "2", "8");
}
