// Files and launch lines of tools beside Megatron-LM and the Trainer: none is taken for another's.
#include <catch2/catch.hpp>

#include <algorithm>
#include <array>

#include "import/launch/tool_files.h"
#include "import/launch/translate.h"
#include "import/launch/translation.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/experiment.h"
#include "tests/import/launch/told.h"
#include "tests/model/files.h"

using namespace stepcast;
using Catch::Contains;

namespace {

// What is said of a refused file; "" if it is read.
std::string refusal(const TestFolder& folder, const std::string& name, const std::string& text) {
    try {
        translate(folder.write(name, text), {});
        return "";
    } catch (const ConfigError& error) {
        return error.what();
    }
}

}  // namespace

// Each was read as Megatron-LM, Megatron-Bridge, NeMo, llm-foundry or the Trainer, with its sizes
// and degrees left out, or was said to launch no training.
TEST_CASE("files and lines of tools that are not read are refused by their name") {
    const TestFolder folder;
    for (
        const auto& [name, text, tool] : std::vector<std::array<std::string, 3>>{
            {"a.sh",
             "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=gae "
             "data.train_batch_size=96 actor_rollout_ref.rollout.tensor_model_parallel_size=4\n",
             "verl"},
            {"b.sh",
             "torchrun --nproc_per_node=4 -m verl.trainer.fsdp_sft_trainer data.max_length=96 "
             "data.micro_batch_size_per_gpu=3 model.partial_pretrain=a/b\n",
             "verl"},
            {"c.sh",
             "ray job submit -- python3 -m openrlhf.cli.train_ppo_ray --zero_stage 3 "
             "--micro_train_batch_size 3\n",
             "OpenRLHF"},
            {"d.sh",
             "deepspeed --module openrlhf.cli.train_sft --max_len 96 --micro_train_batch_size 3\n",
             "OpenRLHF"},
            {"e.sh", "colossalai run --nproc_per_node 4 train.py --plugin 3d --tp 2 --zero 1\n",
             "Colossal-AI"},
            {"f.sh", "fairseq-train data --arch transformer_lm_gpt --max-tokens 96 --fp16\n",
             "fairseq"},
            {"g.sh",
             "torchrun --nproc_per_node 4 fairseq_cli/train.py data --batch-size 3 --fp16\n",
             "fairseq"},
            {"h.sh",
             "python -u -m paddle.distributed.launch --gpus 0,1 run_pretrain.py "
             "--tensor_parallel_degree 2 --per_device_train_batch_size 3\n",
             "PaddleNLP"},
            {"i.sh",
             "torchrun --nproc_per_node 4 run.py --model_name_or_path a/b "
             "--pipeline_parallel_degree 2 --per_device_train_batch_size 3\n",
             "PaddleNLP"},
            {"j.json",
             R"({"model_name_or_path": "a/b", "per_device_train_batch_size": 3, "tensor_parallel_degree": 2})",
             "PaddleNLP"},
            {"k.sh", "NPROC_PER_NODE=4 swift sft --model a/b --train_type full --max_length 96\n",
             "ms-swift"},
            {"l.sh", "xtuner train internlm_7b --deepspeed deepspeed_zero2\n", "XTuner"},
            {"m.sh",
             "python3 -m MaxText.train configs/base.yml model_name=llama3-8b "
             "per_device_batch_size=3\n",
             "MaxText"},
            {"n.yml", "base_config: base.yml\nmodel_name: llama2-7b\nici_fsdp_parallelism: 4\n",
             "MaxText"},
            {"o.sh", "python -m levanter.main.train_lm --config_path config/own.yaml\n",
             "Levanter"},
            {"p.yaml",
             "model:\n  type: llama\n  hidden_dim: 96\ntrainer:\n  mp: p=f32\n  "
             "train_batch_size: 64\n",
             "Levanter"},
            {"q.yaml",
             "model:\n  d_model: 96\n  n_heads: 3\n  n_layers: 3\n  mlp_ratio: 8\n  "
             "weight_tying: false\nglobal_train_batch_size: 96\n"
             "device_train_microbatch_size: 3\n",
             "OLMo"},
            {"r.yaml", "parallel_config:\n  model_parallel: 2\n  pipeline_stage: 2\n",
             "MindFormers"},
            {"s.yaml", "policy:\n  model_name: a/b\n  train_micro_batch_size: 3\n", "NeMo RL"},
            {"t.yaml",
             "step_scheduler:\n  local_batch_size: 3\nmodel:\n  "
             "pretrained_model_name_or_path: a/b\n",
             "NeMo AutoModel"},
            {"u.yaml",
             "trainer:\n  devices: 8\n  precision: bf16-mixed\nmodel:\n  class_path: Own\n  "
             "init_args:\n    num_layers: 3\n",
             "Lightning's command line"}}) {
        INFO(text);
        CHECK_THAT(refusal(folder, name, text),
                   Contains("found " + tool + ", whose files and launch lines are not read"));
    }
}

// A batch, a type and a number of processes stand in every tool's line.
TEST_CASE("flags that only look like Megatron's make no line of Megatron's") {
    const TestFolder folder;
    for (const char* line :
         {"torchrun --nproc_per_node 4 train.py --batch_size 3 --plugin zero2 --bf16",
          "torchrun --nproc_per_node 4 scripts/train.py run.yaml --model.flash_attention=true",
          "torchrun --nproc_per_node 4 own.py run --train_module.max_grad_norm=1 --seed 3"}) {
        INFO(line);
        CHECK_THAT(refusal(folder, "run.sh", std::string(line) + "\n"),
                   Contains("no flag of Megatron-LM or its relatives"));
    }
    CHECK(refusal(folder, "run.sh",
                  "torchrun --nproc_per_node 4 pretrain_gpt.py --num-layers 3 --batch-size 3 "
                  "--hidden-size 96 --num-attention-heads 3 --seq-length 96 "
                  "--max-position-embeddings 96 --vocab-size 96\n") == "");
    CHECK(refusal(folder, "run.sh",
                  "torchrun --nproc_per_node 4 own.py model.recompute_granularity=full "
                  "train.micro_batch_size=3\n") == "");
    CHECK_THAT(refusal(folder, "run.sh", "own-trainer --width 96 --depth 3\n"),
               Contains("launches no training that is known") &&
                   Contains("not known: own-trainer (") && Contains("run.sh:1)"));
}

// litgpt 0.5.13: pretrain.py has a batch of 512, is compiled and shards in a node; finetune/lora.py
// and full.py have 16, and recompute where there are several devices.
TEST_CASE("litgpt's programs have batches, recompute and shards of their own") {
    const TestFolder folder;
    const auto read = [&](const std::string& text) {
        return translate(folder.write("run.yaml", text), {});
    };
    const std::string trained = "train:\n  max_seq_length: 96\n";
    const Translation pretrain =
        read("model_name: Llama-3.1-8B\ndevices: 4\nnum_nodes: 2\n" + trained);
    check_values(pretrain, {{"parallelism.global_batch", "512"},
                            {"parallelism.micro_batch", "4"},
                            {"parallelism.zero", "3"},
                            {"parallelism.shard", "4"},
                            {"parallelism.dp", "8"},
                            {"runtime.kernels", "fused"},
                            {"parallelism.recompute", ""}});
    CHECK_THAT(lines(read("model_name: Llama-3.1-8B\n" + trained).open),
               Contains("shards are of one node's GPUs"));
    const std::string tuned = "checkpoint_dir: checkpoints/meta-llama/Llama-3.1-8B\n" + trained;
    check_values(read(tuned + "lora_r: 4\ndevices: 4\n"),
                 {{"parallelism.global_batch", "16"},
                  {"parallelism.micro_batch", "1"},
                  {"workload.adapter_rank", "4"},
                  {"workload.adapter_modules", R"(["query", "value"])"},
                  {"parallelism.recompute", "full"},
                  {"parallelism.zero", "3"},
                  {"parallelism.shard", ""}});
    check_values(read(tuned + "lora_mlp: true\n"),
                 {{"workload.adapter_rank", "8"},
                  {"workload.adapter_modules", R"(["query", "value", "gate", "up", "down"])"},
                  {"parallelism.recompute", "none"},
                  {"cluster.gpus_per_node", "1"}});
    check_values(read(tuned), {{"workload.adapter_rank", "0"},
                               {"parallelism.global_batch", "16"},
                               {"runtime.kernels", ""}});
}

// litgpt's flags have a section like Megatron-Bridge's overrides, as which they were read.
TEST_CASE("a launch whose file is not there is no other tool's") {
    const TestFolder folder;
    for (const std::string line :
         {"litgpt pretrain pythia-1b --config gone.yaml --train.micro_batch_size 8 --num_nodes 2",
          "tune run --nproc_per_node 4 lora_finetune_distributed --config llama3_1/8B_lora"}) {
        const std::string said = refusal(folder, "run.sh", line + "\n");
        INFO(line);
        CHECK_THAT(said, Contains("none of its files beside") && Contains(line.substr(0, 20)));
    }
}

// llm-foundry 0.22.0 and Composer 0.32.1: without fsdp_config there are replicas; ffn_type mptglu
// has a gate, norm_type is the norm, hybrid shards are of one node.
TEST_CASE("llm-foundry's shards, gates, norms and heads are those that its file states") {
    const TestFolder folder;
    const auto read = [&](const std::string& model, const std::string& rest) {
        return translate(
            folder.write("run.yaml",
                         "max_seq_len: 96\nmodel:\n  name: mpt_causal_lm\n  d_model: 96\n  "
                         "n_heads: 6\n  n_layers: 3\n" +
                             model +
                             "global_train_batch_size: 48\ndevice_train_microbatch_size: 3\n" +
                             rest),
            {});
    };
    check_values(read("", ""), {{"parallelism.zero", "0"},
                                {"workload.gated", "false"},
                                {"workload.ffn", "384"},
                                {"runtime.attention", "flash2"},
                                {"workload.norm", "layernorm"}});
    check_values(
        read("  norm_type: low_precision_rmsnorm\n  learned_pos_emb: false\n  head_dim: 32\n"
             "  ffn_config:\n    ffn_type: mptglu\n    ffn_hidden_size: 200\n"
             "  attn_config:\n    attn_type: multiquery_attention\n    qk_ln: true\n",
             "fsdp_config:\n  mixed_precision: PURE\n"),
        {{"parallelism.zero", "3"},
         {"runtime.gradients.type", "training"},
         {"workload.norm", "rmsnorm"},
         {"workload.positions", "none"},
         {"workload.head_dim", "32"},
         {"workload.gated", "true"},
         {"workload.ffn", "200"},
         {"workload.kv_heads", "1"},
         {"workload.qk_norm", "true"}});
    const Translation hybrid = read("", "fsdp_config:\n  sharding_strategy: HYBRID_SHARD\n");
    check_values(hybrid, {{"parallelism.zero", "3"}});
    CHECK_THAT(lines(hybrid.open), Contains("shards are of one node's GPUs"));
    for (const auto& [model, rest, what] : std::vector<std::array<std::string, 3>>{
             {"  ffn_config:\n    ffn_type: mb_dmoe\n", "", "its experts"},
             {"  attn_config:\n    sliding_window_size: 64\n", "", "the window of its attention"},
             {"", "fsdp_config:\n  mixed_precision: FULL\n", "gathers and products in fp32"},
             {"", "optimizer:\n  name: decoupled_lionw\n", "decoupled_lionw"}})
        CHECK_THAT(lines(read(model, rest).problems), Contains(what));
    CHECK(lines(read("  attn_config:\n    sliding_window_size: -1\n", "").problems) == "");
}

// Neither line has a flag: that "composer" starts it is all that tells a training.
TEST_CASE("a tool's program is known behind another launcher and by its path") {
    const TestFolder folder;
    folder.write("run.yaml",
                 "max_seq_len: 96\nmodel:\n  d_model: 96\n  n_heads: 6\n  n_layers: 3\n"
                 "global_train_batch_size: 48\ndevice_train_microbatch_size: 3\n");
    for (const char* line :
         {"srun composer train.py run.yaml\n", "/opt/conda/bin/composer train.py run.yaml\n"}) {
        INFO(line);
        CHECK(translate(folder.write("run.sh", line), {}).format == "llm-foundry");
    }
}

// A file that says "auto" once is told once that the Trainer sets it.
TEST_CASE("a switch that the Trainer sets is named once") {
    const TestFolder folder;
    const auto t = translate(folder.write("ds.json",
                                          R"({"bf16": {"enabled": "auto"},
 "fp16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}, "train_batch_size": 48})"),
                             {});
    for (const char* name : {"bf16.enabled (", "fp16.enabled ("})
        CHECK(std::ranges::count_if(
                  t.open, [&](const std::string& line) { return line.starts_with(name); }) == 1);
}

// 2 x 4 GPUs; the last of a name counts.
TEST_CASE("a launch takes its tool's file, with what the line says above it") {
    const TestFolder folder;
    folder.write("run.yaml",
                 "max_seq_len: 96\nmodel:\n  d_model: 96\n  n_heads: 6\n  n_layers: 3\n"
                 "global_train_batch_size: 48\ndevice_train_microbatch_size: 3\n"
                 "fsdp_config:\n  verbose: true\n");
    const auto t = translate(folder.write("run.sh",
                                          "composer train.py run.yaml global_train_batch_size=80 "
                                          "model.n_layers=5 max_seq_len=64\n"),
                             {});
    CHECK(t.format == "llm-foundry");
    check_values(t, {{"parallelism.global_batch", "80"},
                     {"parallelism.micro_batch", "3"},
                     {"workload.layers", "5"},
                     {"workload.seq", "64"},
                     {"parallelism.zero", "3"}});
    folder.write("nano.yaml",
                 "parallelism:\n  tp: 2\n  pp: 1\n  dp: 4\ntokens:\n  micro_batch_size: 3\n  "
                 "batch_accumulation_per_replica: 2\n  sequence_length: 96\n");
    const auto nano =
        translate(folder.write("nano.sh",
                               "torchrun --nnodes 2 --nproc_per_node 4 run_train.py --config-file "
                               "nano.yaml\n"),
                  {});
    CHECK(nano.format == "nanotron");
    folder.write("own.yaml", "{% set a = 3 %}\n- [\n");  // no file of these tools, nor YAML
    CHECK(refusal(folder, "own.sh",
                  "torchrun --nproc_per_node 4 pretrain_gpt.py --own-file own.yaml --num-layers 3 "
                  "--hidden-size 96 --num-attention-heads 3 --seq-length 96 --micro-batch-size 3 "
                  "--max-position-embeddings 96 --vocab-size 96\n") == "");
    check_values(nano, {{"parallelism.tp", "2"},
                        {"parallelism.dp", "4"},
                        {"cluster.nodes", "2"},
                        {"cluster.gpus_per_node", "4"},
                        {"parallelism.global_batch", "24"}});
}

// Compiled, the casts of mixed precision are within the kernels: simulate refuses autocast beside
// them, which import wrote.
TEST_CASE("mixed precision of compiled programs is read by simulate") {
    const TestFolder folder;
    const std::string sizes =
        " --model_name_or_path meta-llama/Llama-3.1-8B --torch_dtype float32 "
        "--max_length 96\n";
    for (const std::string line :
         {"accelerate launch --mixed_precision bf16 --dynamo_backend inductor --num_processes 4 "
          "train.py",
          "torchrun --nproc_per_node 4 train.py --bf16 --torch_compile"}) {
        const auto path = folder.write("run.sh", line + sizes);
        const Translation t = translate(path, {});
        CHECK(t.framework == "transformers-trainer");
        const Experiment e = read_experiment({path, experiment_text(t)},
                                             std::vector<Override>{{"cluster.preset", "dgx-h100"}});
        CHECK((e.runtime.kernels == KernelStyle::fused && !e.runtime.autocast));
    }
}

// A builder of torchtune named lora_ has rank 8 unless the file says another.
TEST_CASE("torchtune's LoRA builders train adapters also where no rank is stated") {
    const TestFolder folder;
    const auto read = [&](const std::string& model) {
        return translate(
            folder.write("run.yaml",
                         "tokenizer:\n  _component_: torchtune.models.llama3.llama3_tokenizer\n"
                         "batch_size: 3\nmodel:\n  _component_: torchtune.models.llama3." +
                             model),
            {});
    };
    check_values(read("llama3_8b\n"), {{"workload.adapter_rank", ""}});
    check_values(read("lora_llama3_8b\n"),
                 {{"workload.adapter_rank", "8"}, {"workload.preset", "llama3-8b"}});
    check_values(read("lora_llama3_8b\n  lora_rank: 64\n"), {{"workload.adapter_rank", "64"}});
    check_values(read("lora_llama3_8b\n  quantize_base: true\n"),
                 {{"workload.frozen", "nf4_double"}});
    check_values(read("lora_llama3_8b\n  quantize_base: false\n"), {{"workload.frozen", ""}});
    // full_finetune_distributed.py: compile False
    CHECK(read("llama3_8b\n").framework == "torchtune-eager");
    CHECK(read("llama3_8b\ncompile: false\n").framework == "torchtune-eager");
    CHECK(read("llama3_8b\ncompile: true\n").framework == "torchtune");
    CHECK_THAT(lines(read("llama3_8b\nac_mode: selective\nac_option: 2\n").problems),
               Contains("its choice of layers"));
}
