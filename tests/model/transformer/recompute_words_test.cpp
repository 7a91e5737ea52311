// What each framework's words for recompute run again, in operations worked out by hand from its
// source, on four layers: hidden 1024, 8 heads of 128 and 2 key heads, inner width 4096, 2048
// tokens a rank.
#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/experiment.h"
#include "model/transformer/step.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

constexpr double layers = 4, hidden = 1024, inner = 4096, seq = 2048, keys = 2 * 128;
const std::string run =
    "[workload]\nfamily = \"llama\"\nlayers = 4\nhidden = 1024\nheads = 8\nkv_heads = 2\nffn = "
    "4096\nvocab = 32000\nseq = 2048\n"
    "[parallelism]\ndp = 8\nmicro_batch = 1\n[cluster]\npreset = \"dgx-h100\"\nnodes = 1\n";

// Of the step's products on one rank.
double flops(const std::string& framework, const std::string& recompute,
             std::vector<Override> more = {}) {
    const TestFolder folder;
    more.insert(more.end(),
                {{"framework.preset", framework}, {"parallelism.recompute", recompute}});
    const TaskGraph graph =
        build_transformer_step(read_experiment(folder.write("run.toml", run), more), {});
    double sum = 0;
    for (TaskId t = 0; t < graph.size(); ++t)
        if (graph.places(t).front().rank() == 0) sum += flops_of(graph.op(t)).si();
    return sum;
}
double again(const std::string& framework, const std::string& recompute,
             const std::vector<Override>& more = {}) {
    return flops(framework, recompute, more) - flops(framework, "none", more);
}

}  // namespace

// A query sees half of the keys: scores and values are 2 s s / 2 h operations each. megatron-core
// 0.16.1 wraps core_attention whatever its kernel (transformer/attention.py:
// _checkpointed_attention_forward()), and so does nemo-toolkit 1.23.0
// (modules/common/megatron/attention.py). Without flash all scores are made.
TEST_CASE("Megatron's selective recompute runs the attention forward again, flash or not") {
    const double flash = layers * 2 * seq * seq * hidden;
    for (const char* framework :
         {"megatron-core", "megatron-lm", "megatron-bridge", "nemo", "nemo-2"}) {
        INFO(framework);
        CHECK(again(framework, "selective") == Approx(flash));
    }
    CHECK(again("megatron-core", "selective", {{"runtime.attention", "plain"}}) ==
          Approx(2 * flash));
}

// Over two context ranks each has half of the queries, which see half of the keys.
TEST_CASE("Megatron's selective recompute of a context over two ranks runs each one's share") {
    CHECK(again("megatron-core", "selective", {{"parallelism.cp", "2"}, {"parallelism.dp", "4"}}) ==
          Approx(layers * seq * seq * hidden));
}

// torchtitan 0.2.1 (distributed/activation_checkpoint.py, models/llama3/infra/parallelize.py:
// _op_sac_save_list) keeps attention and every second of the products query, keys, values, output,
// gate, up, down in this order: keys, output and up run again.
TEST_CASE("torchtitan's selective op runs every second product again, and no attention") {
    const double products = 2 * seq * (hidden * keys + hidden * hidden + hidden * inner);
    CHECK(again("torchtitan", "alternate") == Approx(layers * products));
}

// Beside keys and output: the router, and all three grouped products, which are on no list
// (models/llama4/infra/parallelize.py), 2 choices a token of an inner width of 512.
TEST_CASE("torchtitan's selective op runs experts and their router again") {
    const double dense = 2 * seq * (hidden * keys + hidden * hidden),
                 experts = 2 * seq * (hidden * 8 + 2 * 3 * hidden * 512);
    CHECK(again("torchtitan", "alternate",
                {{"workload.moe.experts", "8"},
                 {"workload.moe.top_k", "2"},
                 {"workload.moe.ffn", "512"}}) == Approx(layers * (dense + experts)));
}

namespace {
// Four layers of 8 experts of an inner width of 512, 2 a token, and one that all tokens pass.
const std::vector<Override> with_experts{{"workload.moe.experts", "8"},
                                         {"workload.moe.top_k", "2"},
                                         {"workload.moe.ffn", "512"},
                                         {"workload.moe.shared_experts", "1"}};
double modules_again(const std::string& modules, std::vector<Override> more = {}) {
    more.emplace_back("parallelism.recompute_modules", modules);
    return again("megatron-core", "selective", more);
}
}  // namespace

// megatron-core 0.16.1, transformer_config.py: recompute_modules. A checkpoint runs the whole
// forward of its module again, the product down included (tensor_parallel/random.py).
TEST_CASE("Megatron's modules run their products again, and nothing else") {
    const double attention = layers * 2 * seq * seq * hidden,
                 dense = layers * 2 * seq * 3 * hidden * inner,
                 shared = layers * 2 * seq * 3 * hidden * 512,
                 routed = layers * 2 * seq * (hidden * 8 + 2 * 3 * hidden * 512);
    CHECK(modules_again("[core_attn]") == Approx(attention));
    CHECK(modules_again("[mlp]") == Approx(dense));
    CHECK(modules_again("[core_attn, mlp]") == Approx(attention + dense));
    CHECK(modules_again("[moe]", with_experts) == Approx(routed + shared));
    CHECK(modules_again("[shared_experts]", with_experts) == Approx(shared));
    CHECK(modules_again("[moe, shared_experts]", with_experts) == Approx(routed + shared));
    CHECK(modules_again("[layernorm, moe_act]", with_experts) == 0);
    CHECK(modules_again("[moe, layernorm, mla_up_proj]") == 0);  // which this model has not
}

// Latents of 512 (queries) and 256 (keys and values); 8 heads of 128 + 64 and of 128.
TEST_CASE("Megatron's products up from the latents run again") {
    const double up = 2 * seq * (512 * 8 * (128 + 64) + 256 * 8 * (128 + 128));
    CHECK(modules_again("[mla_up_proj, layernorm]", {{"workload.kv_heads", "8"},
                                                     {"workload.mla.q_rank", "512"},
                                                     {"workload.mla.kv_rank", "256"},
                                                     {"workload.mla.nope_dim", "128"},
                                                     {"workload.mla.rope_dim", "64"},
                                                     {"workload.mla.value_dim", "128"}}) ==
          Approx(layers * up));
}

// Every operator of a layer: queries, keys and values, attention, output, gate, up and down.
TEST_CASE("full recompute runs the forward of a layer again in every framework") {
    const double products =
                     2 * seq * (2 * hidden * hidden + 2 * hidden * keys + 3 * hidden * inner),
                 attention = 2 * seq * seq * hidden;
    for (const char* framework : {"megatron-core", "nemo", "torchtitan", "nanotron", "fsdp"}) {
        INFO(framework);
        CHECK(again(framework, "full") == Approx(layers * (products + attention)));
    }
}
