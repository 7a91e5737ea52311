#include "model/transformer/counts.h"

#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/experiment.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

Workload preset(const std::string& name) {
    Experiment e;
    set_key(e, {"workload.preset", name});
    return e.workload;
}

double total(const std::string& name) { return count_parameters(preset(name)).total(); }

// hidden 8, 2 heads of 4, inner width 16, 10 words, 5 positions, layernorm, biases, tied.
Workload tiny() {
    Workload w;
    w.kind = Workload::Kind::transformer;
    w.layers = 2;
    w.hidden = 8;
    w.heads = 2;
    w.ffn = 16;
    w.vocab = 10;
    w.seq = 5;
    return w;
}

}  // namespace

// The counts that the models' authors or hubs state, for the definition in counts.h.
// GPT-2 124M: 50257 x 768 + 1024 x 768 + 12 x (12 x 768^2 + 13 x 768) + 2 x 768.
// GPT-3: 50257 h + 2048 h + 96 (12 h^2 + 13 h) + 2 h, h = 12288; its paper's table D.1 says 174,600
// million. DeepSeek-V3: 671,026,404,352 and 58 x 256 load-balancing biases, without the
// multi-token-prediction module. Qwen3: less the norms of queries and keys, two of 128 weights per
// layer. BERT-large: 335,141,888 on the hub less 2 x 1024 token types less 1024 x 1024 + 1024 of
// the pooler.
TEST_CASE("parameter counts of the presets are the published ones to the parameter") {
    CHECK(total("gpt2-124m") == 124'439'808);
    CHECK(total("gpt2-1.5b") == 1'557'611'200);
    CHECK(total("gpt3-175b") == 174'604'259'328);
    CHECK(total("llama2-7b") == 6'738'415'616);
    CHECK(total("llama2-70b") == 68'976'648'192);
    CHECK(total("llama3-8b") == 8'030'261'248);
    CHECK(total("llama3-70b") == 70'553'706'496);
    CHECK(total("llama3-405b") == 405'853'388'800);
    CHECK(total("mixtral-8x7b") == 46'702'792'704);
    CHECK(total("mixtral-8x22b") == 140'620'634'112);
    CHECK(total("deepseek-v2") == 235'741'434'880);
    CHECK(total("deepseek-v3") == 671'026'404'352 + 58 * 256);
    CHECK(total("qwen3-30b-a3b") == 30'532'122'624);
    CHECK(total("qwen3-235b-a22b") == 235'093'634'560);
    CHECK(total("bert-large") == 335'141'888 - 2'048 - 1'049'600);
}

// The benchmark table of MPT states these counts (llm-foundry, scripts/train/benchmarking): learned
// positions, biases, tied, vocabulary 50368, sequence 2048.
TEST_CASE("the MPT models of a benchmark table have the counts that it states") {
    Workload w = tiny();
    w.vocab = 50368;
    w.seq = 2048;
    const auto sized = [&](int layers, int hidden, int heads) {
        w.layers = layers;
        w.hidden = hidden;
        w.heads = heads;
        w.ffn = 4 * hidden;
        return count_parameters(w).total();
    };
    CHECK(sized(12, 768, 12) == 125'311'488);
    CHECK(sized(24, 2048, 16) == 1'315'950'592);
    CHECK(sized(32, 4096, 32) == 6'658'859'008);
    CHECK(sized(48, 7168, 56) == 29'975'214'080);
}

// Published: Mixtral 12.9 billion of 46.7, DeepSeek-V3 37 of 671, DeepSeek-V2 21 of 236. Mixtral by
// hand: 46,702,792,704 less 6 of 8 experts of 3 x 4096 x 14336 weights in 32 layers.
TEST_CASE("active parameters count the experts that one token meets") {
    const ParameterCount mixtral = count_parameters(preset("mixtral-8x7b"));
    CHECK(mixtral.active() == 46'702'792'704 - 32.0 * 6 * 3 * 4096 * 14336);
    CHECK(mixtral.active() == Approx(12.9e9).epsilon(0.005));
    CHECK(count_parameters(preset("deepseek-v3")).active() == Approx(37e9).epsilon(0.02));
    CHECK(count_parameters(preset("deepseek-v2")).active() == Approx(21e9).epsilon(0.02));
    CHECK(count_parameters(preset("llama3-8b")).active() == 8'030'261'248);
}

// Attention: 4 x 64 weights, 24 + 8 biases = 288. Block: 2 x 16 x 8 weights, 16 + 8 biases = 280.
// Norms: 2 x 16.
TEST_CASE("a layer's weights are counted by what they belong to") {
    const Workload w = tiny();
    CHECK(layer_parameters(w, 0) ==
          ParameterCount{.attention = 288, .feed_forward = 280, .norms = 32});
    const ParameterCount count = count_parameters(w);
    CHECK(count == ParameterCount{80, 40, 576, 560, 0, 0, 80, 0, 0});
    CHECK(count.total() == 1336);
}

// With one key head of 4 and 2 query heads: 8 x 4 x (4 + 2) = 192 weights, and biases 4 x (2 + 2) +
// 8 = 24 unless switched off. Gated: 3 x 16 x 8 = 384 weights, 2 x 16 + 8 biases. rmsnorm: 8 per
// norm. Untied logits: 80.
TEST_CASE("grouped keys, gates, biases, norms and untied logits each change their own count") {
    Workload w = tiny();
    w.kv_heads = 1;
    CHECK(layer_parameters(w, 0).attention == 216);
    w.qkv_bias = false;
    CHECK(layer_parameters(w, 0).attention == 200);
    w.gated = true;
    CHECK(layer_parameters(w, 0).feed_forward == 424);
    w.linear_bias = false;
    CHECK(layer_parameters(w, 0).attention == 192);
    CHECK(layer_parameters(w, 0).feed_forward == 384);
    w.norm = Norm::rmsnorm;
    CHECK(layer_parameters(w, 0).norms == 16);
    CHECK(final_norm_parameters(w) == 8);
    w.tied = false;
    CHECK(logits_parameters(w) == 80);
    w.max_positions = 7;
    CHECK(position_parameters(w) == 56);
    w.positions = Positions::rotary;
    CHECK(position_parameters(w) == 0);
    w.head_dim = 3;
    CHECK(layer_parameters(w, 0).attention == 2 * 8 * 3 * 3);
}

// 4 experts of 2 x 6 x 8 + 6 + 8 = 110 weights in layers 1 and 3 (every second, after one dense
// layer), one shared expert; router 4 x 8 weights and 4 biases.
TEST_CASE("experts stand in every interval-th layer after the dense ones") {
    Workload w = tiny();
    w.layers = 4;
    w.moe = {.experts = 4,
             .top_k = 2,
             .shared_experts = 1,
             .ffn = 6,
             .dense_layers = 1,
             .interval = 2,
             .router_bias = true};
    CHECK_FALSE(has_experts(w, 0));
    CHECK(has_experts(w, 1));
    CHECK_FALSE(has_experts(w, 2));
    CHECK(has_experts(w, 3));
    CHECK(layer_parameters(w, 1) ==
          ParameterCount{
              .attention = 288, .feed_forward = 110, .experts = 440, .router = 36, .norms = 32});
    CHECK(layer_parameters(w, 1).dense() == 466);
    CHECK(layer_parameters(w, 2) ==
          ParameterCount{.attention = 288, .feed_forward = 280, .norms = 32});
    w.moe.dense_layers = 2;
    CHECK_FALSE(has_experts(w, 1));
    w.moe.shared_ffn = 3;
    CHECK(shared_ffn(w) == 3);
    w.moe.ffn = 0;
    CHECK(expert_ffn(w) == 16);
    w.moe.experts = 0;
    CHECK_FALSE(has_experts(w, 3));
}

// Queries direct: 8 x 2 x (3 + 1) = 64; latent 8 x (4 + 1) = 40; keys and values 4 x 2 x (3 + 5) =
// 64; output 2 x 5 x 8 = 80; norm of the latent 4. With a query latent of 6: 8 x 6 + 6 x 8 = 96
// instead of 64 and 6 more in its norm.
TEST_CASE("latent attention counts its projections and the norms of its latents") {
    Workload w = tiny();
    w.norm = Norm::rmsnorm;
    w.linear_bias = w.qkv_bias = false;
    w.mla = {.q_rank = 0, .kv_rank = 4, .nope_dim = 3, .rope_dim = 1, .value_dim = 5};
    CHECK(layer_parameters(w, 0).attention == 64 + 40 + 64 + 80);
    CHECK(layer_parameters(w, 0).norms == 16 + 4);
    w.mla.q_rank = 6;
    CHECK(layer_parameters(w, 0).attention == 96 + 40 + 64 + 80);
    CHECK(layer_parameters(w, 0).norms == 16 + 4 + 6);
    // Per token: 2 x (280 + 2 x 16 x 8 of the block) + 2 x 5 positions x 2 heads x (3 + 1 + 5).
    CHECK(layer_forward_flops(w, 0) == Flops(2 * (280 + 256) + 180));
}

// 10 more tokens of memory are attended to: 2 x 10 x 2 heads x (4 + 4 of scores and values, 4 of
// relative positions). Their keys and values are projected again: 2 x 2 x 8 x 2 heads x 4 x 10,
// over the 5 tokens of a sequence.
TEST_CASE(
    "relative positions and a memory are looked back at, and its keys and values projected again") {
    Workload w = tiny();
    w.positions = Positions::relative;
    const double without = layer_forward_flops(w, 0).si();
    w.memory = 10;
    CHECK(layer_forward_flops(w, 0).si() - without == 2 * 10 * 2 * 12 + 4 * 8 * 2 * 4 * 10 / 5);
}

// 2 heads of 4 with state 6: a token's states are read and written with 4 x 6 x 8. Two more states
// add twice what a state takes, and their columns of the projection, B and C of one group, 2 x 2 x
// 8 weights, and of the convolution.
TEST_CASE("a scan multiplies each state of its heads twice a token") {
    Workload w = tiny();
    w.mamba = {.heads = 2, .head_dim = 4, .state = 6, .groups = 1, .attention = 0};
    const auto apart = [&] {
        return layer_forward_flops(w, 0).si() - 2 * (layer_parameters(w, 0).attention + 2 * 8 * 16);
    };
    const double six = apart();
    w.mamba.state = 8;
    CHECK(apart() - six == 4 * 2 * 8);
}

// Key heads of 3, value heads of 5, hidden 8: queries, keys, values and gate 2 x 3 + 2 x 2 x 2 x 5,
// two numbers for each of 4 value heads; a convolution over 4 tokens, a bias and a factor a value
// head, a norm of 5, and back. A state of 3 x 5 of each of 4 heads is read twice and written once.
TEST_CASE("a gated delta net: weights, and operations for each of its states") {
    Workload w = tiny();
    w.layers = 4;
    w.delta = {.value_heads = 4, .key_heads = 1, .key_dim = 3, .value_dim = 5, .interval = 4};
    const double attention = [&] {
        Workload plain = w;
        plain.delta = {};
        return layer_parameters(plain, 0).attention;
    }();
    const double products = 8 * (2 * 3 + 2 * 4 * 5 + 2 * 4) + 4 * 5 * 8,
                 small = 4 * (2 * 3 + 4 * 5) + 2 * 4 + 5;
    CHECK(layer_parameters(w, 0).attention == products + small + (w.linear_bias ? 8 : 0));
    CHECK(layer_parameters(w, 3).attention == attention);
    CHECK(layer_forward_flops(w, 0).si() - 2 * (products + small) -
              2 * layer_parameters(w, 0).feed_forward ==
          Approx(6.0 * 3 * 5 * 4 - 2 * (w.linear_bias ? 16 + 8 : 0)));
    for (int layer = 0; layer < 8; ++layer) CHECK(has_attention(w, layer) == (layer % 4 == 3));
    w.delta.interval = 0;
    CHECK_FALSE(has_attention(w, 3));
    w.delta.value_heads = 0;
    CHECK(has_attention(w, 0));
}

// The indexer of DeepSeek-V3.2: 1536 x 64 x 128 + 7168 x (128 + 64) weights and a norm of 2 x 128 a
// layer. At 8192 tokens a token's attention meets 2048 keys, 2 x 128 x (192 + 128) each; the
// indexer 8192 of 2 x 64 x 128. The backward takes twice the products, but of the indexer it meets
// 2048 keys and has no gradients of its inputs.
TEST_CASE("an indexer's weights, and what its selection leaves of attention") {
    Workload w = preset("deepseek-v3");
    w.seq = 8192;
    const Workload all = w;
    w.indexer = {.heads = 64, .head_dim = 128, .top_k = 2048};
    const double products = 1536.0 * 64 * 128 + 7168 * (128 + 64);
    CHECK(layer_parameters(w, 0).total() - layer_parameters(all, 0).total() == products + 2 * 128);
    const double index = 2.0 * 64 * 128, key = 2.0 * 128 * (192 + 128);
    CHECK(layer_forward_flops(w, 0).si() - layer_forward_flops(all, 0).si() ==
          Approx(2 * products + 8192 * index - (8192 - 2048) * key));
    CHECK(model_flops(w).si() ==
          Approx(3 * forward_flops(w).si() - 2.0 * 61 * 8192 * (products + (8192 - 2048) * index)));
    CHECK(selects_keys(w));
    w.seq = 2048;
    CHECK_FALSE(selects_keys(w));
}

// Published as 80 B with 3 B active. transformers 5.24.0 builds 79,674,391,296 weights from
// Qwen3NextConfig(): 36 layers of 2048 x (12288 + 64) + 4 x 8192 + 64 + 128 + 4096 x 2048, 12 of
// 2048 x (2 x 4096 + 2 x 512) + 4096 x 2048 + 2 x 256; in all 48 a router of 2048 x 512, experts of
// 3 x 2048 x 512, 512 of them and one shared with a gate of 2048, two norms; twice 151936 x 2048
// and a norm.
TEST_CASE("Qwen3-Next and DeepSeek-V3.2 have as many weights as their library builds") {
    const ParameterCount next = count_parameters(preset("qwen3-next-80b-a3b"));
    // queries' and keys' norms are counted with the norms
    CHECK(next.attention == 36.0 * 33'718'464 + 12.0 * (27'263'488 - 512));
    CHECK(next.total() == 79'674'391'296.0);
    CHECK(next.active() == 79'674'391'296.0 - 48.0 * (512 - 10) * 3 * 2048 * 512);
    // with 58 x 256 biases of the routers, which are buffers there
    CHECK(count_parameters(preset("deepseek-v3.2")).total() == 671'877'929'216.0 + 58 * 256);
}

// 72 B s l h^2 (1 + s / 6h + V / 12 l h) for a GPT, the formula of arXiv 2104.04473.
TEST_CASE("model operations of a GPT are Megatron's formula") {
    Workload w = preset("gpt3-175b");
    w.vocab = 51200;
    const double l = 96, h = 12288, s = 2048, batch = 64;
    const double formula = 72 * batch * s * l * h * h * (1 + s / (6 * h) + w.vocab / (12 * l * h));
    CHECK(model_flops(w, batch).si() == Approx(formula).epsilon(1e-12));
    // 175B in 13.75 s on 64 devices of 312 TFLOP/s is an MFU of 51.4 % (arXiv 2205.05198, table 5).
    CHECK(model_flops(w, batch).si() / (13.75 * 64 * 312e12) == Approx(0.514).margin(0.0005));
}

// Per token: attention matrices 256, router 4 x 8, two of four experts of 2 x 6 x 8, shared 2 x 6 x
// 8; scores 4 x 5 positions x 8; logits 2 x 80. Two layers, both with experts, 3 sequences of 5
// tokens.
// A causal mask hides half of 4 s h operations a token and layer, as Megatron-LM has counted since
// 2025; windows of w = s / 4 in half of the layers leave w w / 2s of w: 4 h (s / 32 / 2 + s / 2 /
// 2).
TEST_CASE("a causal mask hides half of the scores") {
    Experiment e = small_gpt();
    Workload& w = e.workload;
    const double s = w.seq, all = 3.0 * s * w.layers * 4 * w.hidden;
    CHECK(masked_flops(w).si() == Approx(all * s / 2));
    CHECK(masked_flops(w, 3).si() == Approx(3 * all * s / 2));
    w.window = w.seq / 4;
    w.window_share = 0.5;
    CHECK(masked_flops(w).si() == Approx(all * (s / 64 + s / 4)));
    w.causal = false;
    CHECK(masked_flops(w) == Flops(0));
}

TEST_CASE("operations of an expert layer are those of the experts that a token goes to") {
    Workload w = tiny();
    w.moe = {.experts = 4, .top_k = 2, .shared_experts = 1, .ffn = 6};
    const double layer = 2 * (256 + 32 + 2 * 96 + 96) + 160;
    CHECK(layer_forward_flops(w, 1) == Flops(layer));
    CHECK(logits_forward_flops(w) == Flops(160));
    CHECK(forward_flops(w, 3) == Flops((2 * layer + 160) * 15));
    CHECK(model_flops(w, 3) == 3 * forward_flops(w, 3));
    // One more predicted token adds a layer like the last one, logits, and a projection of two
    // norms' results, 2 x 2 x 8 x 8.
    w.moe.dense_layers = 1;
    const double once = forward_flops(w, 3).si();
    w.mtp_layers = 2;
    CHECK(forward_flops(w, 3).si() - once == 2 * (layer + 160 + 256) * 15);
    w.head_dim = 1;
    CHECK(head_dim(w) == 1);
}

// Rank 2: beside 8 x 24 and 8 x 8 of the attention 2 x (32 + 16) weights, beside 8 x 16 up and 16 x
// 8 down 2 x (24 + 24). A token takes two operations for each. Experts have none; the second layer
// has them in place of the feed-forward block.
TEST_CASE("adapters on all linear layers count beside each, but not beside experts") {
    Workload w = tiny();
    const Flops without = layer_forward_flops(w, 0);
    w.adapter_rank = 2;
    CHECK(adapter_parameters(w, 0) == 96);
    w.adapter_on = Adapted::linear;
    CHECK(adapter_parameters(w, 0) == 192);
    CHECK((layer_forward_flops(w, 0) - without).si() == 2 * 192);
    w.moe.experts = 4;
    w.moe.dense_layers = 1;
    CHECK(adapter_parameters(w, 0) == 192);
    CHECK(adapter_parameters(w, 1) == 96);
}

// Rank 2 beside separate products of width 8: queries, keys and values 2 x (8 + 8) each, up 2 x (8
// + 16), down 2 x (16 + 8). Where one product makes all three, it has them as a whole: 2 x (8 +
// 24).
TEST_CASE("adapters beside listed projections count beside these alone") {
    Workload w = tiny();
    w.adapter_rank = 2;
    const auto beside = [&](std::vector<AdaptedModule> modules, bool at_once = false) {
        w.adapter_modules = std::move(modules);
        return adapter_parameters(w, 0, at_once);
    };
    using enum AdaptedModule;
    CHECK(beside({query, value}) == 64);
    CHECK(beside({query, value}, true) == 64);  // of the product of 24
    CHECK(beside({query, key, value}) == 96);
    CHECK(beside({query, key, value, output}) == 128);
    CHECK(beside({up, down}) == 96);
    CHECK(beside({down}) == 48);
    // gate and up as one product of 2 x 16, or 2 x (8 + 16) for each
    w.gated = true;
    CHECK(beside({gate}) == 48);
    CHECK(beside({gate, up}) == 96);
    CHECK(beside({gate}, true) == 80);
    CHECK(beside({gate, up}, true) == 80);
    w.gated = false;
    CHECK(beside({gate}, true) == 0);
    w.adapter_on = Adapted::linear;
    CHECK(beside({output}) == 32);
    CHECK(beside({}) == 224);
}
