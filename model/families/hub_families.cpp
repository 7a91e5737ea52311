#include "model/families/hub_families.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace stepcast {
namespace {

// Under the names of GPT-2.
void read_n_sizes(HubValues& c) {
    c.need("layers", "n_layer");
    c.need("hidden", "n_embd");
    c.need("heads", "n_head");
    c.may("dropout", "resid_pdrop");
    c.workload().ffn = 4 * c.workload().hidden;
    c.may("ffn", "n_inner");
}

void read_learned_positions(HubValues& c, const char* positions) {
    c.need("max_positions", positions);
    c.workload().seq = c.workload().max_positions;
}

void read_sizes(HubValues& c) {
    c.need("layers", "num_hidden_layers");
    c.need("hidden", "hidden_size");
    c.need("heads", "num_attention_heads");
    c.need("ffn", "intermediate_size");
    c.may("kv_heads", "num_key_value_heads");
    c.may("head_dim", "head_dim");
}

void read_sizes_and_biases(HubValues& c) {
    read_sizes(c);
    c.workload().qkv_bias = c.flag("attention_bias", c.workload().qkv_bias);
    c.workload().linear_bias = c.flag("mlp_bias", c.workload().linear_bias);
}

void read_gpt2(HubValues& c) {
    read_n_sizes(c);
    read_learned_positions(c, "n_positions");
}

// GPT-J: GPT-2's names, biases of the feed-forward alone.
void read_gptj(HubValues& c) {
    read_n_sizes(c);
    c.workload().qkv_bias = false;
}

void read_bert(HubValues& c) {
    read_sizes(c);
    read_learned_positions(c, "max_position_embeddings");
    c.may("dropout", "hidden_dropout_prob");
}

void read_neox(HubValues& c) {
    read_sizes(c);
    c.may("dropout", "hidden_dropout");
}

double all_but_every(int nth, int layers) { return 1 - static_cast<double>(layers / nth) / layers; }

// Which layers attend to a window: all of them, those of layer_types, all but every n-th (sliding_window_pattern), those past
// the first ones (Qwen's max_window_layers).
double share_of_windows(const HubValues& c, int layers) {
    double share = 1;
    if (c.states("max_window_layers") && c.of("max_window_layers").is_number())
        share = 1 - std::min(c.of("max_window_layers").get<double>() / layers, 1.0);
    if (c.states("sliding_window_pattern") && c.of("sliding_window_pattern").is_number_integer())
        if (const auto nth = c.of("sliding_window_pattern").get<std::int64_t>(); nth > 0)
            share = all_but_every(static_cast<int>(std::min<std::int64_t>(nth, layers + 1)), layers);
    if (!c.states("layer_types")) return share;
    double windowed = 0;
    for (const auto& type : c.of("layer_types")) {
        const auto text = type.is_string() ? type.get<std::string>() : type.dump();
        if (text == "sliding_attention" || text == "chunked_attention")
            ++windowed;
        else if (text != "full_attention")
            c.fail("layer_types", "\"" + text + "\" is no kind of layer that is modelled; expected full_attention or "
                                  "sliding_attention");
    }
    const auto told = static_cast<double>(c.of("layer_types").size());
    return told > 0 ? windowed / told : 1;
}

// Qwen's windows are off unless switched on. Where no layer has one, one that the user sets is of all layers.
void read_window(HubValues& c, const char* name = "sliding_window") {
    Workload& w = c.workload();
    w.window = 0;
    if (c.flag("use_sliding_window", !c.states("max_window_layers"))) c.may("window", name);
    w.window_share = share_of_windows(c, w.layers);
    if (w.window == 0 || w.window_share == 0) {
        w.window = 0;
        w.window_share = 1;
    }
}

// Leading layers without experts: [0, 1, 2] of mlp_only_layers, [0, 0, 1, 1, ..] of moe_layer_freq.
void read_dense_layers(HubValues& c) {
    if (c.states("mlp_only_layers")) {
        int expected = 0;
        for (const auto& layer : c.of("mlp_only_layers"))
            if (!layer.is_number_integer() || layer != expected++)
                c.fail("mlp_only_layers", "dense layers that are not the first ones are not modelled");
        if (expected > 0) c.workload().moe.dense_layers = expected;
    }
    if (!c.states("moe_layer_freq")) return;
    if (!c.of("moe_layer_freq").is_array()) return c.may("moe.interval", "moe_layer_freq");
    int dense = 0, at = 0;
    for (const auto& layer : c.of("moe_layer_freq")) {
        const bool experts = !layer.is_number() || layer != 0;
        if (!experts && dense++ != at) c.fail("moe_layer_freq", "only leading zeros are modelled");
        ++at;
    }
    c.workload().moe.dense_layers = dense;
}

void read_llama(HubValues& c) {
    read_sizes_and_biases(c);
    read_window(c);
}

// A type that is not known: biases by the names in use, and the library's own default for tied embeddings.
void read_shape_of_llama(HubValues& c) {
    c.workload().tied = c.flag("tie_word_embeddings", true);
    read_llama(c);
    Workload& w = c.workload();
    for (const char* name : {"use_qkv_bias", "qkv_bias", "add_qkv_bias"}) w.qkv_bias = c.flag(name, w.qkv_bias);
    w.linear_bias = c.flag("use_bias", w.linear_bias);
    if (!c.states("rms_norm_eps") && (c.states("layer_norm_eps") || c.states("layer_norm_epsilon"))) w.norm = Norm::layernorm;
}

// Biases everywhere, LayerNorm, and no gate (arXiv 2402.19173).
void read_starcoder2(HubValues& c) {
    read_shape_of_llama(c);
    Workload& w = c.workload();
    w.norm = Norm::layernorm;
    w.gated = c.states("mlp_type") && c.of("mlp_type") == "gated";
    w.linear_bias = w.qkv_bias = c.flag("use_bias", true);
}

// Experts, under any of the names in use.
void read_experts(HubValues& c) {
    read_llama(c);
    c.need("moe.experts", c.first({"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}));
    c.need("moe.top_k", c.first({"num_experts_per_tok", "moe_k"}));
    c.may("moe.shared_experts", c.first({"n_shared_experts", "moe_num_shared_experts"}));
    c.may("moe.shared_ffn", c.first({"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"}));
    if (c.states("shared_expert_intermediate_size")) c.workload().moe.shared_experts = 1;
    c.may("moe.dense_layers", c.first({"first_k_dense_replace", "moe_layer_start_index"}));
    c.may("moe.interval", c.first({"decoder_sparse_step", "moe_layer_interval", "interleave_moe_layer_step"}));
    read_dense_layers(c);
    c.may("moe.groups", "n_group");
    c.may("moe.top_groups", "topk_group");
}

// .. of a width that is not that of dense layers.
void read_narrow_experts(HubValues& c) {
    read_experts(c);
    c.need("moe.ffn", "moe_intermediate_size");
}

void read_qwen2_experts(HubValues& c) {
    read_narrow_experts(c);
    c.workload().qkv_bias = true;
}

void read_gemma(HubValues& c) {
    read_llama(c);
    c.workload().tied = c.flag("tie_word_embeddings", true);
    c.note("gemma: norms behind each block and caps of the scores are not in the forecast");
}

// Where the file does not say which layers slide: all but every n-th (Gemma 2, arXiv 2408.00118; Gemma 3, arXiv 2503.19786).
template <int nth>
void read_sliding_gemma(HubValues& c) {
    read_gemma(c);
    if (!c.states("layer_types") && !c.states("sliding_window_pattern")) c.workload().window_share = all_but_every(nth, c.workload().layers);
}

void read_gpt_oss(HubValues& c) {
    read_llama(c);
    c.need("moe.experts", "num_local_experts");
    c.may("moe.top_k", c.first({"num_experts_per_tok", "experts_per_token"}));
    c.workload().qkv_bias = c.flag("attention_bias", true);
    c.workload().linear_bias = true;
}

void read_llama4(HubValues& c) {
    read_experts(c);
    Workload& w = c.workload();
    w.moe.shared_experts = 1;
    w.moe.ffn = w.ffn;
    w.moe.shared_ffn = w.ffn;
    c.may("ffn", "intermediate_size_mlp");
    if (!c.states("attention_chunk_size")) return;
    read_window(c, "attention_chunk_size");
    if (!c.states("layer_types")) w.window_share = 0.75;  // every fourth layer sees all
    c.note("attention_chunk_size: read as a sliding window of as many tokens, which sees up to twice as many as a chunk");
}

// Mamba-2 and attention blocks over as many layers as there are feed-forwards, under Nemotron-H's names or Bamba's. Where Mamba
// blocks are more or fewer than layers, each layer has one of so many more or fewer heads.
void lay_mixers(HubValues& c, double mamba, double attention) {
    Workload& w = c.workload();
    w.mamba.attention = attention / w.layers;
    c.need("mamba.heads", c.first({"mamba_num_heads", "mamba_n_heads"}));
    const double heads = w.mamba.heads;
    w.mamba.heads = static_cast<int>(std::lround(heads * mamba / w.layers));
    if (mamba != w.layers)
        c.note(std::to_string(static_cast<int>(mamba)) + " Mamba blocks over " + std::to_string(w.layers) + " layers: read as one a layer of " +
               std::to_string(w.mamba.heads) + " heads instead of " + std::to_string(static_cast<int>(heads)));
    for (const char* name : {"mamba_head_dim", "mamba_d_head"})
        if (c.states(name) && c.of(name) != "auto") c.may("mamba.head_dim", name);
    c.may("mamba.state", c.first({"ssm_state_size", "mamba_d_state"}));
    c.may("mamba.groups", c.first({"n_groups", "mamba_n_groups"}));
}

// A pattern of blocks: M a Mamba-2 block, - a feed-forward, E experts, * attention.
void read_nemotron_h(HubValues& c) {
    if (!c.states("hybrid_override_pattern") || !c.of("hybrid_override_pattern").is_string())
        c.fail("hybrid_override_pattern", "missing; expected a text of M, -, E and *");
    const auto pattern = c.of("hybrid_override_pattern").get<std::string>();
    const auto count = [&](char block) { return static_cast<int>(std::ranges::count(pattern, block)); };
    const int forward = count('-') + count('E');
    if (count('M') == 0 || forward == 0) c.fail("hybrid_override_pattern", "expected Mamba and feed-forward blocks");
    if (count('-') > 0 && count('E') > 0) c.fail("hybrid_override_pattern", "dense blocks between those with experts are not modelled");
    count('E') > 0 ? read_narrow_experts(c) : read_llama(c);
    Workload& w = c.workload();
    w.layers = forward;
    w.gated = false;
    w.activation = Activation::relu;
    w.positions = Positions::none;
    lay_mixers(c, count('M'), count('*'));
    c.may("head_dim", c.first({"attention_head_dim", "head_dim"}));
}

// Before each feed-forward a Mamba-2 block or attention (Bamba, Granite 4.0), or both side by side (Falcon-H1, arXiv 2507.22448).
void read_mamba_or_attention(HubValues& c) {
    read_sizes_and_biases(c);
    Workload& w = c.workload();
    if (c.states("position_embedding_type") && c.of("position_embedding_type") == "nope") w.positions = Positions::none;
    const bool both = !c.states("layer_types") && !c.states("attn_layer_indices");
    std::size_t attention = c.states("attn_layer_indices") ? c.of("attn_layer_indices").size() : 0;
    if (c.states("layer_types")) attention = static_cast<std::size_t>(std::ranges::count(c.of("layer_types"), Json("attention")));
    if (attention > static_cast<std::size_t>(w.layers)) c.fail("attn_layer_indices", "more blocks than layers");
    lay_mixers(c, both ? w.layers : w.layers - static_cast<double>(attention), both ? w.layers : static_cast<double>(attention));
    c.may("moe.experts", "num_local_experts");
    if (w.moe.experts == 0) return c.may("ffn", "shared_intermediate_size");
    c.need("moe.top_k", "num_experts_per_tok");
    w.moe.shared_experts = 1;
    c.need("moe.shared_ffn", "shared_intermediate_size");
}

void read_ernie_experts(HubValues& c) {
    read_narrow_experts(c);
    Workload& w = c.workload();
    w.tied = c.flag("tie_word_embeddings", true);
    if (c.states("moe_layer_end_index") && c.of("moe_layer_end_index") != -1 && c.of("moe_layer_end_index") < w.layers - 1)
        c.fail("moe_layer_end_index", "dense layers behind those with experts are not modelled");
}

void read_deepseek(HubValues& c) {
    read_narrow_experts(c);
    c.workload().attention = AttentionKind::mla;
    c.may("mla.q_rank", "q_lora_rank");
    c.need("mla.kv_rank", "kv_lora_rank");
    c.need("mla.nope_dim", "qk_nope_head_dim");
    c.need("mla.rope_dim", "qk_rope_head_dim");
    c.need("mla.value_dim", "v_head_dim");
}

template <void (*read)(HubValues&)>
void read_with_router_bias(HubValues& c) {
    read(c);
    c.workload().moe.router_bias = true;
}

// What the text part of a multimodal Gemma 3 leaves out, because it is its library's default.
constexpr std::string_view gemma3_defaults = R"({"num_hidden_layers": 26, "hidden_size": 2304, "intermediate_size": 9216, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208, "sliding_window": 4096})";

constexpr std::array<ModelType, 38> types{{
    {"gpt2", read_gpt2}, {"bert", read_bert}, {"gpt_neox", read_neox}, {"gptj", read_gptj}, {"phi", read_llama},
    {"persimmon", read_llama}, {"starcoder2", read_starcoder2}, {"nemotron", read_llama}, {"llama", read_llama}, {"mistral", read_llama},
    {"mixtral", read_experts}, {"minimax_m2", read_experts}, {"qwen2", read_llama}, {"qwen3", read_llama},
    {"qwen3_moe", read_narrow_experts}, {"qwen2_moe", read_qwen2_experts}, {"gemma", read_gemma},
    {"gemma2", read_sliding_gemma<2>}, {"gemma3_text", read_sliding_gemma<6>, gemma3_defaults}, {"phi3", read_llama},
    {"olmo", read_llama}, {"olmo2", read_llama}, {"olmoe", read_experts}, {"granite", read_llama},
    {"granitemoe", read_experts}, {"granitemoehybrid", read_mamba_or_attention}, {"gpt_oss", read_gpt_oss},
    {"llama4", read_llama4}, {"llama4_text", read_llama4}, {"nemotron_h", read_nemotron_h},
    {"bamba", read_mamba_or_attention}, {"falcon_h1", read_mamba_or_attention}, {"ernie4_5_moe", read_ernie_experts},
    {"kimi_k2", read_with_router_bias<read_deepseek>}, {"glm4", read_llama}, {"glm4_moe", read_with_router_bias<read_narrow_experts>},
    {"deepseek_v2", read_deepseek}, {"deepseek_v3", read_with_router_bias<read_deepseek>}}};

}  // namespace

std::span<const ModelType> model_types() { return types; }
const ModelType& shape_of_llama() {
    static constexpr ModelType type{"llama", read_shape_of_llama};
    return type;
}

}  // namespace stepcast
