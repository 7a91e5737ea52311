// Launches of Megatron's relatives, NeMo and torchtitan, and scripts that start others.

#include <filesystem>

#include <catch2/catch.hpp>

#include "import/launch/translate.h"
#include "import/launch/translation.h"
#include "measured/read.h"
#include "model/transformer/counts.h"
#include "tests/import/launch/told.h"
#include "tests/model/files.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

const std::string sizes =
    " --num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
    "--max-position-embeddings 32 --micro-batch-size 1 "
    "--global-batch-size 16 --vocab-size 1000 --bf16 ";

Translation read(const std::string& text, const TranslateOptions& options = {},
                 const std::string& name = "run.sh") {
    const TestFolder folder;
    return translate(folder.write(name, text), options);
}

Translation deepspeed_line(const std::string& flags) {
    return read("deepspeed --num_nodes 2 --num_gpus 8 pretrain_gpt.py --deepspeed" + sizes + flags +
                "\n");
}

}  // namespace

// megatron/arguments.py at 4efb479d: top 1, every second layer, capacity 1.0 unless stated; one
// expert is a dense layer.
TEST_CASE("experts of Megatron-DeepSpeed are read with its own flags and defaults") {
    check_values(deepspeed_line("--num-experts 8"), {{"workload.moe.experts", "8"},
                                                     {"workload.moe.top_k", "1"},
                                                     {"workload.moe.interval", "2"},
                                                     {"workload.moe.capacity_factor", "1.0"},
                                                     {"parallelism.ep", "1"}});
    check_values(deepspeed_line("--num-experts 8 8 8 8 --topk 2 --expert-interval 1 "
                                "--moe-expert-parallel-size 4 --disable-moe-token-dropping"),
                 {{"workload.moe.experts", "8"},
                  {"workload.moe.top_k", "2"},
                  {"workload.moe.interval", "1"},
                  {"workload.moe.capacity_factor", "0"},
                  {"parallelism.ep", "4"}});
    const auto pyramid = deepspeed_line("--num-experts 8 16 --mlp-type residual");
    check_values(pyramid, {{"workload.moe.experts", "16"}, {"workload.moe.shared_experts", "1"}});
    CHECK_THAT(lines(pyramid.problems),
               Contains("as many in each layer with experts: 16") && Contains("mlp_type ("));
    CHECK_THAT(lines(deepspeed_line("--num-experts 8 --tensor-model-parallel-size 2").problems),
               Contains("each tensor-parallel rank holds whole experts"));
    CHECK(deepspeed_line(
              "--num-experts 8 --tensor-model-parallel-size 2 --enable-expert-tensor-parallelism")
              .problems.empty());
    const auto dense = deepspeed_line("--num-experts 1 --moe-expert-parallel-size 1 --topk 2");
    check_values(
        dense, {{"workload.moe.experts", ""}, {"workload.moe.top_k", ""}, {"parallelism.ep", ""}});
    CHECK(dense.problems.empty());
    CHECK_THAT(lines(dense.ignored), Contains("one expert is a layer without experts"));
}

// 16 GPUs in groups of 4 that share a sequence: 4 replicas.
TEST_CASE("Megatron-DeepSpeed's sequence parallelism, schedule and partition") {
    const auto heads = deepspeed_line("--ds-sequence-parallel-size 4");
    check_values(heads, {{"parallelism.cp", "4"}, {"parallelism.dp", "4"}});
    CHECK_THAT(lines(heads.problems), Contains("exchanges of heads (Ulysses)"));
    check_values(deepspeed_line("--enable-zbh1-pipeline --pipeline-model-parallel-size 4"),
                 {{"parallelism.schedule", "zb-h1"}});
    CHECK(value(deepspeed_line("--enable-zbh1-pipeline"), "parallelism.schedule").empty());
    CHECK_THAT(lines(deepspeed_line("--enable-zbh1-pipeline --enable-zbh1-exact-semantics "
                                    "--pipeline-model-parallel-size 4")
                         .problems),
               Contains("enable_zbh1_exact_semantics ("));
    CHECK_THAT(
        lines(deepspeed_line("--no-pipeline-parallel --pipeline-model-parallel-size 4").problems),
        Contains("no_pipeline_parallel ("));
    // 10 layers and both ends over 4 stages are 3 each; over 5 stages they do not divide.
    const std::string partition =
        "--num-layers 10 --pp-partition-method \"type:transformer|embedding\" "
        "--pipeline-model-parallel-size ";
    check_values(deepspeed_line(partition + "4"), {{"parallelism.stage_layers", "[2, 3, 3, 2]"}});
    CHECK_THAT(lines(deepspeed_line(partition + "5").problems),
               Contains("12 layers with embedding and loss do not divide over 5 stages"));
    CHECK_THAT(
        lines(deepspeed_line("--pp-partition-method parameters --pipeline-model-parallel-size 4")
                  .problems),
        Contains("cuts between equal numbers of layers"));
    // Quotes in a variable that a second shell takes off.
    const auto twice = read(
        "A=\"--pp-partition-method 'type:transformer|embedding' --num-layers 10 "
        "--pipeline-model-parallel-size 4 --pad-vocab-size-to 1024\"\n"
        "srun bash -c \"deepspeed pretrain_gpt.py --deepspeed" +
        sizes + "$A\"\n");
    check_values(twice, {{"parallelism.stage_layers", "[2, 3, 3, 2]"}, {"workload.vocab", "1024"}});
    CHECK(value(deepspeed_line("--vocab-size 1000 --pad-vocab-size-to 1408"), "workload.vocab") ==
          "1408");
}

// 3e6 elements; the stage is the configuration's, the batch the flag's.
TEST_CASE(
    "what DeepSpeed's configuration of a launch says is taken, whether written by the script or "
    "beside it") {
    const std::string json =
        "{ \"zero_optimization\": { \"stage\": 2, \"overlap_comm\": true, \"reduce_bucket_size\": "
        "3e6, \"round_robin_gradients\": true },\n"
        "  \"train_batch_size\": 64, \"communication_data_type\": \"fp32\" }\n";
    const std::string launch =
        "deepspeed --num_nodes 1 --num_gpus 8 pretrain_gpt.py --deepspeed "
        "--deepspeed_config=own.json" +
        sizes;
    const TestFolder folder;
    folder.write("own.json", json);
    for (const auto& t :
         {read("cat <<EOT > own.json\n" + json + "EOT\n" + launch + "--zero-stage 1\n"),
          translate(folder.write("run.sh", launch + "--zero-stage 1\n"), {})}) {
        check_values(t, {{"parallelism.zero", "2"},
                         {"runtime.exchanges.gradients", "always"},
                         {"runtime.gradients.bucket", "3000000 weights"},
                         {"runtime.gradients.type", "fp32"},
                         {"parallelism.global_batch", "16"}});
        CHECK_THAT(lines(t.problems), Contains("parallelism.zero is 1 by a flag (") &&
                                          Contains("the forecast has the latter") &&
                                          Contains("parallelism.global_batch is 16 by a flag"));
        CHECK_THAT(lines(t.ignored), Contains("zero_optimization.round_robin_gradients ("));
        CHECK_THAT(lines(t.defaulted), !Contains("parallelism.overlap ="));
    }
    // The batch stands in the script's third line.
    CHECK_THAT(lines(read("cat <<EOT > own.json\n" + json + "EOT\n" + launch + "\n").problems),
               Contains("run.sh:3)"));
    CHECK_THAT(lines(read(launch + "\n").open),
               Contains("own.json is not there: stage, buckets and overlap"));
}

// Megatron-LM 2.5 and 2.6 had no granularity: the method was the switch, of one layer at a time
// unless stated.
TEST_CASE("activation checkpoints of 2020 to 2022") {
    const auto with = [](const std::string& flags) {
        return read("torchrun --nproc_per_node 8 pretrain_gpt.py" + sizes + flags + "\n");
    };
    check_values(with("--activations-checkpoint-method uniform"),
                 {{"parallelism.recompute", "full"}, {"parallelism.recompute_layers", ""}});
    check_values(
        with("--activations-checkpoint-method block --activations-checkpoint-num-layers 3"),
        {{"parallelism.recompute", "full"}, {"parallelism.recompute_layers", "3"}});
    check_values(with("--activations-checkpoint-method block"),
                 {{"parallelism.recompute_layers", "1"}});
    CHECK_THAT(
        lines(with("--activations-checkpoint-method uniform --activations-checkpoint-num-layers 2")
                  .problems),
        Contains("2 layers are computed again together"));
    CHECK_THAT(lines(with("--checkpoint-activations --checkpoint-num-layers 4").problems),
               Contains("checkpoint_num_layers (") && Contains("4 layers"));
    CHECK(with("--checkpoint-activations --checkpoint-num-layers 1").problems.empty());
    CHECK_THAT(
        lines(with("--checkpoint-activations --distribute-checkpointed-activations").problems),
        Contains("distribute_checkpointed_activations ("));
}

// A layer of 64: 4 x 64 x 64 of attention; the gate adds 64 x 64, and its bias of 64, in each of 8
// layers.
TEST_CASE("an attention output gate doubles the projection of the queries") {
    const auto count = [](const std::string& flags) {
        const auto t = read("torchrun --nproc_per_node 8 pretrain_gpt.py" + sizes + flags + "\n");
        return count_parameters(
                   read_experiment({"run.sh", experiment_text(t)},
                                   std::vector<Override>{{"cluster.preset", "dgx-h100"}})
                       .workload)
            .attention;
    };
    CHECK(count("--attention-output-gate") - count("") == Approx(8 * (64 * 64 + 64)));
    CHECK(count("--attention-output-gate --disable-bias-linear") - count("--disable-bias-linear") ==
          Approx(8 * 64 * 64));
}

// ffn_hidden_size of arguments.py: 2/3 of 4h in multiples of 64 with --swiglu alone: 64 x 4 x 2 / 3
// = 170 -> 128.
TEST_CASE("the width of a gated feed-forward is smaller with swiglu alone") {
    const auto ffn = [](const std::string& flags) {
        return value(read("torchrun --nproc_per_node 8 pretrain_gpt.py" + sizes + flags + "\n"),
                     "workload.ffn");
    };
    CHECK(ffn("--swiglu") == "128");
    CHECK(ffn("--quick-geglu") == "256");
    CHECK(ffn("--glu-activation geglu") == "256");
}

// A dense model has no experts to split; a recipe may have some.
TEST_CASE("experts whole on tensor-parallel ranks, where a recipe has the experts") {
    const TestFolder folder;
    const auto bridge = [&](const std::string& more) {
        return translate(folder.write("run.yaml",
                                      "train:\n  micro_batch_size: 1\n  global_batch_size: "
                                      "16\nmodel:\n  tensor_model_parallel_size: 2\n" +
                                          more),
                         {});
    };
    CHECK(value(bridge("  expert_tensor_parallel_size: 1\n"), "runtime.experts.tensor_parallel") ==
          "none");
    CHECK(value(bridge("  expert_tensor_parallel_size: 2\n"), "runtime.experts.tensor_parallel") ==
          "all");
    CHECK(value(bridge(""), "runtime.experts.tensor_parallel").empty());
    const auto dense = read("torchrun --nproc_per_node 8 pretrain_gpt.py" + sizes +
                            "--tensor-model-parallel-size 2 --expert-tensor-parallel-size 1\n");
    CHECK(value(dense, "runtime.experts.tensor_parallel").empty());
}

TEST_CASE("what comes from a command is named, and --env says it instead") {
    const std::string script =
        "G=$(nvidia-smi -L | wc -l)\nDP=$((G / 2))\nB=$((64 / DP))\ntorchrun pretrain_gpt.py" +
        sizes + "--tensor-model-parallel-size 2 --micro-batch-size $B\n";
    CHECK_THAT(complaint([&] { read(script); }), Contains("micro_batch_size: found no value") &&
                                                     Contains("G = $(nvidia-smi -L | wc -l) (") &&
                                                     Contains("set it with --env"));
    TranslateOptions options;
    options.environment = {{"G", "16"}};
    const auto said = read(script, options);
    CHECK(value(said, "parallelism.micro_batch") == "8");  // 64 / (16 / 2)
    CHECK(said.open.size() == 1);                          // the GPUs of the launch
    options.environment = {{"DP", "4"}};
    CHECK(value(read(script, options), "parallelism.micro_batch") == "16");
    CHECK_THAT(
        complaint([&] {
            read("torchrun pretrain_gpt.py" + sizes + "--micro-batch-size $((64 / $REPLICAS))\n");
        }),
        Contains("REPLICAS ("));
    CHECK_THAT(complaint([&] {
                   read("H=($(cat hosts))\nN=${#H[@]}\ntorchrun pretrain_gpt.py" + sizes +
                        "--micro-batch-size $N\n");
               }),
               Contains("H = $(cat hosts)"));
}

TEST_CASE("scripts that read or start another, by whatever name of its folder") {
    const TestFolder folder;
    namespace fs = std::filesystem;
    fs::create_directories(folder.path() + "/jobs/parts");
    folder.write("jobs/parts/common.sh",
                 "TP=2\nFLAGS=\"" + sizes + "--tensor-model-parallel-size $TP\"\n");
    folder.write(
        "jobs/parts/train.sh",
        "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=8\nsrun python pretrain_gpt.py" +
            sizes +
            "--pipeline-model-parallel-size ${PP:-1} --tensor-model-parallel-size ${1:-1}\n");
    const auto tp = [&](const std::string& text, const std::string& name = "jobs/run.sh") {
        INFO(text);
        return translate(folder.write(name, "#!/bin/bash\n" + text + "\n"), {});
    };
    const std::string launch = "torchrun --nproc_per_node 8 pretrain_gpt.py $FLAGS";
    for (const char* source :
         {"source parts/common.sh", ". ./parts/common.sh", "source $(pwd)/parts/common.sh",
          "source `pwd`/parts/common.sh", "source ${PWD}/parts/common.sh",
          "source \"$(dirname \"$0\")/parts/common.sh\"",
          "D=$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\nsource $D/parts/common.sh",
          "source $(dirname $(realpath $0))/parts/common.sh", "source ${0%/*}/parts/common.sh",
          "source ${BASH_SOURCE[0]%/*}/parts/common.sh",
          "D=$(dirname \"$(readlink -f \"${BASH_SOURCE[0]}\")\")\n. $D/parts/common.sh",
          "cd parts\nsource common.sh", "cd \"$(dirname \"$0\")\"\nsource parts/common.sh",
          "source $(pwd)/jobs/parts/common.sh", "source jobs/parts/common.sh",
          "source $ROOT/jobs/parts/common.sh",
          "D=$(cd \"$(dirname \"$0\")/..\" >/dev/null 2>&1 && pwd)\nsource "
          "$D/jobs/parts/common.sh"})
        CHECK(value(tp(std::string(source) + "\n" + launch), "parallelism.tp") == "2");
    for (const char* start :
         {"bash parts/train.sh 4", "bash -x $(pwd)/parts/train.sh 4", "sh ./parts/train.sh 4",
          "sbatch parts/train.sh 4", "sbatch -N 4 -J x parts/train.sh 4", "./parts/train.sh 4",
          "nohup bash parts/train.sh 4 > log 2>&1 &",
          "srun --nodes=4 --ntasks-per-node=8 bash parts/train.sh 4", "cd parts && bash train.sh 4",
          "exec bash \"$(dirname \"$0\")/parts/train.sh\" 4"}) {
        const auto t = tp(start);
        check_values(t, {{"parallelism.tp", "4"},
                         {"parallelism.pp", "1"},
                         {"cluster.nodes", "4"},
                         {"cluster.gpus_per_node", "8"}});
        CHECK_THAT(t.find("parallelism.tp")->at, Contains("train.sh:4"));
    }
    // sbatch's options come before its script's lines; what is not exported is not seen.
    check_values(tp("sbatch --nodes=2 parts/train.sh 4"), {{"cluster.nodes", "2"}});
    check_values(tp("PP=2\nbash parts/train.sh 4"), {{"parallelism.pp", "1"}});
    for (const char* exported :
         {"export PP=2\nbash parts/train.sh 4", "PP=2 bash parts/train.sh 4",
          "PP=2\nexport PP\nbash parts/train.sh 4", "set -a\nPP=2\nbash parts/train.sh 4"})
        check_values(tp(exported), {{"parallelism.pp", "2"}});
    CHECK_THAT(complaint([&] { tp("sbatch parts/gone.sh"); }),
               Contains("launches no training") && Contains("parts/gone.sh (") &&
                   Contains("is not there: what it launches is not known"));
    CHECK_THAT(lines(tp("source gone.sh\n" + launch + sizes).open),
               Contains("gone.sh (") && Contains("what it sets is not known"));
}

// NeMo 1.23: the llama program's own configuration; 3 x 4 GPUs / tp 2 = 6 replicas.
TEST_CASE("NeMo 1's programs are read above their own configurations") {
    const std::string overrides =
        " trainer.devices=4 trainer.num_nodes=3 trainer.precision=bf16 model.micro_batch_size=1 "
        "model.global_batch_size=24 "
        "model.tensor_model_parallel_size=2 ";
    const std::string own =
        "model.num_layers=6 model.hidden_size=512 model.ffn_hidden_size=1536 "
        "model.num_attention_heads=8 model.encoder_seq_length=256";
    const auto llama =
        read("python /opt/NeMo/examples/nlp/language_modeling/megatron_llama_pretraining.py" +
             overrides + own + " model.optim.name=fused_adam\n");
    CHECK(llama.framework == "nemo");
    check_values(llama, {{"workload.gated", "true"},
                         {"workload.norm", "rmsnorm"},
                         {"workload.positions", "rotary"},
                         {"workload.linear_bias", "false"},
                         {"workload.tied", "false"},
                         {"workload.dropout", "0"},
                         {"workload.max_positions", "256"},
                         {"workload.layers", "6"},
                         {"workload.ffn", "1536"},
                         {"parallelism.zero", "0"},
                         {"runtime.exchanges.gradients", "never"},
                         {"parallelism.dp", "6"},
                         {"cluster.nodes", "3"},
                         {"cluster.gpus_per_node", "4"}});
    CHECK_THAT(lines(llama.defaulted), Contains("workload.norm = rmsnorm"));
    // distributed_fused_adam
    CHECK(
        value(read("torchrun --nproc_per_node 4 megatron_llama_pretraining.py" + overrides + "\n"),
              "parallelism.zero") == "1");
    check_values(
        read("torchrun --nproc_per_node=4 megatron_gpt_pretraining.py" + overrides + own + "\n"),
        {{"workload.gated", "false"},
         {"workload.norm", "layernorm"},
         {"workload.positions", "learned"},
         {"workload.linear_bias", "true"},
         {"workload.tied", "true"},
         {"workload.dropout", "0.1"}});
    const auto lora =
        read("srun python -u megatron_gpt_finetuning.py" + overrides +
             "++model.peft.peft_scheme=lora model.peft.lora_tuning.adapter_dim=8 "
             "model.data.train_ds.max_seq_length=512 model.restore_from_path=own.nemo\n");
    check_values(lora, {{"workload.adapter_rank", "8"},
                        {"workload.seq", "512"},
                        {"workload.dropout", "0"},
                        {"parallelism.zero", "0"},
                        {"parallelism.dp", "6"}});
    CHECK(value(read("python megatron_gpt_finetuning.py" + overrides +
                     "model.peft.peft_scheme=lora\n"),
                "workload.adapter_rank") == "32");
    CHECK(value(read("python megatron_gpt_finetuning.py" + overrides +
                     "model.peft.peft_scheme=null\n"),
                "workload.adapter_rank")
              .empty());
    CHECK_THAT(
        complaint([&] { read("python megatron_t5_pretraining.py" + overrides + own + "\n"); }),
        Contains("megatron_t5_pretraining.py"));
    CHECK_THAT(lines(read("python megatron_own_pretraining.py" + overrides + own + "\n").open),
               Contains("its configuration is not known here"));
    const TestFolder folder;
    std::filesystem::create_directories(folder.path() + "/conf");
    folder.write("conf/own.yaml",
                 "trainer:\n  devices: 8\n  num_nodes: 1\nmodel:\n  mcore_gpt: true\n  num_layers: "
                 "5\n  hidden_size: 64\n  num_attention_heads: 4\n  micro_batch_size: 1\n"
                 "  encoder_seq_length: 32\n  normalization: rmsnorm\n");
    const auto named =
        translate(folder.write("run.sh",
                               "python megatron_gpt_pretraining.py --config-path=conf "
                               "--config-name=own model.tensor_model_parallel_size=4\n"),
                  {});
    check_values(named, {{"workload.layers", "5"},
                         {"workload.norm", "rmsnorm"},
                         {"parallelism.tp", "4"},
                         {"parallelism.dp", "2"}});
    // apex's optimizer overlaps its gradients unless told
    const auto synced = [&](const std::string& more) {
        return value(read("python megatron_gpt_pretraining.py" + overrides +
                          " model.optim.name=distributed_fused_adam" + more + "\n"),
                     "runtime.exchanges.gradients");
    };
    CHECK(synced("") == "always");
    CHECK(synced(" model.optim.overlap_grad_sync=False") == "never");
    // a folder of the user's own, which is elsewhere
    CHECK_THAT(lines(read("python megatron_gpt_pretraining.py --config-path=/mine/configs "
                          "--config-name=megatron_gpt_config" +
                          overrides + "\n")
                         .open),
               Contains("/mine/configs is not there"));
    CHECK_THAT(complaint([&] {
                   read("python megatron_gpt_pretraining.py --config-name=gone" + overrides + "\n");
               }),
               Contains("gone is not there"));
    // The same overrides without such a program are Megatron-Bridge's.
    CHECK(read("torchrun --nproc_per_node 8 train.py model.tensor_model_parallel_size=4 "
               "train.global_batch_size=8\n")
              .framework == "megatron-bridge");
}

// nemo/collections/llm/recipes of 2.4.0: llama3_70b is tp 4, pp 4, vp 5, cp 2, batch 512 in ones;
// 64 GPUs / 32 = 2 replicas.
TEST_CASE("NeMo 2's recipes are read by name, below the overrides") {
    const auto t = read(
        "nemo llm pretrain --factory llama3_70b trainer.num_nodes=8 trainer.devices=8 "
        "data.global_batch_size=128 trainer.strategy.context_parallel_size=2\n");
    CHECK(t.framework == "nemo-2");
    check_values(t, {{"workload.preset", "llama3-70b"},
                     {"workload.seq", "8192"},
                     {"parallelism.tp", "4"},
                     {"parallelism.pp", "4"},
                     {"parallelism.vp", "5"},
                     {"parallelism.cp", "2"},
                     {"parallelism.dp", "2"},
                     {"parallelism.global_batch", "128"},
                     {"parallelism.micro_batch", "1"},
                     {"parallelism.sequence_parallel", "true"},
                     {"parallelism.zero", "1"},
                     {"runtime.exchanges.gradients", "always"},
                     {"cluster.nodes", "8"}});
    check_values(read("nemo llm pretrain --factory \"llama3_8b(num_nodes=2)\" "
                      "trainer.strategy.tensor_model_parallel_size=2 -y\n"),
                 {{"workload.preset", "llama3-8b"},
                  {"parallelism.tp", "2"},
                  {"parallelism.cp", "2"},
                  {"parallelism.dp", "4"},
                  {"cluster.nodes", "2"}});
    CHECK_THAT(complaint([&] { read("nemo llm pretrain --factory llama3_80b\n"); }),
               Contains("recipe \"llama3_80b\" is not known") && Contains("llama3_8"));
}

TEST_CASE("torchtitan's launcher names a TOML file, and flags override it") {
    const TestFolder folder;
    std::filesystem::create_directories(folder.path() + "/configs");
    folder.write("configs/own.toml",
                 "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = "
                 "1\nseq_len = 4096\n[parallelism]\ntensor_parallel_degree = 1\n"
                 "[activation_checkpoint]\nmode = \"full\"\n");
    const auto with = [&](const std::string& text) {
        return translate(folder.write("run.sh", text + "\n"), {});
    };
    const std::vector<std::pair<std::string, std::string>> two{
        {"workload.preset", "llama3-8b"}, {"workload.seq", "2048"},
        {"parallelism.tp", "2"},          {"parallelism.recompute", "none"},
        {"runtime.kernels", "fused"},     {"cluster.gpus_per_node", "8"}};
    const std::string flags =
        "--training.seq-len 2048 --parallelism.tensor_parallel_degree=2 "
        "--activation_checkpoint.mode none --compile.enable";
    for (const char* launch :
         {"NGPU=8 CONFIG_FILE=./configs/own.toml ./run_train.sh ",
          "export CONFIG_FILE=\"configs/own.toml\"\nbash run_train.sh ",
          "torchrun --nproc_per_node=8 -m torchtitan.train --job.config_file configs/own.toml ",
          "torchrun --nproc_per_node 8 torchtitan/train.py --job.config-file=./configs/own.toml "})
        check_values(with(launch + flags), two);
    check_values(with("CONFIG_FILE=configs/own.toml NGPU=4 ./run_train.sh"),
                 {{"workload.seq", "4096"},
                  {"parallelism.tp", "1"},
                  {"parallelism.recompute", "full"},
                  {"cluster.gpus_per_node", "4"}});
    CHECK(with("torchrun --nproc_per_node=8 --nnodes 2 -m torchtitan.train --job.config_file "
               "configs/own.toml")
              .count("cluster.nodes", 0) == 2);
    CHECK_THAT(complaint([&] { with("CONFIG_FILE=configs/gone.toml ./run_train.sh"); }),
               Contains("configs/gone.toml is not there"));
    check_values(
        with("NGPU=16 MODULE=llama3 CONFIG=llama3_8b ./run_train.sh --training.seq_len 4096 "
             "--parallelism.tensor_parallel_degree 4"),
        {{"workload.preset", "llama3-8b"},
         {"workload.seq", "4096"},
         {"parallelism.tp", "4"},
         {"cluster.gpus_per_node", "16"}});
    CHECK_THAT(complaint([&] { with("NGPU=8 ./run_train.sh"); }),
               Contains("names neither a TOML file nor a function"));
}

// megatron-core 0.16.1: Megatron's own FSDP switches on what it overlaps by what it shards;
// PyTorch's knows no such flag. 32 GPUs in 2 replicas of shards are 16 ranks a shard, 32 of
// torchtitan's replicas.
TEST_CASE("sharded data parallelism overlaps without being told") {
    const std::string run =
        "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 64 "
        "--num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --micro-batch-size "
        "1 ";
    const auto overlaps = [&](const std::string& flags) {
        const Translation t = read(run + flags + "\n");
        return value(t, "runtime.exchanges.gradients") + " " +
               value(t, "runtime.exchanges.parameters");
    };
    CHECK(overlaps("--use-torch-fsdp2") == "always true");
    CHECK(overlaps("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params") ==
          "always true");
    CHECK(overlaps("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads") ==
          "always false");
    CHECK(overlaps("--use-megatron-fsdp --data-parallel-sharding-strategy optim") == "never false");
    CHECK(overlaps("--use-distributed-optimizer") == "never false");
    const TestFolder folder;
    const Translation titan = translate(
        folder.write("run.sh",
                     "torchrun --nproc_per_node=8 --nnodes=4 -m torchtitan.train --module llama3 "
                     "--config llama3_8b --parallelism.data_parallel_replicate_degree 2\n"),
        {});
    CHECK(value(titan, "parallelism.shard") == "16");
    CHECK(titan.problems.empty());
}

TEST_CASE("a launch of no known program is named, with what to say instead") {
    CHECK_THAT(
        complaint([&] { read("torchrun --nproc_per_node 8 own.py --depth 12 --width 64\n"); }),
        Contains("own.py is launched with no flag of Megatron-LM"));
    CHECK_NOTHROW(
        read("torchrun --nproc_per_node 8 pretrain_gpt.py --use-checkpoint-args --load x\n"));
}

// Without --use-flash-attn its CoreAttention runs (megatron/model/transformer.py at 4efb479d): the
// scores go through memory, their softmax is one kernel for 17 to 4096 keys in fours unless that is
// switched off.
TEST_CASE("Megatron-DeepSpeed has attention of its own unless a flag says otherwise") {
    CHECK(value(deepspeed_line("--seq-length 4096"), "runtime.attention") == "plain");
    CHECK(deepspeed_line("--seq-length 4096").problems.empty());
    CHECK(value(deepspeed_line("--use-flash-attn-v2"), "runtime.attention") == "flash2");
    for (const char* flags : {"--seq-length 8192 --max-position-embeddings 8192",
                              "--seq-length 30 --max-position-embeddings 30",
                              "--seq-length 32 --no-masked-softmax-fusion"})
        CHECK_THAT(lines(deepspeed_line(flags).problems), Contains("softmax of the scores"));
    CHECK(deepspeed_line("--seq-length 8192 --max-position-embeddings 8192 --use-flash-attn")
              .problems.empty());
}

TEST_CASE("flags below ARGS in YAML are Megatron-LM's") {
    const std::string args =
        "  num_layers: 6\n  hidden_size: 128\n  num-attention-heads: 4\n  seq_length: 64\n  "
        "micro_batch_size: 1\n  global_batch_size: 32\n  swiglu: true\n  normalization: RMSNorm\n"
        "  tensor_model_parallel_size: 2\n  attention_tricks: true\n  save: ${OUT}\n";
    for (const char* head : {"ENV:\n  A: 1\nARGS:\n", "ARGS:\n", "MODEL_ARGS:\n"}) {
        const auto t = read(head + args, {}, "recipe.yaml");
        CHECK(t.format == "Megatron-LM");
        check_values(t, {{"workload.layers", "6"},
                         {"workload.heads", "4"},
                         {"workload.gated", "true"},
                         {"workload.norm", "rmsnorm"},
                         {"parallelism.tp", "2"},
                         {"workload.ffn", "320"}});
        CHECK_THAT(lines(t.problems), Contains("attention_tricks ("));
    }
}

// llama of 3 layers: of the working folder first, else beside the script.
TEST_CASE("the file of --model stands in the working folder or beside the file that is read") {
    namespace fs = std::filesystem;
    const TestFolder folder;
    fs::create_directories(folder.path() + "/jobs");
    const auto config = [](int layers) {
        return "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 128, "
               "\"num_attention_heads\": 4, \"vocab_size\": 100, \"num_hidden_layers\": " +
               std::to_string(layers) + "}";
    };
    const auto script =
        folder.write("jobs/run.sh",
                     "torchrun --nproc_per_node 8 train.py model.tensor_model_parallel_size=2 "
                     "train.global_batch_size=8\n");
    folder.write("jobs/beside.json", config(3));
    folder.write("jobs/both.json", config(3));
    folder.write("here.json", config(5));
    folder.write("both.json", config(5));
    const auto before = fs::current_path();
    fs::current_path(folder.path());
    const auto layers = [&](const std::string& model) {
        TranslateOptions options;
        options.model = model;
        return translate("jobs/run.sh", options).layers();
    };
    CHECK(layers("beside.json") == 3);
    CHECK(layers("here.json") == 5);
    CHECK(layers("both.json") == 5);
    CHECK(layers("llama3-8b") == 32);
    fs::current_path(before);
}

TEST_CASE("settings of PyTorch's allocator come from a script's environment") {
    const auto with = [](const std::string& settings) {
        return read("export PYTORCH_CUDA_ALLOC_CONF=" + settings +
                    "\ntorchrun --nproc_per_node 8 pretrain_gpt.py" + sizes + "\n");
    };
    check_values(with("expandable_segments:True"), {{"run.allocator", "expandable_segments:True"}});
    // the run is read all the same
    const Translation refused = with("expandable_segments:true");
    check_values(refused, {{"run.allocator", ""}, {"workload.layers", "8"}});
    CHECK_THAT(lines(refused.problems),
               Contains("PYTORCH_CUDA_ALLOC_CONF") && Contains("Expected 'True' or 'False'"));
    CHECK_THAT(lines(with("backend:cudaMallocAsync").problems), Contains("is not modelled"));
}
