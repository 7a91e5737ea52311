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
                  {"workload.adapter_on", "linear"}});
    CHECK_THAT(lines(at.read("accelerate launch --num_processes 8 dpo.py" + model_flag).problems),
               Contains("dpo (") && Contains("second model"));
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
             {ax + "rl: dpo\n", "dpo: the forecast is without the forward of a second model"},
             {ax + "rl: grpo\n", "without the generation"},
             {ax + "rl: newest\n", "newest: the forecast is without what it does beside"},
             {lf + "stage: ppo\n", "ppo: the forecast is without the generation"},
             {lf + "stage: rm\n", "without a head of one value"},
             {tune + "reference_checkpointer:\n  _component_: y\n", "second model"},
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
    CHECK_THAT(lines(eight.problems), Contains("load_in_8bit"));
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
                 {{"workload.adapter_rank", "32"}, {"workload.adapter_on", "linear"}});
    check_values(axolotl("adapter: qlora\nload_in_4bit: true\nlora_target_modules: [q_proj]\n"),
                 {{"workload.adapter_rank", "32"}, {"workload.adapter_on", "attention"}});
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
    CHECK_THAT(lines(read("plugins:\n  - axolotl.integrations.cut_cross_entropy."
                          "CutCrossEntropyPlugin\n")
                         .problems),
               Contains("without a loss that keeps no logits"));
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

// What they take for granted is theirs whether or not the file is there.
TEST_CASE("a launch whose file is not there has its own tool's defaults") {
    const TrainerLaunch at;
    for (const auto& [line, tool] :
         {std::pair("llamafactory-cli train gone.yaml", "LLaMA-Factory"),
          {"axolotl train gone.yml", "axolotl"},
          {"accelerate launch -m axolotl.cli.train gone.yml", "axolotl"}}) {
        const auto t = at.read(line);
        CAPTURE(line);
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
    CHECK(on("lora_target: q_proj,v_proj\n") == "attention");
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
                           "--num_layers 7 --use_liger_kernel --optim lomo "
                           "--config_overrides n_layer=3 --load_in_4bit");
    for (const char* name : {"magic_parallel_size (", "expert_depth (", "num_layers (",
                             "use_liger_kernel (", "optim (", "config_overrides ("})
        CHECK_THAT(lines(t.problems), Contains(name));
    CHECK(t.problems.size() == 6);
    CHECK_THAT(lines(t.ignored), Contains("favourite_colour"));
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
