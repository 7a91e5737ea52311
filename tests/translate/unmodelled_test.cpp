// What the files of other tools state that the forecast has not, has under another name, or has from two places that disagree.
#include <catch2/catch.hpp>

#include "model/experiment_text.h"
#include "tests/model/files.h"
#include "translate/translate.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

std::string value(const Translation& t, const std::string& key) {
    const auto* found = t.find(key);
    return found ? found->value : "";
}

std::string lines(const std::vector<std::string>& all) {
    std::string text;
    for (const auto& line : all) text += line + "\n";
    return text;
}

// "torchrun .. pretrain_gpt.py" of a small model on 8 GPUs, its batch of 16 in pieces of one.
Translation megatron(const std::string& flags, const std::string& program = "pretrain_gpt.py") {
    const TestFolder folder;
    return translate(folder.write("run.sh", "torchrun --nproc_per_node 8 examples/" + program +
                                                " --num-layers 7 --hidden-size 64 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 "
                                                "--micro-batch-size 1 --global-batch-size 16 --vocab-size 1000 --bf16 " + flags + "\n"), {});
}

Translation deepspeed(const std::string& fields, long replicas = 0) {
    const TestFolder folder;
    TranslateOptions how;
    how.format = ForeignFormat::deepspeed;
    how.replicas = replicas;
    return translate(folder.write("ds.json", "{\"zero_optimization\": {\"stage\": 3}, " + fields + "}"), how);
}

Translation torchtitan(const std::string& model, const std::string& rest = "") {
    const TestFolder folder;
    return translate(folder.write("t.toml", "[model]\nname = \"llama3\"\nflavor = \"8B\"\n" + model + "\n[parallelism]\ntensor_parallel_degree = 1\n" + rest + "\n"), {});
}

}  // namespace

// 128 sequences on 16 replicas: 8 at once, or 2 in each of 4 pieces.
TEST_CASE("two of DeepSpeed's three batch numbers give the third, and three may contradict each other") {
    const std::string all = "\"train_batch_size\": 128", pieces = ", \"gradient_accumulation_steps\": ", micro = ", \"train_micro_batch_size_per_gpu\": ";
    CHECK(value(deepspeed(all, 16), "parallelism.micro_batch") == "8");
    CHECK(value(deepspeed(all + pieces + "4", 16), "parallelism.micro_batch") == "2");
    CHECK_THAT(lines(deepspeed(all + pieces + "3", 16).problems), Contains("128 is no multiple of accumulation 3 x 16 replicas"));
    CHECK(deepspeed(all + micro + "2" + pieces + "4", 16).problems.empty());
    CHECK_THAT(lines(deepspeed(all + micro + "2" + pieces + "1", 16).problems), Contains("128 is not 2 sequences x accumulation 1 x 16 replicas"));
    CHECK_THAT(lines(deepspeed(all + micro + "3" + pieces + "4").problems), Contains("128 is not 3 sequences x accumulation 4 x replicas"));
    for (const auto& open : {deepspeed(all), deepspeed(all + pieces + "\"auto\"", 16)}) {
        CHECK(value(open, "parallelism.micro_batch").empty());
        CHECK_THAT(lines(open.open), Contains("train_micro_batch_size_per_gpu = 128 / (") && Contains("--set micro_batch=N"));
    }
}

TEST_CASE("torchtitan's converters under both their names") {
    const auto rows = torchtitan("converters = [\"quantize.linear.float8\"]", "[quantize.linear.float8]\nrecipe_name = \"rowwise\"");
    CHECK(value(rows, "workload.dtype") == "fp8");
    CHECK(value(rows, "workload.row_scales") == "true");
    for (const char* name : {"mx", "quantize.linear.mx"}) CHECK(value(torchtitan(std::string("converters = [\"") + name + "\"]"), "workload.dtype") == "fp8");
    CHECK(value(torchtitan("converters = [\"mx\"]", "[mx]\nrecipe_name = \"mxfp4_cutlass\""), "workload.dtype") == "fp4");
    CHECK_THAT(lines(torchtitan("converters = [\"nf4\"]").problems), Contains("nf4 is not modelled"));
    const auto inert = torchtitan("", "[quantize.linear.float8]\nrecipe_name = \"rowwise\"");
    CHECK(value(inert, "workload.dtype") == "bf16");
    CHECK_THAT(lines(inert.ignored), Contains("no converter in model.converters reads it"));
}

// DeepSeek-V3's layout has its prediction layer in a chunk of its own: the forecast has it with the loss.
TEST_CASE("a layout with a chunk for multi-token prediction alone can be forecast") {
    const auto t = megatron("--pipeline-model-parallel-size 4 --mtp-num-layers 1 --untie-embeddings-and-output-weights "
                            "--pipeline-model-parallel-layout \"Ett|ttt|m|ttL\"");
    CHECK(value(t, "parallelism.stage_layers") == "[2, 2, 1, 2]");
    CHECK_THAT(lines(t.problems), Contains("(m) in chunk 3 of 4 is forecast in the last, with the loss; a layer of chunk 2 is in its place"));
    CHECK_NOTHROW(read_experiment_text(experiment_text(t), "run.sh", std::vector<Override>{{"cluster.preset", "dgx-h100"}}));
    const auto with_loss = megatron("--pipeline-model-parallel-size 4 --mtp-num-layers 1 --pipeline-model-parallel-layout \"Ett|tt|tt|tmL\"");
    CHECK(value(with_loss, "parallelism.stage_layers") == "[2, 2, 2, 1]");
    CHECK(with_loss.problems.empty());
}
