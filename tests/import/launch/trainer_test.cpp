// Launches of programs on Hugging Face's Trainer and of accelerate, and the files that they name.

#include <filesystem>
#include <tuple>

#include <catch2/catch.hpp>

#include "import/launch/tool_files.h"
#include "import/launch/translate.h"
#include "import/launch/translation.h"
#include "measured/read.h"
#include "model/base/text_search.h"
#include "model/experiment.h"
#include "tests/import/launch/told.h"
#include "tests/model/files.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

// A launch beside the files that it names.
struct TrainerLaunch {
    TestFolder folder;
    Translation read(const std::string& line, const TranslateOptions& options = {}) const {
        return translate(folder.write("run.sh", line + "\n"), options);
    }
};

const std::string model_flag = " --model_name_or_path meta-llama/Llama-3.1-8B";

// What is written for it is an experiment that can be forecast.
void check_runs(const Translation& t) {
    INFO(experiment_text(t));
    const std::vector<Override> machine{{"cluster.preset", "dgx-h100"}, {"workload.seq", "512"}};
    CHECK_NOTHROW(read_experiment({"written", experiment_text(t)}, machine));
}

}  // namespace

// The file of a table is read below a file of the Trainer's arguments too; what is JSON where the
// Trainer takes none is named.
TEST_CASE("tables of the Trainer's arguments in files of their own") {
    const TrainerLaunch at;
    at.folder.write("fsdp.json", "{\"activation_checkpointing\": true}");
    const std::string file =
        "model_name_or_path: meta-llama/Meta-Llama-3-8B\nper_device_train_batch_size: 1\n"
        "block_size: 64\nbf16: true\nfsdp: full_shard\nfsdp_config: ";
    const auto read = [&](const std::string& table) {
        return translate(at.folder.write("t.yaml", file + table + "\n"), {});
    };
    check_values(read("fsdp.json"), {{"parallelism.recompute", "full"}});
    CHECK_THAT(lines(read("gone.json").open), Contains("gone.json is not there"));
    CHECK_THAT(lines(at.read("torchrun --nproc_per_node 8 run_clm.py" + model_flag +
                             " --per_device_train_batch_size 1 --parallelism_config "
                             "'{\"tp_size\": 2}'")
                         .problems),
               Contains("parallelism_config"));
}

// 2 nodes x 8 GPUs are 16 replicas; 2 sequences x 4 x 16 = 128.
TEST_CASE("the Trainer's flags under torchrun: batch, length, recompute, kernels, precision") {
    const TrainerLaunch at;
    const auto t = at.read(
        "torchrun --nproc_per_node 8 --nnodes 2 run_clm.py" + model_flag +
        " --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --block_size 2048 "
        "--gradient_checkpointing --bf16 --attn_implementation flash_attention_2 --do_train");
    CHECK(t.format == "Hugging Face's Trainer");
    CHECK(t.framework == "transformers-trainer");
    check_values(t, {{"workload.preset", "llama3-8b"},
                     {"workload.seq", "2048"},
                     {"runtime.attention", "flash2"},
                     {"workload.dtype", "bf16"},
                     {"runtime.optimizer.clip_scales", "true"},
                     {"parallelism.dp", "16"},
                     {"parallelism.micro_batch", "2"},
                     {"parallelism.global_batch", "128"},
                     {"parallelism.recompute", "full"},
                     {"parallelism.zero", "0"},
                     {"runtime.gradients.bucket", "25 MiB"},
                     {"cluster.nodes", "2"},
                     {"cluster.gpus_per_node", "8"}});
    CHECK(t.problems.empty());
    check_runs(t);
}

// bf16 beside fp32 weights is autocast; weights that are loaded in bf16 stay so. Without either the
// products are of the type that is loaded.
TEST_CASE("the type of the weights decides what bf16 means under DistributedDataParallel") {
    const TrainerLaunch at;
    struct Row {
        std::string flags;
        bool autocast;
        std::string dtype;
    };
    for (const Row& row : {Row{"--bf16 --torch_dtype float32", true, "bf16"},
                           {"--bf16 --torch_dtype bfloat16", false, "bf16"},
                           {"--fp16 True --dtype float32", true, "fp16"},
                           {"--dtype float32", false, "fp32"},
                           {"--dtype float32 --tf32 true", false, "tf32"},
                           {"--bf16 False --dtype float16", false, "fp16"},
                           {"--dtype auto", false, "bf16"}}) {
        INFO(row.flags);
        const auto t =
            at.read("torchrun --nproc_per_node=8 train.py" + model_flag + " " + row.flags);
        CHECK(t.framework == "transformers-trainer");
        for (const char* key : {"runtime.autocast", "runtime.optimizer.master_weights"})
            CHECK((value(t, key) == "false") == !row.autocast);
        CHECK(value(t, "workload.dtype") == row.dtype);
        check_runs(t);
    }
    CHECK_THAT(lines(at.read("torchrun --nproc_per_node=8 train.py --bf16" + model_flag).open),
               Contains("--set runtime.autocast=true"));
}

// full_shard is ZeRO 3, shard_grad_op 2 and hybrid_shard 3 within a node; no_shard keeps replicas.
// With mixed precision the shards are fp32 and what is gathered and reduced bf16.
TEST_CASE("FSDP of the Trainer's flags, of its file, and of accelerate's") {
    const TrainerLaunch at;
    at.folder.write("old.json", R"({"reshard_after_forward": "shard_grad_op", "version": 1})");
    at.folder.write("new.json", R"({"fsdp_reshard_after_forward": false, "cpu_offload": true})");
    at.folder.write("two.yaml",
                    "distributed_type: FSDP\nnum_processes: 16\nnum_machines: 2\nmixed_precision: "
                    "bf16\nfsdp_config:\n  fsdp_sharding_strategy: HYBRID_SHARD\n  version: 1\n");
    const std::string run = "torchrun --nproc_per_node 8 train.py --bf16" + model_flag;
    for (const auto& [line, zero] :
         {std::pair<std::string, std::string>{run + " --fsdp \"full_shard auto_wrap\"", "3"},
          {run + " --fsdp true", "3"},
          {run + " --fsdp \"shard_grad_op auto_wrap\"", "2"},
          {run + " --fsdp \"full_shard\" --fsdp_config old.json", "2"},
          {run + " --fsdp --fsdp_config new.json", "2"},
          {"accelerate launch --num_processes 8 --use_fsdp --fsdp_sharding_strategy 1 "
           "--mixed_precision bf16 train.py" +
               model_flag,
           "3"},
          {"accelerate launch --config_file two.yaml train.py" + model_flag, "3"}}) {
        INFO(line);
        const auto t = at.read(line);
        CHECK(t.framework == "transformers");
        check_values(t, {{"parallelism.zero", zero},
                         {"workload.dtype", "bf16"},
                         {"runtime.optimizer.master_weights", "true"},
                         {"runtime.gradients.type", "bf16"}});
        check_runs(t);
    }
    const auto two = at.read("accelerate launch --config_file two.yaml train.py" + model_flag);
    check_values(two, {{"parallelism.shard", "8"},
                       {"parallelism.dp", "16"},
                       {"cluster.nodes", "2"},
                       {"cluster.gpus_per_node", "8"}});
    const auto half = at.read(run + " --fsdp hybrid_shard_zero2");
    CHECK(value(half, "parallelism.zero") == "2");
    CHECK_THAT(lines(half.problems), Contains("HYBRID_SHARD_ZERO2 ("));
    check_runs(half);
    check_runs(at.read(run + " --fsdp hybrid_shard"));
    CHECK_THAT(lines(at.read("python train.py --bf16 --fsdp hybrid_shard" + model_flag).open),
               Contains("parallelism.shard"));
    const auto off = at.read(run + " --fsdp \"no_shard offload\"");
    check_values(off, {{"parallelism.zero", "0"}});
    CHECK_THAT(lines(off.problems), Contains("fsdp_offload_params (") && Contains("host"));
    CHECK_THAT(lines(at.read(run + " --fsdp --fsdp_config new.json").problems),
               Contains("fsdp_cpu_offload ("));
    const auto on_host = at.read(run + " --fsdp \"full_shard offload\"");
    check_values(on_host, {{"run.offload_optimizer", "true"}, {"run.offload_parameters", "true"}});
    CHECK(on_host.problems.empty());
    check_runs(on_host);
}

// trl moves what layers keep, of recomputed ones their input.
TEST_CASE("activations on the host are read with and without checkpoints") {
    const TrainerLaunch at;
    const std::string run = "torchrun --nproc_per_node 8 train.py --bf16 --activation_offloading";
    const auto both = at.read(run + " --gradient_checkpointing" + model_flag);
    check_values(both,
                 {{"run.offload_activations", "overlapped"}, {"parallelism.recompute", "full"}});
    CHECK(both.problems.empty());
    check_runs(both);
    const auto alone = at.read(run + " --gradient_checkpointing false" + model_flag);
    check_values(alone,
                 {{"run.offload_activations", "overlapped"}, {"parallelism.recompute", "none"}});
    CHECK(alone.problems.empty());
    check_runs(alone);
}

// In weights, as DeepSpeed counts them.
TEST_CASE("sizes of DeepSpeed's tensors are read, under stage 3 those of its updates and gathers") {
    const TrainerLaunch at;
    const auto values = [&](int stage) {
        at.folder.write("z.json", R"({"bf16": {"enabled": true}, "train_batch_size": 8,
 "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": )" +
                                      std::to_string(stage) +
                                      R"(, "sub_group_size": 1e8,
 "stage3_max_reuse_distance": 5e7, "contiguous_gradients": false}})");
        return at.read("deepspeed --num_gpus 8 train.py --deepspeed z.json --bf16" + model_flag +
                       " --per_device_train_batch_size 1");
    };
    const auto third = values(3);
    check_values(third, {{"runtime.optimizer.part", "100000000 weights"},
                         {"runtime.reuse_distance", "50000000"},
                         {"runtime.gradients.flat", "false"}});
    check_runs(third);
    at.folder.write("z.json", R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 3,
 "sub_group_size": 0, "reduce_bucket_size": 0, "max_reuse_distance": 7}})");  // full with any
                                                                              // tensor
    check_values(
        at.read("deepspeed --num_gpus 8 train.py --deepspeed z.json --bf16" + model_flag),
        {{"runtime.optimizer.part", "1 weights"}, {"runtime.gradients.bucket", "1 weights"}});
    const auto second = values(2);
    CHECK(value(second, "runtime.gradients.flat") == "false");
    CHECK_FALSE(second.find("runtime.optimizer.part"));
    CHECK_FALSE(second.find("runtime.reuse_distance"));
}

// 8 GPUs x 1 x 16 = 128. reduce_bucket_size "auto" is hidden^2 = 4096^2 elements.
TEST_CASE("DeepSpeed's file is read with what the Trainer puts for auto") {
    const TrainerLaunch at;
    at.folder.write(
        "z2.json",
        R"({"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}, "train_batch_size": "auto",
 "zero_optimization": {"stage": 2, "overlap_comm": true, "reduce_bucket_size": "auto"},
 "gradient_accumulation_steps": "auto", "train_micro_batch_size_per_gpu": "auto"})");
    const std::string line = "deepspeed --num_gpus 8 train.py --deepspeed z2.json --bf16" +
                             model_flag +
                             " --per_device_train_batch_size 1 --gradient_accumulation_steps 16";
    const auto t = at.read(line);
    CHECK(t.framework == "deepspeed-transformers");
    check_values(t, {{"parallelism.zero", "2"},
                     {"runtime.exchanges.gradients", "always"},
                     {"runtime.gradients.bucket", "16777216 weights"},
                     {"parallelism.global_batch", "128"},
                     {"workload.dtype", "bf16"}});
    CHECK(t.problems.empty());
    check_runs(t);
    // the batch of the file alone, and one that contradicts the flags
    at.folder.write("z1.json",
                    R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 1},
 "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2})");
    check_values(at.read("accelerate launch --use_deepspeed --deepspeed_config_file z1.json "
                         "--num_processes 4 train.py" +
                         model_flag),
                 {{"parallelism.micro_batch", "4"},
                  {"parallelism.global_batch", "32"},
                  {"workload.dtype", "fp16"},
                  {"parallelism.zero", "1"}});
    CHECK_THAT(lines(at.read("deepspeed --num_gpus 8 train.py --deepspeed z1.json" + model_flag +
                             " --per_device_train_batch_size 8")
                         .problems),
               Contains("train_micro_batch_size_per_gpu (") && Contains("the Trainer stops there"));
    CHECK_THAT(
        lines(at.read("deepspeed --num_gpus 8 train.py --deepspeed gone.json" + model_flag).open),
        Contains("gone.json is not there"));
    check_values(at.read("accelerate launch --use_deepspeed --zero_stage 3 --num_processes 8 "
                         "--mixed_precision fp16 train.py" +
                         model_flag),
                 {{"parallelism.zero", "3"}, {"workload.dtype", "fp16"}});
}

// A flag above the file: 8 processes on one machine instead of 16 on two. 8 / (tp 2 x cp 2) = 2
// replicas.
TEST_CASE("flags of accelerate count above its file, and degrees of its parallelism_config") {
    const TrainerLaunch at;
    at.folder.write("base.yaml",
                    "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\n"
                    "num_machines: 2\nnum_processes: 16\nmixed_precision: fp16\n");
    const auto t = at.read(
        "accelerate launch --config_file=base.yaml --num_machines 1 --num_processes 8 "
        "--mixed_precision bf16 --use_fsdp --parallelism_config_tp_size 2 "
        "--parallelism_config_cp_size 2 train.py" +
        model_flag + " --per_device_train_batch_size 3");
    check_values(t, {{"cluster.nodes", "1"},
                     {"cluster.gpus_per_node", "8"},
                     {"parallelism.tp", "2"},
                     {"parallelism.cp", "2"},
                     {"parallelism.dp", "2"},
                     {"parallelism.global_batch", "6"},
                     {"workload.dtype", "bf16"},
                     {"parallelism.zero", "3"}});
    CHECK_THAT(
        lines(at.read("accelerate launch --config_file gone.yaml train.py" + model_flag).open),
        Contains("config_file (") && Contains("gone.yaml is not there"));
    CHECK_THAT(lines(at.read("accelerate launch --num_processes 8 --parallelism_config_sp_size 4 "
                             "train.py" +
                             model_flag)
                         .problems),
               Contains("Ulysses"));
    const auto megatron = at.read(
        "accelerate launch --use_megatron_lm --num_processes 8 --megatron_lm_tp_degree 2 "
        "--megatron_lm_pp_degree 2 --megatron_lm_num_micro_batches 4 --mixed_precision bf16 "
        "train.py" +
        model_flag + " --per_device_train_batch_size 2");
    CHECK(megatron.framework == "megatron-core");
    check_values(megatron, {{"parallelism.tp", "2"},
                            {"parallelism.pp", "2"},
                            {"parallelism.dp", "2"},
                            {"parallelism.global_batch", "16"}});
}

// TRL: bf16 over fp32 weights, gradient checkpointing, 1024 tokens (base_config.py,
// model_config.py, sft_config.py). LLaMA-Factory: full recompute, fp32 weights in full tuning. In a
// file of flags, those of the line count above it.
TEST_CASE("TRL, LLaMA-Factory and axolotl have defaults of their own, on the line and in files") {
    const TrainerLaunch at;
    at.folder.write("sft.yaml",
                    "model_name_or_path: meta-llama/Llama-3.1-8B\nmax_length: 300\n"
                    "per_device_train_batch_size: 2\nuse_peft: true\n");
    const auto sft = at.read("trl sft --config sft.yaml --max_length 400 --lora_r 64");
    CHECK(sft.format == "TRL");
    CHECK(sft.framework == "transformers-trainer");
    check_values(sft, {{"workload.preset", "llama3-8b"},
                       {"workload.seq", "400"},
                       {"workload.adapter_rank", "64"},
                       {"workload.dtype", "bf16"},
                       {"parallelism.recompute", "full"}});
    check_values(at.read("accelerate launch --num_processes 8 -m trl.scripts.sft" + model_flag +
                         " --use_peft --lora_target_modules q_proj up_proj"),
                 {{"workload.seq", "1024"},
                  {"workload.adapter_rank", "16"},
                  {"workload.adapter_modules", R"(["query", "up"])"}});
    const auto dpo = at.read("accelerate launch --num_processes 8 dpo.py" + model_flag);
    CHECK(value(dpo, "workload.reference") == "copy");
    CHECK(dpo.problems.empty());
    CHECK_THAT(lines(at.read("accelerate launch --num_processes 8 grpo.py" + model_flag).problems),
               Contains("grpo (") && Contains("second model"));
    at.folder.write("lf.yaml",
                    "model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct\nstage: "
                    "sft\nfinetuning_type: full\ncutoff_len: 256\n"
                    "per_device_train_batch_size: 1\n");
    for (const char* line :
         {"llamafactory-cli train lf.yaml", "torchrun --nproc_per_node 1 src/train.py lf.yaml"}) {
        const auto full = at.read(line);
        CHECK(full.format == "LLaMA-Factory");
        CHECK(full.framework == "transformers-trainer");
        check_values(full, {{"workload.seq", "256"}, {"parallelism.recompute", "full"}});
    }
    at.folder.write("ax.yml",
                    "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 128\n"
                    "micro_batch_size: 3\ngradient_accumulation_steps: 2\nfsdp_version: "
                    "2\nfsdp_config:\n  offload_params: true\n");
    const auto ax = at.read("accelerate launch --num_processes 4 -m axolotl.cli.train ax.yml");
    CHECK(ax.format == "axolotl");
    check_values(
        ax,
        {{"workload.seq", "128"}, {"parallelism.global_batch", "24"}, {"parallelism.zero", "3"}});
    check_values(ax, {{"run.offload_optimizer", "true"}, {"run.offload_parameters", "true"}});
    CHECK_THAT(lines(ax.problems), !Contains("fsdp_offload_params ("));
}

// trl 1.16, dpo_trainer.py: _compute_loss, a forward of a copy, or of the model without its
// adapters, unless precompute_ref_log_probs; kto_trainer.py: the divergence takes one more of both.
// LLaMA-Factory 0.9.5, trainer_utils.py: create_ref_model, finetuning_args.py: use_ref_model;
// axolotl 0.19.0, train.py: setup_reference_model. torchtune 0.6.1: recipes of DPO.
TEST_CASE("losses of preferences have a reference model") {
    const TrainerLaunch at;
    const auto reference = [](const Translation& t) {
        const auto more = value(t, "workload.reference_forwards");
        return value(t, "workload.reference") + (more.empty() ? "" : " x " + more);
    };
    const std::string peft = " --use_peft --lora_r 8 --lora_target_modules q_proj";
    for (const auto& [line, expected] : std::vector<std::pair<std::string, std::string>>{
             {"trl sft" + model_flag, ""},
             {"trl reward" + model_flag, ""},
             {"trl dpo" + model_flag, "copy"},
             {"trl dpo" + model_flag + " --beta 0.2", "copy"},
             {"trl dpo" + model_flag + peft, "base"},
             {"trl dpo" + model_flag + " --precompute_ref_log_probs true", ""},
             {"trl kto" + model_flag, "copy x 3"},
             {"trl kto" + model_flag + peft, "base x 3"},
             {"trl kto" + model_flag + " --loss_type apo_zero_unpaired", "copy"}}) {
        CAPTURE(line);
        const auto t = at.read(line);
        CHECK(reference(t) == expected);
        CHECK(t.problems.empty());
    }
    CHECK(value(at.read("trl reward" + model_flag), "workload.head") == "span");
    const auto file = [&](const std::string& text) {
        return translate(at.folder.write("p.yaml", text), {});
    };
    const std::string ax = "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 128\nrl: ",
                      lf = "model_name_or_path: meta-llama/Meta-Llama-3-8B\ncutoff_len: 128\n"
                           "stage: ",
                      tune =
                          "batch_size: 2\ntokenizer:\n  _component_: x\n  max_seq_len: 128\n"
                          "loss:\n  _component_: torchtune.rlhf.loss.DPOLoss\nmodel:\n"
                          "  _component_: torchtune.models.llama3_1.";
    for (const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
             {ax + "dpo\n", "copy"},
             {ax + "ipo\nadapter: lora\nlora_r: 8\nlora_target_linear: true\n", "base"},
             {ax + "dpo\nadapter: lora\nlora_r: 8\nrl_adapter_ref_model: true\n", "copy"},
             {ax + "kto\n", "copy x 3"},
             {ax + "dpo\nprecompute_ref_log_probs: true\n", ""},
             {ax + "simpo\n", ""},
             {lf + "dpo\nfinetuning_type: full\n", "copy"},
             {lf + "dpo\nfinetuning_type: lora\n", "base"},
             {lf + "dpo\nfinetuning_type: lora\nref_model: m\n", "copy"},
             {lf + "dpo\nfinetuning_type: full\npref_loss: simpo\n", ""},
             {lf + "kto\nfinetuning_type: full\n", "copy x 3"},
             {lf + "rm\nfinetuning_type: full\n", ""},
             {tune + "llama3_1_8b\n", "copy"},
             {tune + "lora_llama3_1_8b\n  lora_attn_modules: [q_proj]\n", "base"}}) {
        CAPTURE(text);
        CHECK(reference(file(text)) == expected);
    }
    CHECK(value(file(lf + "rm\nfinetuning_type: full\n"), "workload.head") == "span");
    check_values(file("base_model: meta-llama/Llama-3.1-8B\nsequence_len: 128\n"
                      "micro_batch_size: 3\nreward_model: true\n"),
                 {{"workload.head", "span"}, {"parallelism.micro_batch", "6"}});
}

// A second model, its generation or a reward is no part of a forecast of supervised training: said,
// whatever tool and key it is. 8-bit states and Adafactor are.
TEST_CASE("training by preferences or rewards is not read as supervised training without a word") {
    const TrainerLaunch at;
    const std::string ax = "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 128\n",
                      lf =
                          "model_name_or_path: meta-llama/Meta-Llama-3-8B\nfinetuning_type: full\n",
                      tune =
                          "model:\n  _component_: torchtune.models.llama3_1.llama3_1_8b\n"
                          "batch_size: 2\ntokenizer:\n  _component_: x\n  max_seq_len: 128\n";
    const auto problems_of = [&](const std::string& text) {
        at.folder.write("p.yaml", text);
        return lines(translate(at.folder.path() + "/p.yaml", {}).problems);
    };
    for (const auto& [text, said] : std::vector<std::pair<std::string, std::string>>{
             {ax + "rl: grpo\n", "without the generation"},
             {ax + "rl: newest\n", "newest: the forecast is without what it does beside"},
             {lf + "stage: ppo\n", "ppo: the forecast is without the generation"},
             {tune + "loss:\n  _component_: torchtune.rlhf.loss.PPOLoss\n", "the generation"},
             {tune + "teacher_model:\n  _component_: y\n", "second model"}}) {
        CAPTURE(text);
        CHECK_THAT(problems_of(text), Contains(said));
    }
    for (const std::string& text :
         {ax + "bf16: true\noptimizer: adamw_bnb_8bit\n", ax + "rl: false\n", lf + "stage: sft\n",
          lf + "stage: pt\n", tune + "optimizer:\n  _component_: torch.optim.AdamW\n"}) {
        CAPTURE(text);
        CHECK(problems_of(text).empty());
    }
    CHECK_THAT(lines(at.read("accelerate launch --num_processes 8 own.py" + model_flag +
                             " --num_generations 8")
                         .problems),
               Contains("num_generations ("));
    at.folder.write("p.yaml", ax + "bf16: full\noptimizer: paged_adamw_8bit\n");
    check_values(translate(at.folder.path() + "/p.yaml", {}), {{"workload.optimizer", "adam8bit"},
                                                               {"run.paged_optimizer", "true"},
                                                               {"workload.dtype", "bf16"}});
    at.folder.write("p.yaml", ax + "bf16: false\nfp16: false\n");
    CHECK(value(translate(at.folder.path() + "/p.yaml", {}), "workload.dtype") == "fp32");
    at.folder.write("p.yaml", tune + "optimizer:\n  _component_: bitsandbytes.optim.AdamW8bit\n");
    check_values(translate(at.folder.path() + "/p.yaml", {}),
                 {{"workload.optimizer", "adam8bit"}, {"run.paged_optimizer", "false"}});
    at.folder.write("p.yaml", tune + "optimizer:\n  _component_: bitsandbytes.optim.PagedAdamW\n");
    check_values(translate(at.folder.path() + "/p.yaml", {}),
                 {{"workload.optimizer", "adam"}, {"run.paged_optimizer", "true"}});
}

TEST_CASE("QLoRA's frozen weights in four bits are read from each tool") {
    const TrainerLaunch at;
    const auto read = [&](const std::string& text) {
        at.folder.write("q.yaml", text);
        return translate(at.folder.path() + "/q.yaml", {});
    };
    const std::string model_line = "meta-llama/Llama-3.1-8B";
    for (const auto& [text, frozen] :
         {std::pair("base_model: " + model_line +
                        "\nsequence_len: 2048\nmicro_batch_size: 1\ndatasets: []\nadapter: "
                        "qlora\nlora_r: 16\nload_in_4bit: true\n",
                    "nf4_double"),
          std::pair("model_name_or_path: " + model_line +
                        "\nstage: sft\nfinetuning_type: lora\ncutoff_len: 2048\n"
                        "quantization_bit: 4\n",
                    "nf4_double")}) {
        CAPTURE(text);
        const auto t = read(text);
        CHECK(value(t, "workload.frozen") == frozen);
        CHECK_THAT(lines(t.problems), !Contains("load_in_4bit") && !Contains("quantization_bit"));
    }
    const auto trl = at.read("accelerate launch --num_processes 8 own.py" + model_flag +
                             " --load_in_4bit true --lora_r 16");
    CHECK(value(trl, "workload.frozen") == "nf4");
    const auto tune = read(
        "model:\n  _component_: torchtune.models.llama3_1.qlora_llama3_1_8b\nbatch_size: 2\n"
        "tokenizer:\n  _component_: torchtune.models.llama3.llama3_tokenizer\n");
    CHECK(value(tune, "workload.frozen") == "nf4_double");
    const auto eight = read("base_model: " + model_line +
                            "\nsequence_len: 2048\nmicro_batch_size: 1\ndatasets: []\n"
                            "load_in_8bit: true\n");
    CHECK(value(eight, "workload.frozen") == "int8");
}

// bitsandbytes' second packing under each tool's own name; beside nothing packed it says nothing.
TEST_CASE("whether the scales of four bits are packed again is read from each tool") {
    const TrainerLaunch at;
    const auto read = [&](const std::string& text) {
        return value(translate(at.folder.write("q.yaml", text), {}), "workload.frozen");
    };
    const std::string name = "meta-llama/Llama-3.1-8B\n",
                      factory = "model_name_or_path: " + name +
                                "stage: sft\ncutoff_len: 2048\ndouble_quantization: ",
                      axolotl = "base_model: " + name +
                                "sequence_len: 2048\nadapter: qlora\nlora_r: 8\nload_in_4bit: "
                                "true\nbnb_config_kwargs:\n  bnb_4bit_use_double_quant: ";
    CHECK(read(factory + "false\nquantization_bit: 4\n") == "nf4");
    CHECK(read(factory + "true\nquantization_bit: 4\n") == "nf4_double");
    CHECK(read(factory + "false\n").empty());
    CHECK(read(axolotl + "false\n") == "nf4");
    CHECK(read(axolotl + "true\n") == "nf4_double");
    CHECK(value(at.read("trl sft --use_peft --load_in_4bit --use_bnb_nested_quant" + model_flag),
                "workload.frozen") == "nf4_double");
}

// transformers 5.24, accelerate 1.15: what has no section is switched on by the launch, what
// contradicts it stops.
TEST_CASE("the launch's precision holds where DeepSpeed's file has no section for it") {
    const TrainerLaunch at;
    at.folder.write("plain.json", R"({"zero_optimization": {"stage": 2}})");
    at.folder.write("half.json",
                    R"({"zero_optimization": {"stage": 2}, "fp16": {"enabled": true}})");
    const std::string run = "deepspeed --num_gpus 8 train.py" + model_flag;
    CHECK(value(at.read(run + " --deepspeed plain.json --bf16"), "workload.dtype") == "bf16");
    CHECK(value(at.read(run + " --deepspeed plain.json --fp16"), "workload.dtype") == "fp16");
    CHECK(value(at.read(run + " --deepspeed plain.json"), "workload.dtype") == "fp32");
    CHECK(value(at.read(run + " --deepspeed half.json"), "workload.dtype") == "fp16");
    CHECK_THAT(
        lines(at.read(run + " --deepspeed half.json --bf16").problems),
        Contains("half.json:1): but bf16 by the launch") && Contains("accelerate stops there"));
    CHECK_THAT(lines(at.read(run + " --deepspeed=half.json --fp16").open), !Contains("half.json"));
}

TEST_CASE("JSON in place of a file's name is read as the file would be") {
    const auto t = TrainerLaunch().read(
        "torchrun --nproc_per_node 8 train.py --bf16 --fsdp full_shard --fsdp_config "
        "'{\"activation_checkpointing\": true, \"reshard_after_forward\": \"shard_grad_op\"}'" +
        model_flag);
    check_values(t, {{"parallelism.recompute", "full"}, {"parallelism.zero", "2"}});
    const auto deep = TrainerLaunch().read(
        "torchrun --nproc_per_node 8 train.py --bf16 --deepspeed "
        "'{\"zero_optimization\": {\"stage\": 1}}'" +
        model_flag);
    check_values(deep, {{"parallelism.zero", "1"}, {"workload.dtype", "bf16"}});
    CHECK(deep.framework == "deepspeed-transformers");
}

// LLaMA-Factory 0.9.5: hparams/parser.py, launcher.py. 2 nodes x 4 x 2 sequences x 8 = 128.
TEST_CASE("words behind LLaMA-Factory's file count above it, and its launcher's variables") {
    const TrainerLaunch at;
    at.folder.write("run.yaml",
                    "model_name_or_path: meta-llama/Llama-3.1-8B\nstage: sft\nfinetuning_type: "
                    "full\nlora_rank: 8\ncutoff_len: 2048\nper_device_train_batch_size: 1\n"
                    "gradient_accumulation_steps: 8\nbf16: true\n");
    const auto t = at.read(
        "FORCE_TORCHRUN=1 NNODES=2 NPROC_PER_NODE=4 llamafactory-cli train run.yaml "
        "cutoff_len=16384 per_device_train_batch_size=2");
    check_values(t, {{"workload.seq", "16384"},
                     {"parallelism.micro_batch", "2"},
                     {"parallelism.global_batch", "128"},
                     {"workload.adapter_rank", "0"},  // full: lora_rank does not count
                     {"cluster.nodes", "2"},
                     {"cluster.gpus_per_node", "4"}});
}

// Without its switch a tool trains all weights, whatever lora_r says.
TEST_CASE("adapters are those of the tool's switch") {
    const TrainerLaunch at;
    const auto axolotl = [&](const std::string& more) {
        return translate(at.folder.write("a.yml",
                                         "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 2048\n"
                                         "micro_batch_size: 1\nlora_r: 32\nlora_alpha: 16\n" +
                                             more),
                         {});
    };
    for (const char* none : {"", "adapter:\n"}) {
        const auto all = axolotl(none);
        CHECK(value(all, "workload.adapter_rank").empty());
        CHECK_THAT(lines(all.ignored), Contains("lora_r") && Contains("adapter asks for no"));
    }
    check_values(axolotl("adapter: lora\nlora_target_modules: [q_proj, up_proj, down_proj]\n"),
                 {{"workload.adapter_rank", "32"},
                  {"workload.adapter_modules", R"(["query", "up", "down"])"}});
    check_values(axolotl("adapter: qlora\nload_in_4bit: true\nlora_target_modules: [q_proj]\n"),
                 {{"workload.adapter_rank", "32"}, {"workload.adapter_modules", R"(["query"])"}});
    const std::string trl = "trl sft --num_processes 8 --lora_r 32" + model_flag;
    CHECK(value(at.read(trl), "workload.adapter_rank").empty());
    CHECK(value(at.read(trl + " --use_peft"), "workload.adapter_rank") == "32");
}

// axolotl 0.19: TRL's hooks move what layers keep; adapters' layers are not computed again then,
// layers that are all trained are, and "legacy" waits for the copies.
TEST_CASE("what axolotl moves to the host is computed again only where all weights are trained") {
    const TrainerLaunch at;
    const auto read = [&](const std::string& more) {
        return translate(at.folder.write("a.yml",
                                         "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 2048\n"
                                         "micro_batch_size: 1\ngradient_checkpointing: true\n" +
                                             more),
                         {});
    };
    const std::string lora = "adapter: lora\nlora_r: 16\nactivation_offloading: ";
    for (const auto& [more, again, moved] :
         {std::tuple(lora + "true\n", "none", "overlapped"),
          std::tuple(lora + "legacy\n", "none", "blocking"),
          std::tuple(lora + "hidden_states\n", "full", "overlapped"),
          std::tuple(lora + "false\n", "full", "none"),
          std::tuple(std::string("activation_offloading: legacy\n"), "full", "blocking")}) {
        CAPTURE(more);
        check_values(read(more),
                     {{"parallelism.recompute", again}, {"run.offload_activations", moved}});
    }
    CHECK_THAT(lines(read(lora + "disk\n").problems), Contains("disk: the forecast is without"));
    check_values(read("attn_implementation: sdpa\ntorch_compile: true\n"),
                 {{"runtime.attention", "flash"}, {"runtime.kernels", "fused"}});
    check_values(read("flash_attention: true\n"), {{"runtime.attention", "flash2"}});
    const std::string cut =
        "plugins:\n  - axolotl.integrations.cut_cross_entropy."
        "CutCrossEntropyPlugin\n";
    check_values(read(cut), {{"runtime.loss.logits", "recomputed"}});
    check_values(read(cut + "cut_cross_entropy: false\n"), {{"runtime.loss.logits", ""}});
    check_values(read(cut + "rl: dpo\n"), {{"runtime.loss.logits", ""}});
}

// Each tool pads a batch to its longest sequence unless it packs them; LLaMA-Factory packs where
// it pretrains.
TEST_CASE("sequences that are not packed are a doubt, whatever tool trains on them") {
    const TrainerLaunch at;
    const auto doubts = [&](const std::string& text) {
        const auto t = translate(at.folder.write("p.yaml", text), {});
        return has(lines(t.open), "a batch of others has that of its longest");
    };
    const std::string ax = "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 2048\n",
                      lf = "model_name_or_path: meta-llama/Llama-3.1-8B\ncutoff_len: 2048\n",
                      tune =
                          "model:\n  _component_: torchtune.models.llama3.llama3_8b\nbatch_size: "
                          "2\ntokenizer:\n  _component_: x\n";
    CHECK(doubts(ax));
    CHECK(doubts(ax + "sample_packing: false\n"));
    CHECK_FALSE(doubts(ax + "sample_packing: true\n"));
    CHECK(doubts(lf + "stage: sft\n"));
    CHECK_FALSE(doubts(lf + "stage: pt\n"));
    CHECK(doubts(lf + "stage: pt\npacking: false\n"));
    CHECK_FALSE(doubts(lf + "stage: sft\nneat_packing: true\n"));
    CHECK(doubts(tune));
    CHECK_FALSE(doubts(tune + "dataset:\n  packed: true\n"));
    CHECK_THAT(lines(translate(at.folder.write("p.yaml", tune), {}).open),
               Contains("sequence length: not stated"));
}

// fms-hf-tuning's jobs have accelerate's flags in a table: nothing of it is read, and it is said.
TEST_CASE("names in tables that nobody reads are problems if they are of what changes a step") {
    const TrainerLaunch at;
    const auto t = translate(at.folder.write("job.json",
                                             R"({"model_name_or_path": "meta-llama/Llama-3.1-8B",
 "per_device_train_batch_size": 4, "accelerate_launch_args": {"fsdp_sharding_strategy": 1,
 "main_process_port": 1234}})"),
                             {});
    CHECK_THAT(lines(t.problems), Contains("accelerate_launch_args.fsdp_sharding_strategy ("));
    CHECK_THAT(lines(t.problems), !Contains("port"));
}

// What they take for granted is theirs whether or not the file is there; of nothing but that, there
// is no experiment.
TEST_CASE("a launch whose file is not there has its own tool's defaults") {
    const TrainerLaunch at;
    for (const auto& [line, more, tool] :
         {std::tuple("llamafactory-cli train gone.yaml", " cutoff_len=64", "LLaMA-Factory"),
          {"axolotl train gone.yml", " --micro-batch-size 2", "axolotl"},
          {"accelerate launch -m axolotl.cli.train gone.yml", " --micro-batch-size 2",
           "axolotl"}}) {
        const auto t = at.read(std::string(line) + more);
        CAPTURE(line);
        CHECK_THAT(complaint([&] { at.read(line); }),
                   Contains("of which it states nothing: ") && Contains("is not there"));
        CHECK(t.format == tool);
        CHECK_THAT(lines(t.open), Contains("is not there"));
    }
}

// finetuning_args.py: lora_target all; it says nothing where no adapters are trained.
TEST_CASE("LLaMA-Factory's adapters are at all linear layers unless told") {
    const TrainerLaunch at;
    const auto on = [&](const std::string& more) {
        return value(translate(at.folder.write("l.yaml",
                                               "model_name_or_path: meta-llama/Llama-3.1-8B\n"
                                               "stage: sft\ncutoff_len: 2048\n" +
                                                   more),
                               {}),
                     "workload.adapter_on");
    };
    CHECK(on("finetuning_type: lora\n") == "linear");
    CHECK(on("lora_target: q_proj,k_proj,v_proj,o_proj\n") == "attention");
    CHECK(on("lora_target: q_proj,v_proj\n").empty());
    CHECK(on("finetuning_type: full\n").empty());
}

// LLaMA-Factory's own files by their names; TRL computes layers again unless told, whatever
// accelerate's file says of its own checkpoints.
TEST_CASE("what a file's name says of offload, and whose checkpoints are off") {
    const TrainerLaunch at;
    const auto factory = [&](const std::string& file) {
        return translate(at.folder.write("run.yaml",
                                         "model_name_or_path: meta-llama/Llama-3.1-8B\nstage: sft\n"
                                         "finetuning_type: full\ncutoff_len: 2048\ndeepspeed: "
                                         "examples/deepspeed/" +
                                             file + "\n"),
                         {});
    };
    check_values(factory("ds_z3_offload_config.json"), {{"parallelism.zero", "3"},
                                                        {"run.offload_optimizer", "true"},
                                                        {"run.offload_parameters", "true"}});
    check_values(factory("ds_z2_offload_config.json"), {{"parallelism.zero", "2"},
                                                        {"run.offload_optimizer", "true"},
                                                        {"run.offload_parameters", ""}});
    check_values(factory("ds_z3_config.json"), {{"run.offload_optimizer", ""}});
    const auto axolotl = [&](const std::string& file) {
        return translate(at.folder.write("ax.yml",
                                         "base_model: meta-llama/Llama-3.1-8B\nsequence_len: "
                                         "2048\ndeepspeed: deepspeed_configs/" +
                                             file + "\n"),
                         {});
    };
    check_values(axolotl("zero2.json"), {{"parallelism.zero", "2"},
                                         {"run.offload_optimizer", "true"},
                                         {"run.offload_parameters", ""}});
    check_values(axolotl("zero3_bf16_cpuoffload_all.json"), {{"parallelism.zero", "3"},
                                                             {"run.offload_optimizer", "true"},
                                                             {"run.offload_parameters", "true"}});
    check_values(axolotl("zero3_bf16.json"), {{"run.offload_optimizer", ""}});
    // a file that is there says itself that it does not
    std::filesystem::create_directory(at.folder.path() + "/deepspeed_configs");
    at.folder.write("deepspeed_configs/zero2.json", R"({"zero_optimization": {"stage": 2}})");
    check_values(axolotl("zero2.json"), {{"parallelism.zero", "2"}, {"run.offload_optimizer", ""}});
    for (const auto& [own, again] : {std::pair{"true", "full"}, {"false", "full"}}) {
        at.folder.write("acc.yaml", std::string("distributed_type: FSDP\nnum_processes: 8\n"
                                                "mixed_precision: bf16\nfsdp_config:\n  "
                                                "fsdp_activation_checkpointing: ") +
                                        own + "\n");
        CHECK(value(at.read("accelerate launch --config_file acc.yaml sft.py" + model_flag),
                    "parallelism.recompute") == again);
    }
    CHECK(value(at.read("accelerate launch --config_file acc.yaml sft.py" + model_flag +
                        " --gradient_checkpointing False"),
                "parallelism.recompute") == "none");
}

TEST_CASE("a least and a most number of nodes are one where they are alike") {
    const TrainerLaunch at;
    const std::string run =
        " --nproc_per_node=8 train.py --per_device_train_batch_size 1" + model_flag;
    CHECK(value(at.read("torchrun --nnodes=2:2" + run), "cluster.nodes") == "2");
    CHECK(value(at.read("torchrun --nnodes 1:4" + run), "cluster.nodes") == "1");
}

TEST_CASE("flags that nobody knows are problems if their names are of what changes a step") {
    const TrainerLaunch at;
    const auto t = at.read("torchrun --nproc_per_node 8 own.py" + model_flag +
                           " --magic_parallel_size 4 --expert_depth 3 --favourite_colour red "
                           "--num_layers 7 --use_kernels --optim lomo "
                           "--config_overrides n_layer=3 --load_in_4bit");
    for (const char* name : {"magic_parallel_size (", "expert_depth (", "num_layers (",
                             "use_kernels (", "optim (", "config_overrides ("})
        CHECK_THAT(lines(t.problems), Contains(name));
    CHECK(t.problems.size() == 6);
    CHECK_THAT(lines(t.ignored), Contains("favourite_colour"));
}

// Of norms, rotary, activation, experts, loss, column_sums and adapters, which transformers
// composes, Liger's kernels leave experts, loss and adapters; the loss is none of them where its
// logits come in chunks. Losses of preferences are made of whole logits.
TEST_CASE("Liger's kernels replace what a model composes, and its loss needs no logits") {
    const TrainerLaunch at;
    const std::string run = "torchrun --nproc_per_node 8 run_clm.py --bf16" + model_flag +
                            " --per_device_train_batch_size 2 --use_liger_kernel ";
    const auto all = at.read(run);
    check_values(all, {{"runtime.composed", R"(["experts", "loss", "adapters"])"},
                       {"runtime.fused_gate", "true"},
                       {"runtime.loss.logits", "chunks"}});
    CHECK(all.problems.empty());
    check_runs(all);
    const auto dpo =
        translate(at.folder.write("d.yaml",
                                  "model_name_or_path: meta-llama/Llama-3.1-8B\ncutoff_len: 512\n"
                                  "stage: dpo\nenable_liger_kernel: true\n"),
                  {});
    check_values(dpo, {{"runtime.composed", R"(["experts", "adapters"])"},
                       {"runtime.loss.fused", "true"},
                       {"runtime.loss.logits", ""}});
    CHECK_THAT(lines(at.read(run + "--liger_kernel_config '{\"rope\": false}'").problems),
               Contains("liger_kernel_config") && Contains("use_liger_kernel"));
    const auto some =
        translate(at.folder.write("a.yml",
                                  "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 512\n"
                                  "micro_batch_size: 1\nliger_rope: true\n"
                                  "liger_fused_linear_cross_entropy: true\n"),
                  {});
    check_values(some, {{"runtime.composed", R"(["norms", "activation", "experts", "loss", )"
                                             R"("column_sums", "adapters"])"},
                        {"runtime.loss.logits", "chunks"}});
    CHECK(some.problems.empty());
}

TEST_CASE("a folder with a config.json beside the script is the model that a launch names") {
    const TrainerLaunch at;
    std::filesystem::create_directories(at.folder.path() + "/local");
    at.folder.write("local/config.json",
                    R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
 "num_attention_heads": 4, "num_hidden_layers": 3, "vocab_size": 1000, "num_key_value_heads": 4})");
    const auto t = at.read("torchrun --nproc_per_node 8 own.py --model_name_or_path local");
    CHECK_THAT(value(t, "workload.preset"), Contains("local/config.json"));
    check_runs(t);
}

TEST_CASE("what installs packages is no launch") {
    const TrainerLaunch at;
    const auto t = at.read("pip install --upgrade trl accelerate\ntrl sft" + model_flag);
    CHECK(t.format == "TRL");
    CHECK_THAT(lines(t.open), !Contains("training commands"));
}

// finetuning_args.py: stage. TRL's DataCollatorForPreference and LLaMA-Factory's
// PairwiseDataCollatorWithPadding make 2n sequences of n examples; KTO's examples are one each. 3
// examples, 4 micro-batches, 8 GPUs: 6 sequences, 6 x 4 x 8 = 192.
TEST_CASE("an example of preferences is two sequences, and the reference's forward is named") {
    const TrainerLaunch at;
    const auto factory = [&](const std::string& stage) {
        at.folder.write("p.yaml",
                        "model_name_or_path: meta-llama/Llama-3.1-8B\nfinetuning_type: lora\n"
                        "do_train: true\ncutoff_len: 512\nper_device_train_batch_size: 3\n"
                        "gradient_accumulation_steps: 4\nstage: " +
                            stage + "\n");
        return at.read("FORCE_TORCHRUN=1 NPROC_PER_NODE=8 llamafactory-cli train p.yaml");
    };
    for (const char* pairs : {"dpo", "rm"})
        check_values(factory(pairs),
                     {{"parallelism.micro_batch", "6"}, {"parallelism.global_batch", "192"}});
    for (const char* single : {"sft", "kto"})
        check_values(factory(single),
                     {{"parallelism.micro_batch", "3"}, {"parallelism.global_batch", "96"}});
    CHECK_THAT(lines(factory("dpo").open), Contains("stage (") && Contains("2 sequences"));
    CHECK(factory("sft").problems.empty());
    const std::string batch = model_flag + " --per_device_train_batch_size 3";
    for (const auto& [program, micro] :
         {std::pair("trl dpo", "6"), {"trl reward", "6"}, {"trl kto", "3"}, {"trl sft", "3"}}) {
        CAPTURE(program);
        CHECK(value(at.read(program + batch), "parallelism.micro_batch") == micro);
    }
    const auto axolotl = [&](const std::string& rl) {
        return value(translate(at.folder.write("a.yml",
                                               "base_model: meta-llama/Llama-3.1-8B\n"
                                               "sequence_len: 512\nmicro_batch_size: 3\n"
                                               "datasets: []\n" +
                                                   rl),
                               {}),
                     "parallelism.micro_batch");
    };
    CHECK(axolotl("rl: dpo\n") == "6");
    CHECK(axolotl("rl: kto\n") == "3");
    CHECK(axolotl("") == "3");
}

// train/sft/workflow.py trains if do_train is on, evaluates if do_eval or do_predict is; tuner.py's
// export_model merges adapters.
TEST_CASE("files and commands of evaluations, answers and conversions are no training") {
    const TrainerLaunch at;
    const auto refused = [&](const std::string& rest) {
        return complaint([&] {
            translate(at.folder.write("e.yaml",
                                      "model_name_or_path: meta-llama/Llama-3.1-8B\n"
                                      "template: llama3\n" +
                                          rest),
                      {});
        });
    };
    CHECK_THAT(refused("stage: sft\ndo_predict: true\n"),
               Contains("e.yaml:4: do_predict: found true, and do_train is not on: LLaMA-Factory "
                        "trains nothing with this file"));
    CHECK_THAT(refused("do_eval: true\ndo_train: false\n"), Contains("do_eval: found true"));
    CHECK_THAT(refused("export_dir: out\n"), Contains("export_dir: found out"));
    CHECK_THAT(refused("infer_backend: huggingface\n"), Contains("infer_backend"));
    CHECK(refused("stage: sft\ndo_predict: true\ndo_train: true\n").empty());
    CHECK(refused("stage: sft\ndo_predict: false\n").empty());
    at.folder.write("a.yml", "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 512\n");
    for (const char* line :
         {"llamafactory-cli export e.yaml", "llamafactory-cli chat e.yaml",
          "axolotl inference a.yml", "axolotl merge-lora a.yml",
          "accelerate launch -m axolotl.cli.inference a.yml", "tune run eleuther_eval --config e"})
        CHECK_THAT(complaint([&] { at.read(line); }), Contains("a command that trains nothing"));
    const auto tune = [&](const std::string& rest) {
        return complaint([&] {
            translate(at.folder.write("t.yaml",
                                      "model:\n  _component_: torchtune.models.llama3.llama3_8b\n"
                                      "batch_size: 8\ntokenizer:\n  _component_: x\n" +
                                          rest),
                      {});
        });
    };
    const std::string optimizer = "optimizer:\n  _component_: torch.optim.AdamW\n";
    CHECK_THAT(tune("tasks: [truthfulqa_mc2]\n"), Contains("t.yaml:6: tasks: found"));
    CHECK_THAT(tune("prompt:\n  user: Tell me a joke.\n"), Contains("prompt.user"));
    CHECK_THAT(tune("quantizer:\n  _component_: x\n"), Contains("torchtune trains nothing"));
    CHECK(tune("quantizer:\n  _component_: x\n" + optimizer).empty());
    CHECK(tune(optimizer).empty());
}

// DeepSpeed's AutoTP over 4 of 16 ranks leaves 4 replicas: 2 x 3 x 4 = 24 sequences (transformers
// 5.24, trainer.py: get_tp_size; accelerate 1.15, accelerator.py).
TEST_CASE("AutoTP of a DeepSpeed file splits the model also below the Trainer") {
    const TrainerLaunch at;
    const auto with = [&](const std::string& ranks) {
        at.folder.write("ds.json",
                        R"({"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": true},
                            "zero_optimization": {"stage": 1}, "tensor_parallel": {"autotp_size": )" +
                            ranks + "}}");
        return at.read("deepspeed --num_gpus 8 --num_nodes 2 train.py --deepspeed ds.json --bf16" +
                       model_flag +
                       " --per_device_train_batch_size 2 --gradient_accumulation_steps 3");
    };
    check_values(
        with("4"),
        {{"parallelism.tp", "4"}, {"parallelism.dp", "4"}, {"parallelism.global_batch", "24"}});
    CHECK(with("4").problems.empty());
    for (const char* off : {"0", "1"})
        check_values(with(off), {{"parallelism.dp", "16"}, {"parallelism.global_batch", "96"}});
}

// peft 0.21.2: target_modules are ends of module names; without any, constants.py has queries and
// values for Llama, the fused projection for GPT-NeoX, and nothing for Qwen3-MoE, where PEFT stops.
TEST_CASE("target_modules say which projections have adapters") {
    const TrainerLaunch at;
    const auto trl = [&](const std::string& targets, const std::string& of = model_flag) {
        return at.read("trl sft --use_peft --lora_r 8" + of + targets);
    };
    const auto on = [](const Translation& t) { return value(t, "workload.adapter_on"); };
    const auto whole = trl(" --lora_target_modules q_proj k_proj v_proj o_proj");
    CHECK(on(whole) == "attention");
    CHECK(whole.problems.empty());
    const auto some = trl(" --lora_target_modules q_proj v_proj");
    CHECK(on(some).empty());
    CHECK(value(some, "workload.adapter_modules") == R"(["query", "value"])");
    CHECK(some.problems.empty());
    for (const char* all :
         {" --lora_target_modules all-linear",
          " --lora_target_modules q_proj k_proj v_proj o_proj gate_proj up_proj down_proj",
          " --lora_target_modules "
          "'.*\\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)$'",
          " --lora_target_modules self_attn.q_proj self_attn.k_proj self_attn.v_proj "
          "self_attn.o_proj mlp.gate_proj mlp.up_proj mlp.down_proj"}) {
        CAPTURE(all);
        CHECK(on(trl(all)) == "linear");
        CHECK(trl(all).problems.empty());
    }
    CHECK_THAT(lines(trl(" --lora_target_modules o_proj lm_head").problems),
               Contains("lm_head: adapters there"));
    CHECK_THAT(lines(trl(" --lora_target_modules model.layers.3.self_attn.q_proj").problems),
               Contains("layers.3") && Contains("some layers alone"));
    CHECK(value(trl(""), "workload.adapter_modules") == R"(["query", "value"])");
    at.folder.write("config.json",
                    R"({"model_type": "gpt_neox", "num_hidden_layers": 2, "hidden_size": 64,
                        "num_attention_heads": 4, "intermediate_size": 256, "vocab_size": 100})");
    const auto neox = trl("", " --model_name_or_path " + at.folder.path());
    CHECK(value(neox, "workload.adapter_modules") == R"(["query", "key", "value"])");
    const auto stops = trl("", " --model_name_or_path Qwen/Qwen3-30B-A3B");
    CHECK_THAT(lines(stops.problems), Contains("PEFT knows none for qwen3-30b"));
    // transformers_weight_conversion.py: experts' stacked matrices get adapters, too
    const auto experts =
        trl(" --lora_target_modules all-linear", " --model_name_or_path Qwen/Qwen3-30B-A3B");
    CHECK_THAT(lines(experts.problems), Contains("stacked matrices of experts"));
    CHECK_THAT(
        lines(
            trl(" --lora_target_modules all-linear --lora_modules_to_save embed_tokens").problems),
        Contains("lora_modules_to_save"));
    CHECK(on(at.read("trl sft" + model_flag)).empty());
    // axolotl adds all linear layers where lora_target_linear is on, and nothing where it is off
    const auto axolotl = [&](const std::string& more) {
        return translate(at.folder.write("a.yml",
                                         "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 64\n"
                                         "micro_batch_size: 1\ndatasets: []\nadapter: lora\n"
                                         "lora_r: 8\n" +
                                             more),
                         {});
    };
    const std::string seven =
        "lora_target_modules: [q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj]\n";
    CHECK(on(axolotl(seven + "lora_target_linear: false\n")) == "linear");
    CHECK(on(axolotl("lora_target_linear: true\n")) == "linear");
    // layers of the text alone; peft 0.21.2, tuners_utils.py: re.fullmatch of an expression
    const std::string every =
        "lora_target_modules: 'model.language_model.layers.[\\d]+."
        "(mlp|cross_attn|self_attn).(up|down|gate|q|k|v|o)_proj'\n";
    CHECK(on(axolotl(every)) == "linear");
    CHECK(axolotl(every).problems.empty());
    const auto other = axolotl(
        "lora_target_modules: 'model.vision.layers.[\\d]+.(k|v)_proj|"
        ".*\\.layers\\.(3|7)\\.q_proj|.*\\.mlp\\.(up|down)_proj'\n");
    CHECK(value(other, "workload.adapter_modules") == R"(["up", "down"])");
    CHECK_THAT(lines(other.problems),
               Contains("k_proj, v_proj, layers.3.q_proj, ..: adapters there"));
    CHECK_THAT(lines(axolotl("lora_target_modules: '(?!x).*'\n").problems),
               Contains("an expression that is not read"));
    CHECK(axolotl("lora_target_linear: true\n").problems.empty());
    CHECK_THAT(lines(axolotl("").problems), Contains("no projection is named"));
}

// training_args.py: accelerator_config; TRL: model_init_kwargs. Both are JSON on a line.
TEST_CASE("JSON on the line is read below its flag") {
    const TrainerLaunch at;
    const std::string run = "torchrun --nproc_per_node 8 train.py" + model_flag;
    CHECK_THAT(lines(at.read(run + " --accelerator_config '{\"split_batches\": true}'").problems),
               Contains("split_batches") && Contains("each rank gets its share"));
    CHECK(at.read(run + " --accelerator_config '{\"split_batches\": false}'").problems.empty());
    CHECK(value(at.read("trl sft" + model_flag +
                        " --model_init_kwargs '{\"attn_implementation\": \"eager\"}'"),
                "runtime.attention") == "plain");
}

// Files of TRL's programs stand alone, too: model_config.py has use_peft and lora_r 16; DPO, KTO
// and GRPO have beta.
TEST_CASE("a file of TRL's says whether it trains adapters, in how many bits, and on preferences") {
    const TrainerLaunch at;
    const auto told = [&](const std::string& more) {
        return translate(at.folder.write("recipe.yaml",
                                         "model_name_or_path: mistralai/Mistral-7B-v0.1\n"
                                         "bf16: true\nmax_length: 2048\n"
                                         "per_device_train_batch_size: 8\n" +
                                             more),
                         {});
    };
    const std::string rank = "workload.adapter_rank";
    CHECK(value(told(""), rank).empty());
    CHECK(value(told("use_peft: false\nlora_r: 32\n"), rank).empty());
    CHECK(value(told("use_peft: true\nlora_r: 32\n"), rank) == "32");
    CHECK(value(told("use_peft: true\n"), rank) == "16");
    CHECK(value(told("use_peft: yes\nlora_r: 32\n"), rank) == "32");
    CHECK(value(told("lora_r: 32\n"), rank) == "32");
    const auto frozen = [&](const std::string& bits) {
        return value(told("use_peft: true\n" + bits), "workload.frozen");
    };
    CHECK(frozen("load_in_4bit: true\n") == "nf4");
    CHECK(frozen("load_in_8bit: true\n") == "int8");
    CHECK(frozen("load_in_4bit: false\nload_in_8bit: false\n") == "stored");
    CHECK(told("").problems.empty());
    for (const char* more : {"beta: 0.01\n", "num_labels: 1\n", "num_generations: 8\n"})
        CHECK_THAT(lines(told(more).problems), Contains("the forecast is without"));
    CHECK(told("beta: 0.0\n").problems.empty());
    CHECK(value(told("use_flash_attention_2: true\n"), "runtime.attention") == "flash2");
    CHECK_THAT(lines(told("packing: false\n").open), Contains("sequences: all of the stated"));
    CHECK_THAT(lines(told("packing: true\n").open), !Contains("sequences: all of the stated"));
}

// axolotl 0.19's examples/distributed-parallel: 2 replicas of 4 shards, each of 2 ranks.
TEST_CASE("axolotl's replicas of shards are groups") {
    const TrainerLaunch at;
    const auto t = translate(
        at.folder.write("h.yaml",
                        "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 64\nfsdp_version: 2\n"
                        "micro_batch_size: 1\ndp_shard_size: 4\ndp_replicate_size: 2\n"
                        "tensor_parallel_size: 2\n"),
        {});
    check_values(t,
                 {{"parallelism.shard", "4"}, {"parallelism.zero", "3"}, {"parallelism.tp", "2"}});
    CHECK(t.problems.empty());
}

// axolotl 0.19's examples/archived/dbrx: one of both switches, or the Trainer stops.
TEST_CASE("layers that FSDP wraps for recompute run again, though the program's switch is off") {
    const TrainerLaunch at;
    for (const char* off : {"", "gradient_checkpointing: false\n"})
        for (const auto& [text, expected] : {std::pair("true", "full"), {"false", "none"}}) {
            CAPTURE(off, text);
            for (const char* head :
                 {"base_model: meta-llama/Llama-3.1-8B\nsequence_len: 64\nmicro_batch_size: 1\n",
                  "model_name_or_path: meta-llama/Llama-3.1-8B\nmax_length: 64\n"
                  "per_device_train_batch_size: 1\n"})
                CHECK(value(translate(
                                at.folder.write("f.yaml", std::string(head) + off +
                                                              "fsdp: [full_shard, auto_wrap]\n"
                                                              "fsdp_config:\n"
                                                              "  fsdp_activation_checkpointing: " +
                                                              text + "\n"),
                                {}),
                            "parallelism.recompute") == expected);
        }
}

// PyYAML reads yes, no, on and off as truth values; accelerate's mixed_precision has a word "no".
TEST_CASE("truth values of YAML 1.1 are those") {
    const TrainerLaunch at;
    const auto precision = [&](const std::string& line) {
        return value(translate(at.folder.write("a.yml",
                                               "base_model: meta-llama/Llama-3.1-8B\n"
                                               "sequence_len: 64\nmicro_batch_size: 1\n"
                                               "datasets: []\n" +
                                                   line),
                               {}),
                     "workload.dtype");
    };
    for (const char* on : {"true", "yes", "on", "True"})
        CHECK(precision("bf16: " + std::string(on) + "\n") == "bf16");
    for (const char* off : {"false", "no", "off", "No"})
        CHECK(precision("bf16: " + std::string(off) + "\n") == "fp32");
    const auto recompute = [&](const std::string& word) {
        return value(translate(at.folder.write("a.yml",
                                               "base_model: meta-llama/Llama-3.1-8B\n"
                                               "sequence_len: 64\nmicro_batch_size: 1\n"
                                               "datasets: []\ngradient_checkpointing: " +
                                                   word + "\n"),
                               {}),
                     "parallelism.recompute");
    };
    CHECK(recompute("on") == "full");
    CHECK(recompute("off") == "none");
    const auto mixed = translate(at.folder.write("acc.yaml",
                                                 "compute_environment: LOCAL_MACHINE\n"
                                                 "distributed_type: MULTI_GPU\n"
                                                 "num_processes: 8\nmixed_precision: 'no'\n"),
                                 {});
    CHECK(mixed.problems.empty());
}
