#include "import/launch/emit.h"

#include <catch2/catch.hpp>

#include "import/launch/translate.h"
#include "model/base/errors.h"
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
                   Contains("cannot run this split: ") && Contains("schedule zb-h1"));
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
    CHECK_THAT(refusal(EmitFormat::megatron), Contains("2 micro-batches for 4 stages"));
    CHECK_THAT(complaint([] { parse_name<EmitFormat>("megatorn"); }),
               Contains("did you mean \"megatron\"?"));
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
