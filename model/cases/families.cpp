#include <algorithm>
#include <array>

#include "model/cases/cells.h"
#include "model/cases/conventions.h"
#include "model/errors.h"

namespace stepcast {
namespace {

// Radford et al. 2019: the defaults of a Workload.
Workload gpt() {
    Workload w;
    w.kind = Workload::Kind::transformer;
    return w;
}

Workload bert() {
    Workload w = gpt();
    w.causal = false;
    return w;
}

// arXiv 2302.13971; Mistral, Mixtral, Qwen and DeepSeek differ in attention and experts only.
Workload llama() {
    Workload w = gpt();
    w.gated = true;
    w.norm = Norm::rmsnorm;
    w.positions = Positions::rotary;
    w.tied = w.linear_bias = w.qkv_bias = false;
    return w;
}

// The released code multiplies by the transposed embedding (xai-org/grok-1, model.py).
Workload grok() {
    Workload w = llama();
    w.tied = true;
    return w;
}

// arXiv 2402.16819, section 2: squared ReLU without gate, rotary, no biases, untied.
Workload nemotron() {
    Workload w = gpt();
    w.positions = Positions::rotary;
    w.tied = w.linear_bias = w.qkv_bias = false;
    return w;
}

// arXiv 2505.09388: heads of 128 whatever the width.
Workload qwen3() {
    Workload w = llama();
    w.head_dim = 128;
    return w;
}

// Model card of gpt-oss: heads of 64, biases everywhere.
Workload gpt_oss() {
    Workload w = llama();
    w.head_dim = 64;
    w.linear_bias = w.qkv_bias = true;
    return w;
}

Workload deepseek(int q_rank, int dense_ffn, int dense_layers, int shared_experts, bool router_bias) {
    Workload w = llama();
    w.attention = AttentionKind::mla;
    w.mla = {q_rank, 512, 128, 64, 128};
    w.ffn = dense_ffn;
    w.moe.dense_layers = dense_layers;
    w.moe.shared_experts = shared_experts;
    w.moe.router_bias = router_bias;
    return w;
}
// arXiv 2412.19437, section 4.2: a token's experts are in four of eight groups.
Workload deepseek_v3() {
    Workload w = deepseek(1536, 18432, 3, 1, true);
    w.moe.groups = 8;
    w.moe.top_groups = 4;
    return w;
}
// arXiv 2405.04434, section 3.1: in three of eight.
Workload deepseek_v2() {
    Workload w = deepseek(1536, 12288, 1, 2, false);
    w.moe.groups = 8;
    w.moe.top_groups = 3;
    return w;
}
Workload deepseek_v2_lite() { return deepseek(0, 10944, 1, 2, false); }  // the same, appendix B
Workload moonlight() { return deepseek(0, 11264, 1, 2, true); }          // arXiv 2502.16982

// Released configuration of Kimi K2: DeepSeek-V3's layers with one dense one.
Workload kimi() { return deepseek(1536, 18432, 1, 1, true); }

// Released configurations of Llama 4: experts of 8192 and a shared one of the same width, one expert a token; Maverick's
// are in every second layer, beside dense ones of 16384. Full attention up to 8192 tokens (longer ones in pieces).
Workload llama4(int interval) {
    Workload w = llama();
    w.ffn = 16384;
    w.moe.ffn = 8192;
    w.moe.shared_experts = 1;
    w.moe.top_k = 1;
    w.moe.interval = interval;
    w.moe.experts = 1;  // how many says the row
    return w;
}
Workload maverick() { return llama4(2); }
Workload scout() { return llama4(1); }

// arXiv 1901.02860. Adaptive softmax (cutoffs 19997, 39997, 199997 of 267735 symbols): the frequent words and three clusters
// for all positions, the rarer ones for those that have them: about 3.5, 4 and 0.5 % of WikiText-103's tokens. That makes a
// tenth of the whole table.
Workload transformer_xl() {
    Workload w = gpt();
    w.positions = Positions::relative;
    w.qkv_bias = false;
    w.activation = Activation::relu;
    w.inner_dropout = true;
    w.head_share = 0.1;
    return w;
}

// The large model's table is narrower for rarer symbols (div_val 4): 37 million weights, as many as 36100 symbols of full
// width; logits amount to 0.57 of those.
Workload transformer_xl_large() {
    Workload w = transformer_xl();
    w.vocab = 36100;
    w.head_share = 0.57;
    return w;
}

// Nemotron-H 56B (arXiv 2504.03624, table 1): 118 blocks, of them 54 Mamba-2, 54 feed-forward and 10 attention.
Workload nemotron_h() {
    Workload w = nemotron();
    w.norm = Norm::rmsnorm;
    w.positions = Positions::none;
    w.mamba = {256, 64, 256, 8, 10.0 / 54};
    return w;
}

// Nemotron 3 Nano (technical report, table 1): 52 blocks, of them 23 Mamba-2, 23 of experts (two shared ones as wide as 3712)
// and 6 attention with heads of 128.
Workload nemotron_3_nano() {
    Workload w = nemotron_h();
    w.head_dim = 128;
    w.mamba = {64, 64, 128, 8, 6.0 / 23};
    w.moe.shared_experts = 2;
    w.moe.router_bias = true;
    return w;
}

// Qwen2 and 2.5 have biases in the projections of queries, keys and values alone.
Workload qwen2() {
    Workload w = llama();
    w.qkv_bias = true;
    return w;
}

struct FamilyRule {
    std::string_view prefix;
    Workload (*architecture)();  // null: not modelled
    std::string_view words;      // or why it is not
    double blocks_a_layer = 1;
};
constexpr std::string_view llama_words = "gated feed-forward, rmsnorm, rotary positions, untied, no biases";
constexpr std::string_view gpt_words = "two-matrix feed-forward, layernorm, learned positions, tied, biases";
// The first that a name begins with: longer ones before shorter ones.
constexpr auto families = std::to_array<FamilyRule>({
    {"gpt-oss", gpt_oss, "gated feed-forward, rmsnorm, rotary positions, untied, biases, heads of 64, full attention"},
    {"gpt", gpt, gpt_words},
    {"megatron", gpt, gpt_words},
    {"mt-nlg", gpt, gpt_words},
    {"mpt", gpt, gpt_words},
    {"bert", bert,
     "two-matrix feed-forward, layernorm, learned positions, tied, biases, not causal, logits of every token"},
    {"llama4-maverick", maverick,
     "gated feed-forward, rmsnorm, rotary positions, untied, no biases; every second layer with experts of 8192, one "
     "of "
     "them and a shared one a token, the others dense with 16384"},
    {"llama4", scout,
     "gated feed-forward, rmsnorm, rotary positions, untied, no biases; experts of 8192, one of them and a shared one "
     "a "
     "token"},
    {"llama", llama, llama_words},
    {"mistral", llama, llama_words},
    {"mixtral", llama, llama_words},
    {"codellama", llama, llama_words},
    {"olmo", llama, llama_words},
    {"qwen3-next", nullptr, "a hybrid of linear and full attention"},
    {"qwen2", qwen2, "gated feed-forward, rmsnorm, rotary positions, untied, biases of queries, keys and values"},
    {"qwen3", qwen3, "gated feed-forward, rmsnorm, rotary positions, untied, no biases, heads of 128"},
    {"grok", grok, "gated feed-forward, rmsnorm, rotary positions, tied, no biases"},
    {"nemotron-h", nemotron_h, "layers of Mamba-2 and feed-forward with 10 attention blocks over 54 of them",
     118.0 / 54},
    {"nemotron_3_nano", nemotron_3_nano, "layers of Mamba-2 and experts with 6 attention blocks over 23 of them",
     52.0 / 23},
    {"nemotron-3-nano", nemotron_3_nano, "layers of Mamba-2 and experts with 6 attention blocks over 23 of them",
     52.0 / 23},
    {"nemotron_3", nullptr, "a hybrid of Mamba and attention layers"},
    {"nemotron", nemotron, "two-matrix feed-forward, layernorm, rotary positions, untied, no biases"},
    {"deepseek-v3", deepseek_v3,
     "latent attention (1536, 512; 128 + 64, 128), 3 dense layers of 18432, one shared expert, router with biases"},
    {"deepseek-v2-lite", deepseek_v2_lite,
     "latent attention (none, 512; 128 + 64, 128), one dense layer of 10944, two shared experts"},
    {"deepseek-v2", deepseek_v2,
     "latent attention (1536, 512; 128 + 64, 128), one dense layer of 12288, two shared experts"},
    {"kimi", kimi, "latent attention (1536, 512; 128 + 64, 128), one dense layer of 18432, one shared expert"},
    {"opt", gpt, gpt_words},
    {"moonlight", moonlight,
     "latent attention (none, 512; 128 + 64, 128), one dense layer of 11264, two shared experts"},
    {"transformer-xl-large", transformer_xl_large,
     "two-matrix feed-forward, relative positions, a memory as long as the sequence, a table of 36100 symbols of full "
     "width"},
    {"transformer-xl", transformer_xl,
     "two-matrix feed-forward, relative positions, a memory as long as the sequence, logits of a tenth of the symbols"},
    {"nemotron3", nullptr, "a hybrid of Mamba and attention layers"},
});

}  // namespace

ModelFamily family_of(std::string_view model) {
    const auto name = lower_case(std::string(model));
    std::string known;
    for (const auto& rule : families) {
        if (name.starts_with(rule.prefix)) {
            if (!rule.architecture)
                throw ConfigError("model: \"" + std::string(model) + "\" is not modelled: " + std::string(rule.words));
            return {rule.architecture(), rule.blocks_a_layer,
                    std::string(rule.prefix) + ": " + std::string(rule.words)};
        }
        if (rule.architecture) known += (known.empty() ? "" : ", ") + std::string(rule.prefix);
    }
    throw ConfigError("model: \"" + std::string(model) +
                      "\" is of no known family and no preset experiment; expected a name that begins with one of " +
                      known);
}

}  // namespace stepcast
