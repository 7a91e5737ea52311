// YAML, JSON and TOML of other tools: whose they are, what is read of them, and what is said of the
// rest.

#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "import/launch/tool_files.h"
#include "import/launch/trainer.h"
#include "import/launch/translate.h"
#include "import/launch/translation.h"
#include "import/launch/unknown.h"
#include "model/base/errors.h"
#include "tests/import/launch/told.h"
#include "tests/model/files.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

std::string refusal(const std::string& path, const TranslateOptions& options = {}) {
    try {
        translate(path, options);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "";
}

// 12 layers of 640, 10 heads; tp 2, pp 3, micro-batch 5, accumulation 2.
const std::string neox_json = R"({
  # as GPT-NeoX writes it
  "pipe-parallel-size": 3, "model-parallel-size": 2,
  "num-layers": 12, "hidden-size": 640, "num-attention-heads": 10, "seq-length": 512,
  "pos-emb": "rotary", "no-weight-tying": true, "norm": "rmsnorm", "attention-config": [[["flash"], 12]],
  "zero_optimization": {"stage": 1, "reduce_bucket_size": 1000},
  "train_micro_batch_size_per_gpu": 5, "gradient_accumulation_steps": 2,
  "checkpoint-activations": true, "fp16": {"enabled": true}, "hidden-dropout": 0.2, "attention-dropout": 0.2,
}
)";

}  // namespace

// On 24 GPUs there are 24 / (2 x 3) = 4 replicas: 5 x 2 x 4 = 40 sequences a step. Inner width 4 x
// 640; the default tokenizer is GPT-2's.
TEST_CASE("GPT-NeoX is read: hyphens in braces, underscores in lines, several files joined") {
    const TestFolder folder;
    TranslateOptions how;
    how.replicas = 4;
    const auto check = [&](const std::string& path) {
        CHECK(recognise_foreign(path) == ForeignFormat::gpt_neox);
        const Translation t = translate(path, how);
        check_values(t, {{"workload.layers", "12"},
                         {"workload.hidden", "640"},
                         {"workload.heads", "10"},
                         {"workload.ffn", "2560"},
                         {"workload.seq", "512"},
                         {"workload.positions", "rotary"},
                         {"workload.tied", "false"},
                         {"workload.norm", "rmsnorm"},
                         {"runtime.attention", "flash"},
                         {"workload.dropout", "0.2"},
                         {"workload.vocab", "50257"},
                         {"workload.dtype", "fp16"},
                         {"workload.gated", "false"},
                         {"parallelism.tp", "2"},
                         {"parallelism.pp", "3"},
                         {"parallelism.micro_batch", "5"},
                         {"parallelism.global_batch", "40"},
                         {"parallelism.zero", "1"},
                         {"runtime.gradients.bucket", "1000 weights"},
                         {"parallelism.recompute", "full"}});
        CHECK(t.problems.empty());
        CHECK(t.framework == "megatron-deepspeed");
    };
    check(folder.write("braces.yml", neox_json));
    std::string lines = neox_json;
    std::ranges::replace(lines, '-', '_');
    check(folder.write("underscores.yml", lines));
    // A second file for the machine's part, joined.
    const auto at = neox_json.find("  \"zero_optimization");
    check(folder.write("joined.yml", neox_json.substr(0, at) + "}\n{\n" + neox_json.substr(at)));
    check(folder.write("block.yml",
                       "pipe-parallel-size: 3\nmodel-parallel-size: 2\nnum-layers: "
                       "12\nhidden-size: 640\nnum-attention-heads: 10\nseq-length: 512\n"
                       "pos-emb: rotary\nno-weight-tying: true\nnorm: rmsnorm\nattention-config: "
                       "[[[\"flash\"], 12]]\nzero_optimization:\n  stage: 1\n"
                       "  reduce_bucket_size: 1000\ntrain_micro_batch_size_per_gpu: "
                       "5\ngradient_accumulation_steps: 2\ncheckpoint-activations: true\n"
                       "fp16:\n  enabled: true\nhidden-dropout: 0.2\nattention-dropout: 0.2\n"));
}

// Sizes in another file; experts in every second layer unless the file says otherwise; precision by
// name alone.
TEST_CASE("parts and newer keys of GPT-NeoX") {
    const TestFolder folder;
    const Translation part =
        translate(folder.write("p.yml",
                               "pipe_parallel_size: 0\nmodel_parallel_size: "
                               "4\ntrain_micro_batch_size_per_gpu: 4\nnum_unique_layers: 3\n"),
                  {});
    check_values(part, {{"parallelism.pp", "1"},
                        {"parallelism.tp", "4"},
                        {"parallelism.micro_batch", "4"},
                        {"workload.norm", ""},
                        {"workload.ffn", ""}});
    CHECK_THAT(lines(part.open), Contains("--model"));
    CHECK_THAT(lines(part.problems), Contains("num_unique_layers"));
    const Translation experts = translate(
        folder.write("e.yml",
                     "num_layers: 6\nhidden_size: 96\nnum_attention_heads: 6\nmodel_parallel_size: "
                     "1\nprecision: bfloat16\nmoe_num_experts: 8\n"
                     "moe_expert_parallel_size: 2\nactivation: swiglu\nintermediate_size: 300\n"),
        {});
    check_values(experts, {{"workload.moe.experts", "8"},
                           {"workload.moe.interval", "2"},
                           {"parallelism.ep", "2"},
                           {"workload.dtype", "bf16"},
                           {"workload.gated", "true"},
                           {"workload.ffn", "300"}});
}

TEST_CASE(
    "what a reader does not know though it states a size, a degree or a switch is a problem") {
    const TestFolder folder;
    const auto problems = [&](const std::string& name, const std::string& text) {
        return lines(translate(folder.write(name, text), {}).problems);
    };
    const std::string ds =
        R"({"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 1})";
    CHECK(problems("a.json", ds + "}").empty());
    CHECK_THAT(
        problems("b.json", ds + R"(, "tensor_parallel_size": 4})"),
        Contains("tensor_parallel_size") && Contains("4 is not read by the reader of DeepSpeed"));
    CHECK_THAT(problems("c.json", ds + R"(, "model": {"n_layers": 12, "recompute": true}})"),
               Contains("model.n_layers") && Contains("model.recompute"));
    CHECK(
        problems("d.json",
                 ds + R"(, "tensor_parallel_size": 1, "recompute": false, "steps_per_print": 100})")
            .empty());
    const std::string titan =
        "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[parallelism]\ntensor_parallel_degree = 2\n";
    CHECK(problems("e.toml", titan).empty());
    CHECK_THAT(problems("f.toml", titan + "domain_parallel_degree = 4\n"),
               Contains("domain_parallel_degree"));
    CHECK_THAT(problems("g.yaml",
                        "trainer:\n  devices: 8\nmodel:\n  micro_batch_size: 1\n  "
                        "tensor_model_parallel_size: 2\n  block_parallel_size: 4\n"),
               Contains("block_parallel_size"));
}

// 100 = 3 x accumulation x replicas has no whole solution; 96 has, with as many as 32. With 9
// layers and the two ends, chunks of 2 are ceil(11 / 2) = 6, which 4 stages cannot share.
TEST_CASE("batches and chunks with which the tool would stop are problems") {
    const TestFolder folder;
    const auto deepspeed = [&](int global) {
        return translate(
            folder.write("b.json", fmt::format(R"({{"train_micro_batch_size_per_gpu": 3,
                "train_batch_size": {}, "zero_optimization": {{"stage": 1}}}})",
                                               global)),
            {});
    };
    CHECK_THAT(lines(deepspeed(100).problems), Contains("100 is no multiple of 3 sequences"));
    CHECK(deepspeed(96).problems.empty());
    CHECK_THAT(lines(deepspeed(96).open), Contains("accumulation x replicas = 32"));
    const auto offload = [&](const std::string& ratio) {
        return translate(
            folder.write("o.json", R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization":
                {"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": )" +
                                       ratio + "}}}"),
            {});
    };
    CHECK_THAT(lines(offload("0.3").problems), Contains("all states on the host"));
    CHECK(offload("1.0").problems.empty());
    const auto titan = [&](int layers) {
        TranslateOptions how;
        how.model =
            folder.write("m.toml", fmt::format("kind = \"transformer\"\nlayers = {}\nhidden = "
                                               "64\nheads = 4\nffn = 256\nvocab = 100\nseq = 16\n",
                                               layers));
        return translate(
            folder.write("t.toml",
                         "[model]\nname = \"a\"\nflavor = \"b\"\n[parallelism]\n"
                         "pipeline_parallel_degree = 4\npipeline_parallel_schedule = "
                         "\"Interleaved1F1B\"\npipeline_parallel_layers_per_stage = 2\n"),
            how);
    };
    CHECK_THAT(lines(titan(9).problems),
               Contains("6 chunks of layers cannot be dealt to 4 stages alike"));
    CHECK(titan(14).problems.empty());  // ceil(16 / 2) = 8
    CHECK(value(titan(14), "parallelism.vp") == "2");
}

// Gradients that are freed while the backward runs, and a recipe's own layout.
TEST_CASE("updates in the backward, and what a recipe sets beside its overrides, are named") {
    const TestFolder folder;
    const auto tune = translate(
        folder.write("t.yaml",
                     "model:\n  _component_: torchtune.models.llama3.lora_llama3_8b\n  "
                     "apply_lora_to_mlp: True\n  lora_rank: 8\ntokenizer:\n  _component_: x\n"
                     "batch_size: 2\noptimizer_in_bwd: True\n"),
        {});
    CHECK_THAT(lines(tune.problems),
               Contains("optimizer_in_bwd") && Contains("keeps all gradients"));
    CHECK(value(tune, "workload.adapter_modules") == R"(["gate", "up", "down"])");
    CHECK(value(tune, "workload.preset") == "llama3-8b");
    const auto packed =
        translate(folder.write("q.yaml",
                               "model:\n  _component_: torchtune.models.llama3.qlora_llama3_8b\n"
                               "tokenizer:\n  _component_: x\nbatch_size: 2\n"),
                  {});
    CHECK(value(packed, "workload.preset") == "llama3-8b");
    CHECK(value(packed, "workload.frozen") == "nf4_double");
    const auto bridge = translate(
        folder.write("b.sh",
                     "torchrun --nproc_per_node=8 --nnodes=8 run_script.py -m llama3 -c fp8_cs "
                     "model.tensor_model_parallel_size=4 train.global_batch_size=256\n"),
        {});
    CHECK_THAT(lines(bridge.open), Contains("what the recipe sets beside the overrides") &&
                                       Contains("not read: -m llama3 -c fp8_cs"));
    folder.write("r.yaml",
                 "model:\n  _component_: torchtune.models.llama3.llama3_8b\ntokenizer:\n  "
                 "_component_: x\nbatch_size: 2\n");
    check_values(translate(folder.write("r.sh",
                                        "tune run --nnodes 2 --nproc_per_node 8 "
                                        "full_finetune_distributed --config r.yaml batch_size=4\n"),
                           {}),
                 {{"cluster.nodes", "2"},
                  {"cluster.gpus_per_node", "8"},
                  {"parallelism.micro_batch", "4"},
                  {"parallelism.global_batch", "64"}});
}

TEST_CASE("a reader that takes less than it leaves says so, and one that takes nothing refuses") {
    const TestFolder folder;
    const auto first = [&](const std::string& text) {
        return report(translate(folder.write("r.json", text), {})).front();
    };
    CHECK_THAT(first(R"({"train_batch_size": 8, "a": 1, "b": 2, "c": 3})"),
               Contains("1 values taken") && Contains("3 ignored: less is taken than left"));
    CHECK_THAT(first(R"({"train_batch_size": 8, "zero_optimization": {"stage": 1}, "a": 1})"),
               !Contains("less is taken"));
    CHECK_THAT(refusal(folder.write(
                   "n.yaml", "trainer:\n  strategy: x\nexp_manager:\n  a: b\nmodel:\n  name: y\n")),
               Contains("read as NeMo, of which it states nothing"));
    // what follows from defaults is stated nowhere
    for (const char* text :
         {"base_model: ./own\ndatasets:\n  - path: x\nnum_epochs: 3\n",
          "model_name_or_path: ./own\nstage: sft\ntemplate: default\nlearning_rate: 1e-4\n",
          "model_name_or_path: ./own\nnum_train_epochs: 3\nlearning_rate: 1e-4\n"})
        CHECK_THAT(refusal(folder.write("t.yaml", text)), Contains("of which it states nothing"));
}

// NeMo 1 (nemo_toolkit 2.0.0): PyTorch's FSDP by its switch, the batch of fine-tuning, BERT. A
// loss that compares with a second model is named.
TEST_CASE("NeMo's shards, batches of fine-tuning and BERT are read, its preferences named") {
    const TestFolder folder;
    const auto told = [&](const std::string& more) {
        return translate(
            folder.write("n.yaml",
                         "trainer:\n  devices: 8\n  num_nodes: 1\nmodel:\n  micro_batch_size: 1\n"
                         "  global_batch_size: 64\n  num_layers: 2\n  hidden_size: 64\n"
                         "  num_attention_heads: 4\n  encoder_seq_length: 32\n" +
                             more),
            {});
    };
    CHECK(value(told(""), "parallelism.zero") == "0");
    CHECK(value(told("  fsdp: true\n"), "parallelism.zero") == "3");
    CHECK(value(told("  fsdp: true\n  fsdp_sharding_strategy: grad\n"), "parallelism.zero") == "2");
    CHECK_THAT(lines(told("  fsdp: true\n  fsdp_sharding_strategy: hybrid\n").problems),
               Contains("not within a node"));
    check_values(told("  data:\n    train_ds:\n      global_batch_size: 16\n      "
                      "micro_batch_size: 2\n"),
                 {{"parallelism.global_batch", "16"}, {"parallelism.micro_batch", "2"}});
    CHECK(value(told(""), "workload.causal").empty());
    CHECK(value(told("  bert_binary_head: true\n"), "workload.causal") == "false");
    CHECK_THAT(lines(told("  dpo:\n    ref_policy_kl_penalty: 0.2\n").problems),
               Contains("no model that it compares with"));
}

// A plugin of axolotl's is named where it changes a step, whatever keys it has.
TEST_CASE("axolotl's plugins that change a step are named") {
    const TestFolder folder;
    const auto problems = [&](const std::string& plugin) {
        return lines(translate(folder.write("a.yml",
                                            "base_model: meta-llama/Meta-Llama-3-8B\nsequence_len: "
                                            "64\nplugins:\n  - axolotl.integrations." +
                                                plugin + "\n"),
                               {})
                         .problems);
    };
    for (const char* plugin :
         {"spectrum.SpectrumPlugin", "densemixer.DenseMixerPlugin", "kd.KDPlugin",
          "grokfast.GrokfastPlugin", "mora.MoraPlugin", "diffusion.DiffusionPlugin"})
        CHECK_THAT(problems(plugin), Contains("the forecast is without"));
    for (const char* plugin : {"liger.LigerPlugin", "lm_eval.LMEvalPlugin"})
        CHECK(problems(plugin).empty());
}

// OmegaConf's references of torchtune: 2 x 8 of a 4096.
TEST_CASE("references within a file of torchtune are its values") {
    const TestFolder folder;
    check_values(
        translate(folder.write("t.yaml",
                               "seq: 4096\ntokenizer:\n  _component_: x\n  max_seq_len: ${seq}\n"
                               "model:\n  _component_: torchtune.models.llama3_1.llama3_1_8b\n"
                               "batch_size: 2\ngradient_accumulation_steps: ${multiply:4,"
                               "${batch_size}}\noptimizer:\n  _component_: torch.optim.AdamW\n"),
                  {.replicas = 1}),
        {{"workload.seq", "4096"}, {"parallelism.global_batch", "16"}});
}

// Keys below overrides are Megatron-LM's, of whichever module; model and configuration are other
// files. megatron_gpt_model.py of NeMo 1.23: without these switches attention runs through memory.
TEST_CASE("attention of NeMo 1 is fused by a switch only") {
    const TestFolder folder;
    const auto attention = [&](const std::string& more) {
        return value(
            translate(
                folder.write("n.yaml",
                             "trainer:\n  devices: 8\n  num_nodes: 1\nmodel:\n  micro_batch_size: "
                             "1\n  num_layers: 2\n  hidden_size: 64\n  num_attention_heads: 4\n"
                             "  encoder_seq_length: 16\n" +
                                 more),
                {}),
            "runtime.attention");
    };
    CHECK(attention("") == "plain");
    CHECK(attention("  use_flash_attention: false\n  transformer_engine: false\n") == "plain");
    for (const char* name : {"use_flash_attention", "transformer_engine", "mcore_gpt"})
        CHECK(attention("  " + std::string(name) + ": true\n") == "flash");
}

TEST_CASE("Primus' overrides are Megatron-LM's keys") {
    const TestFolder folder;
    const std::string head =
        "modules:\n  pre_trainer:\n    framework: megatron\n    model: small.yaml\n    "
        "overrides:\n";
    const auto path =
        folder.write("p.yaml", head +
                                   "      tensor_model_parallel_size: 4\n      micro_batch_size: "
                                   "2\n      global_batch_size: 48\n      seq_length: 1024\n"
                                   "      recompute_granularity: full\n      recompute_method: "
                                   "uniform\n      recompute_num_layers: 1\n");
    CHECK(recognise_foreign(path) == ForeignFormat::primus);
    const Translation t = translate(path, {});
    check_values(t, {{"parallelism.tp", "4"},
                     {"parallelism.micro_batch", "2"},
                     {"parallelism.global_batch", "48"},
                     {"workload.seq", "1024"},
                     {"parallelism.recompute", "full"}});
    CHECK_THAT(lines(t.open), Contains("small.yaml is another file") && Contains("--model"));
    CHECK_THAT(refusal(folder.write("q.yaml",
                                    "modules:\n  pre_trainer:\n    framework: torchtitan\n    "
                                    "overrides:\n      tensor_model_parallel_size: 4\n")),
               Contains("expected megatron"));
}

// hjson: comments of three kinds, commas at the end or none. Strings keep what looks like a
// comment.
TEST_CASE("DeepSpeed's JSON is read as hjson reads it") {
    const TestFolder folder;
    const auto check = [&](const std::string& text) {
        const auto path = folder.write("ds.json", text);
        CHECK(recognise_foreign(path) == ForeignFormat::deepspeed);
        check_values(translate(path, {}), {{"parallelism.zero", "2"},
                                           {"parallelism.micro_batch", "3"},
                                           {"workload.dtype", "bf16"}});
    };
    check(
        "{\n  // one\n  \"bf16\": {\"enabled\": true}, // two\n  \"zero_optimization\": "
        "{\"stage\": 2},\n  \"train_micro_batch_size_per_gpu\": 3\n}\n");
    check(
        "// first\n{\n  # one\n  \"bf16\": {\"enabled\": true,},\n  /* \"zero_optimization\": "
        "{\"stage\": 3},\n  */\n  \"zero_optimization\": {\"stage\": 2},\n"
        "  \"train_micro_batch_size_per_gpu\": 3,\n}\n");
    check(
        "{\n  bf16: {enabled: true}\n  zero_optimization: {\n    stage: 2\n    "
        "contiguous_gradients: true\n  }\n  train_micro_batch_size_per_gpu: 3\n}\n");
    const Translation t =
        translate(folder.write("s.json",
                               "{\"train_batch_size\": 8,\n \"a\": \"http://x#y /* no */\"\n\n // "
                               "c\n, \"train_micro_batch_size_per_gpu\": 2}"),
                  {});
    CHECK(t.find("parallelism.micro_batch")->at.ends_with("s.json:5"));
}

TEST_CASE("variables in YAML take the values of --env, their defaults, or are named") {
    const TestFolder folder;
    const auto tp = [&](const std::string& text, const std::map<std::string, std::string>& given) {
        TranslateOptions how;
        how.environment = given;
        const auto path = folder.write(
            "v.yaml",
            "MODEL_ARGS:\n  --tensor-model-parallel-size: " + text +
                "\n  --num-layers: 4\n  --hidden-size: 64\n  --num-attention-heads: 4\n"
                "  --seq-length: 16\n  --max-position-embeddings: 16\n  --micro-batch-size: 1\n");
        try {
            return value(translate(path, how), "parallelism.tp");
        } catch (const ConfigError& error) {
            return std::string(error.what());
        }
    };
    for (const std::string variable :
         {"${TP}", "$TP", "${oc.env:TP}", "${TP:8}", "${TP:-8}", "${oc.env:TP,8}"}) {
        INFO(variable);
        CHECK(tp(variable, {{"TP", "2"}}) == "2");
        const bool has_default = variable.find('8') != std::string::npos;
        if (has_default)
            CHECK(tp(variable, {{"PP", "2"}}) == "8");
        else
            CHECK_THAT(tp(variable, {{"PP", "2"}}),
                       Contains("found \"" + variable + "\"") && Contains("--env NAME=VALUE"));
    }
    CHECK(tp("${TP}${MORE}", {{"TP", "1"}, {"MORE", "6"}}) == "16");
}

// 14 layers and one each for embedding and head are 16, four on each of 4 stages: 3, 4, 4, 3 of
// layers. 13 are 15: 4 on the first three.
TEST_CASE("torchtitan's first and last stage have a layer less") {
    const TestFolder folder;
    const auto layers = [&](int count, const std::string& more) {
        TranslateOptions how;
        how.model =
            folder.write("m.toml", fmt::format("kind = \"transformer\"\nlayers = {}\nhidden = "
                                               "64\nheads = 4\nffn = 256\nvocab = 100\nseq = 16\n",
                                               count));
        return value(translate(folder.write("t.toml",
                                            "[model]\nname = \"a\"\nflavor = "
                                            "\"b\"\n[parallelism]\npipeline_parallel_degree = 4\n" +
                                                more),
                               how),
                     "parallelism.stage_layers");
    };
    CHECK(layers(14, "") == "[3, 4, 4, 3]");
    CHECK(layers(13, "") == "[3, 4, 4, 2]");
    CHECK(layers(16,
                 "pipeline_parallel_first_stage_less_layers = "
                 "0\npipeline_parallel_last_stage_less_layers = 0\n")
              .empty());
    CHECK(layers(14, "pipeline_parallel_schedule = \"Interleaved1F1B\"\n") ==
          "[1, 2, 2, 2, 2, 2, 2, 1]");
    CHECK(layers(4,
                 "module_fqns_per_model_part = [[\"tok_embeddings\", \"layers.0\"], [\"layers.1\", "
                 "\"layers.2\"], [\"layers.3\"], [\"norm\", \"output\"]]\n") == "[1, 2, 1, 0]");
}

TEST_CASE(
    "torchtitan compiles layers and loss each by itself, and splits no expert over tensor-parallel "
    "ranks") {
    const TestFolder folder;
    const auto read = [&](const std::string& more) {
        return translate(folder.write("t.toml",
                                      "[model]\nname = \"deepseek_v3\"\nflavor = "
                                      "\"16B\"\n[parallelism]\ntensor_parallel_degree = 2\n" +
                                          more),
                         {});
    };
    const auto compiled = [&](const std::string& more) {
        const Translation t = read("[compile]\n" + more);
        return std::pair(value(t, "runtime.kernels") == "fused",
                         value(t, "runtime.loss.fused") == "true");
    };
    CHECK(compiled("enable = true\n") == std::pair(true, true));
    CHECK(compiled("enable = true\ncomponents = [\"model\"]\n") == std::pair(true, false));
    CHECK(compiled("enable = true\ncomponents = [\"loss\"]\n") == std::pair(false, true));
    CHECK(compiled("enable = false\ncomponents = [\"model\", \"loss\"]\n") ==
          std::pair(false, false));
    CHECK(compiled("components = [\"loss\"]\n") == std::pair(false, false));
    CHECK(value(read("expert_parallel_degree = 4\n"), "runtime.experts.tensor_parallel") == "none");
    CHECK(value(read("expert_parallel_degree = 4\nexpert_tensor_parallel_degree = 2\n"),
                "runtime.experts.tensor_parallel") == "all");
    // of no effect at ep 1
    CHECK(value(read("expert_tensor_parallel_degree = 1\n"), "runtime.experts.tensor_parallel")
              .empty());
    CHECK_THAT(lines(read("disable_loss_parallel = true\n").problems),
               Contains("disable_loss_parallel"));
    CHECK_THAT(lines(read("enable_async_tensor_parallel = true\n").problems),
               Contains("torchtitan stops without compile.enable"));
    CHECK_THAT(lines(read("[activation_checkpoint]\nmode = \"memory_budget\"\n").problems),
               Contains("the compiler chooses"));
}

namespace {

struct ToolFile {
    std::string tool, text;
    std::vector<std::pair<std::string, std::string>> values;
};

// Batches: micro-batch x accumulation x replicas.
const std::vector<ToolFile> tool_files{
    {"nanotron",  // 3 x 2 x 2 = 12
     "model:\n  dtype: float16\n  model_config:\n    num_hidden_layers: 6\n    hidden_size: 96\n   "
     " num_attention_heads: 6\n    num_key_value_heads: 3\n    intermediate_size: 200\n"
     "    vocab_size: 300\noptimizer:\n  zero_stage: 0\n  accumulate_grad_in_fp32: "
     "true\nparallelism:\n  dp: 2\n  pp: 3\n  tp: 1\n  pp_engine: 1f1b\n"
     "tokens:\n  sequence_length: 50\n  micro_batch_size: 3\n  batch_accumulation_per_replica: 2\n",
     {{"workload.layers", "6"},
      {"workload.hidden", "96"},
      {"workload.kv_heads", "3"},
      {"workload.ffn", "200"},
      {"workload.gated", "true"},
      {"workload.dtype", "fp16"},
      {"workload.tied", "false"},
      {"parallelism.dp", "2"},
      {"parallelism.pp", "3"},
      {"parallelism.schedule", "1f1b"},
      {"parallelism.global_batch", "12"},
      {"workload.seq", "50"}}},
    {"litgpt",
     "model_name: Llama-3-8B\nprecision: bf16-true\ndevices: 4\nnum_nodes: 3\ntrain:\n  "
     "global_batch_size: 48\n  micro_batch_size: 2\n  max_seq_length: 99\n",
     {{"workload.preset", "llama3-8b"},
      {"runtime.optimizer.master_weights", "false"},
      {"cluster.nodes", "3"},
      {"cluster.gpus_per_node", "4"},
      {"parallelism.dp", "12"},
      {"parallelism.global_batch", "48"},
      {"parallelism.micro_batch", "2"},
      {"workload.seq", "99"},
      {"parallelism.zero", "3"}}},
    {"axolotl",
     "base_model: NousResearch/Llama-2-7b-hf\nsequence_len: 700\nmicro_batch_size: "
     "3\ngradient_checkpointing: true\nadapter: lora\nlora_r: 4\nlora_target_linear: "
     "true\ndeepspeed: "
     "deepspeed_configs/zero1.json\n",
     {{"workload.preset", "llama2-7b"},
      {"workload.seq", "700"},
      {"parallelism.micro_batch", "3"},
      {"parallelism.recompute", "full"},
      {"workload.adapter_rank", "4"},
      {"parallelism.zero", "1"}}},
    {"llama-factory",
     "model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct\nstage: sft\nfinetuning_type: "
     "lora\nlora_target: all\ncutoff_len: 300\nper_device_train_batch_size: 2\nbf16: true\n",
     {{"workload.preset", "llama3-8b"},
      {"workload.adapter_rank", "8"},
      {"workload.adapter_on", "linear"},
      {"workload.seq", "300"},
      {"parallelism.micro_batch", "2"},
      {"parallelism.recompute", "full"},
      {"parallelism.zero", "0"}}},
    {"llm-foundry",
     "variables:\n  max_seq_len: 128\nmax_seq_len: ${variables.max_seq_len}\nmodel:\n  name: "
     "mpt_causal_lm\n  d_model: 64\n  n_heads: 4\n  n_layers: 3\n  expansion_ratio: 2\n"
     "global_train_batch_size: 32\ndevice_train_microbatch_size: 4\nfsdp_config:\n  "
     "sharding_strategy: SHARD_GRAD_OP\n  activation_checkpointing: true\n",
     {{"workload.layers", "3"},
      {"workload.ffn", "128"},
      {"workload.seq", "128"},
      {"workload.positions", "learned"},
      {"parallelism.zero", "2"},
      {"parallelism.recompute", "full"},
      {"parallelism.global_batch", "32"},
      {"parallelism.micro_batch", "4"}}},
    {"torchtune",
     "tokenizer:\n  _component_: torchtune.models.llama3.llama3_tokenizer\n  max_seq_len: "
     "77\nmodel:\n  _component_: torchtune.models.llama3.llama3_8b\nbatch_size: 5\ncompile: True\n"
     "dtype: bf16\nenable_activation_checkpointing: False\n",
     {{"workload.preset", "llama3-8b"},
      {"workload.seq", "77"},
      {"parallelism.micro_batch", "5"},
      {"parallelism.recompute", "none"}}},
    {"accelerate",
     "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: "
     "bf16\nnum_machines: 2\nnum_processes: 6\nfsdp_config:\n  fsdp_sharding_strategy: "
     "SHARD_GRAD_OP\n",
     {{"workload.dtype", "bf16"},
      {"parallelism.zero", "2"},
      {"cluster.nodes", "2"},
      {"cluster.gpus_per_node", "3"},
      {"parallelism.dp", "6"}}}};

}  // namespace

TEST_CASE("YAML of seven more tools is read, and what it leaves to others is named") {
    const TestFolder folder;
    for (const ToolFile& file : tool_files) {
        INFO(file.tool);
        const auto path = folder.write(file.tool + ".yaml", file.text);
        CHECK(recognise_foreign(path) == ForeignFormat::config_file);
        const Translation t = translate(path, {});
        CHECK(t.format == tool_named(file.tool).name);
        check_values(t, file.values);
        CHECK(lines(t.problems).empty());
        const bool sized = t.find("workload.preset") || t.find("workload.layers");
        CHECK((lines(t.open).find("--model") == std::string::npos) == sized);
    }
    const auto unknown = translate(
        folder.write("a.yml",
                     "base_model: someone/Own-13B\nsequence_len: 64\nmicro_batch_size: 1\n"),
        {});
    CHECK_THAT(lines(unknown.open),
               Contains("someone/Own-13B: no preset has its sizes") && Contains("--model"));
    const auto offload = translate(
        folder.write("b.yaml", tool_files.back().text + "  fsdp_offload_params: true\n"), {});
    CHECK_THAT(lines(offload.problems), Contains("fsdp_offload_params"));
}

TEST_CASE("every key of the data names its source where it has a default") {
    for (const Tool& tool : config_files().tools) {
        INFO(tool.name);
        CHECK_FALSE(tool.source.empty());
        for (const ToolKey& key : tool.keys) {
            INFO(key.key);
            CHECK((key.otherwise.empty() || !key.source.empty()));
        }
    }
}

TEST_CASE("a configuration of no known tool is told what it is and what is read") {
    const TestFolder folder;
    CHECK_THAT(
        unknown_configuration(folder.write("u.yaml", "net:\n  depth: 12\n  num_layers: 3\n")),
        Contains("YAML with net.num_layers, net.depth") && Contains("nanotron") &&
            Contains("--format"));
    CHECK_THAT(unknown_configuration(folder.write("u.json", "{\"hidden\": 3}")),
               Contains("JSON with hidden"));
    // a log's or a profile's
    CHECK(unknown_configuration(folder.write("r.json", "{\"events\": [1, 2]}")).empty());
    CHECK(unknown_configuration(folder.write("l.log", "step 3: loss 4\n")).empty());
}

// Files of a tool that nobody knows have a trainer and a model, axolotl's the class of the model:
// neither makes them NeMo's or a config.json.
TEST_CASE("a file is no other tool's for words that both have") {
    const TestFolder folder;
    const auto unknown = folder.write("unknown.yaml",
                                      "model:\n  type: llama\n  hidden_dim: 640\n  num_layers: "
                                      "12\ntrainer:\n  precision: 16\n  "
                                      "own_batch_size: 64\n");
    CHECK(recognise_foreign(unknown) == ForeignFormat::none);
    CHECK_THAT(unknown_configuration(unknown), Contains("of no tool that is known"));
    const auto axolotl = folder.write(
        "axolotl.yml",
        "base_model: huggyllama/llama-7b\nmodel_type: LlamaForCausalLM\ntokenizer_type: "
        "LlamaTokenizer\nsequence_len: 1024\nmicro_batch_size: 3\n");
    CHECK(recognise_foreign(axolotl) == ForeignFormat::config_file);
    const Translation t = translate(axolotl, {});
    CHECK(t.format == "axolotl");
    check_values(t, {{"workload.seq", "1024"}, {"parallelism.micro_batch", "3"}});
}

TEST_CASE("GPT-NeoX's micro-batch by DeepSpeed's name is stated") {
    const TestFolder folder;
    const auto t = translate(
        folder.write("n.yml",
                     "{\"pipe-parallel-size\": 1, \"model-parallel-size\": 2, \"num-layers\": 4, "
                     "\"hidden-size\": 64, \"num-attention-heads\": 4, \"seq-length\": 32, "
                     "\"max-position-embeddings\": 32, \"train_micro_batch_size_per_gpu\": 4}"),
        {});
    CHECK(value(t, "parallelism.micro_batch") == "4");
    CHECK_THAT(lines(t.open), !Contains("micro-batch: not stated"));
}

TEST_CASE("what GPT-NeoX switches on beside the usual layers is a problem") {
    const TestFolder folder;
    const auto problems = [&](const std::string& more) {
        return lines(translate(folder.write("n.yml",
                                            "num_layers: 12\nhidden_size: 640\n"
                                            "num_attention_heads: 10\nmodel_parallel_size: 2\n"
                                            "train_micro_batch_size_per_gpu: 5\n" +
                                                more),
                               {})
                         .problems);
    };
    CHECK(problems("").empty());
    CHECK(problems("attention_config: [[[global, flash], 6]]\n").empty());
    CHECK_THAT(problems("attention_config: [[[local, global], 6]]\n"),
               Contains("attention_config") && Contains("local: attention other than"));
    CHECK_THAT(problems("gpt_j_residual: true\n"), Contains("one sum over"));
    CHECK(problems("gpt_j_residual: false\n").empty());
    CHECK_THAT(problems("te_fp8_format: hybrid\n"), Contains("te_fp8_format"));
    CHECK(problems("te_fp8_format: none\n").empty());
}

// LLaMA-Factory 0.9.5 and axolotl 0.19.0 by one switch each.
TEST_CASE("other ways to train few weights, or with other optimizers, are problems") {
    const TestFolder folder;
    const auto problems = [&](const std::string& base, const std::string& more) {
        return lines(translate(folder.write("w.yaml", base + more), {}).problems);
    };
    const std::string
        factory = "model_name_or_path: meta-llama/Meta-Llama-3-8B\nstage: sft\ncutoff_len: 1024\n",
        full = factory + "finetuning_type: full\n",
        axolotl = "base_model: meta-llama/Meta-Llama-3-8B\nsequence_len: 1024\n";
    CHECK(problems(full, "").empty());
    CHECK(problems(factory, "finetuning_type: lora\n").empty());
    for (const char* type : {"freeze", "oft"})
        CHECK_THAT(problems(factory, "finetuning_type: " + std::string(type) + "\n"),
                   Contains("finetuning_type"));
    for (const char* name : {"use_galore", "use_apollo", "use_badam", "use_adam_mini", "use_muon",
                             "use_dora", "use_kt", "use_mca", "use_unsloth_gc", "use_llama_pro",
                             "use_v1_kernels", "use_asft_loss"}) {
        INFO(name);
        CHECK_THAT(problems(full, std::string(name) + ": true\n"), Contains(name));
        CHECK(problems(full, std::string(name) + ": false\n").empty());
    }
    for (const char* line :
         {"peft_use_dora: true", "gptq: true", "lisa_step_interval: 20", "use_onebitllms: true",
          "relora: true", "num_labels: 4", "scaling_softmax: true", "dpo_use_liger_kernel: true",
          "label_smoothing_factor: 0.1"}) {
        INFO(line);
        CHECK_FALSE(problems(axolotl, std::string(line) + "\n").empty());
    }
    CHECK_THAT(problems("distributed_type: FSDP\ncompute_environment: x\n",
                        "kt_config:\n  enabled: true\n"),
               Contains("kt_config.enabled"));
}
