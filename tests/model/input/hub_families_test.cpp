// Each rule of model/input/hub_families.cpp: which field sets what. All sizes differ.

#include <filesystem>

#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/experiment.h"
#include "model/input/families.h"
#include "model/input/hub_config.h"
#include "tests/model/files.h"

using namespace stepcast;
using Catch::Contains;

namespace {

// A config.json of this type with 12 layers of width 64, 4 heads, inner width 240 and 1000 words,
// with as many heads for keys and values.
HubConfig of_type(const std::string& type, const std::string& fields = "") {
    const TestFolder folder;
    return read_hub_config(
        folder.write("config.json", "{\"model_type\": \"" + type +
                                        "\", \"num_hidden_layers\": 12, \"hidden_size\": 64, "
                                        "\"num_attention_heads\": 4, \"num_key_value_heads\": 4, "
                                        "\"intermediate_size\": 240, \"vocab_size\": 1000" +
                                        (fields.empty() ? "" : ", ") + fields + "}"));
}
Workload workload_of(const std::string& type, const std::string& fields = "") {
    return of_type(type, fields).workload;
}
Moe experts_of(const std::string& type, const std::string& fields) {
    return workload_of(type, fields).moe;
}
std::string refusal_of_family(const std::string& type, const std::string& fields) {
    return complaint([&] { of_type(type, fields); });
}

const std::string routed =
    R"("n_routed_experts": 48, "num_experts_per_tok": 6, "moe_intermediate_size": 32, "n_shared_experts": 3, "first_k_dense_replace": 2)";

}  // namespace

TEST_CASE("each family's experts stand under names of its own") {
    CHECK(
        experts_of(
            "ernie4_5_moe",
            R"("moe_num_experts": 16, "moe_k": 3, "moe_intermediate_size": 32, "moe_num_shared_experts": 5,
                                        "moe_layer_start_index": 2, "moe_layer_interval": 4, "moe_layer_end_index": 11)") ==
        Moe{.experts = 16,
            .top_k = 3,
            .shared_experts = 5,
            .ffn = 32,
            .dense_layers = 2,
            .interval = 4});
    CHECK(
        experts_of(
            "qwen2_moe",
            R"("num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 32, "decoder_sparse_step": 3,
                                     "shared_expert_intermediate_size": 96, "mlp_only_layers": [])") ==
        Moe{.experts = 60,
            .top_k = 4,
            .shared_experts = 1,
            .ffn = 32,
            .shared_ffn = 96,
            .interval = 3,
            .shared_gate = true});
    CHECK(
        experts_of(
            "qwen3_moe",
            R"("num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 32, "moe_layer_freq": 2)") ==
        Moe{.experts = 60, .top_k = 4, .ffn = 32, .interval = 2});
    CHECK(
        experts_of(
            "deepseek_v2",
            R"("kv_lora_rank": 16, "qk_nope_head_dim": 24, "qk_rope_head_dim": 8, "v_head_dim": 12, "n_group": 8, "topk_group": 5, )" +
                routed) == Moe{.experts = 48,
                               .top_k = 6,
                               .shared_experts = 3,
                               .ffn = 32,
                               .dense_layers = 2,
                               .groups = 8,
                               .top_groups = 5});
    CHECK(
        experts_of(
            "kimi_k2",
            R"("kv_lora_rank": 16, "qk_nope_head_dim": 24, "qk_rope_head_dim": 8, "v_head_dim": 12, "moe_layer_freq": [0, 1], )" +
                routed) == Moe{.experts = 48,
                               .top_k = 6,
                               .shared_experts = 3,
                               .ffn = 32,
                               .dense_layers = 1,
                               .groups = 8,
                               .top_groups = 4,
                               .router_bias = true});
    CHECK(experts_of("glm4_moe", R"("moe_layer_freq": 2, )" + routed) == Moe{.experts = 48,
                                                                             .top_k = 6,
                                                                             .shared_experts = 3,
                                                                             .ffn = 32,
                                                                             .dense_layers = 2,
                                                                             .interval = 2,
                                                                             .router_bias = true});
    CHECK(experts_of("gpt_oss", R"("num_local_experts": 32, "num_experts_per_tok": 5)") ==
          Moe{.experts = 32, .top_k = 5});
    CHECK(experts_of("minimax_m2", R"("num_local_experts": 32, "num_experts_per_tok": 5)") ==
          Moe{.experts = 32, .top_k = 5});
    CHECK(experts_of("llama4_text", R"("num_local_experts": 16, "num_experts_per_tok": 1)") ==
          Moe{.experts = 16, .top_k = 1, .shared_experts = 1, .ffn = 240, .shared_ffn = 240});
    CHECK(
        experts_of(
            "granitemoehybrid",
            R"("mamba_n_heads": 8, "num_local_experts": 16, "num_experts_per_tok": 3, "shared_intermediate_size": 96)") ==
        Moe{.experts = 16, .top_k = 3, .shared_experts = 1, .shared_ffn = 96});
    CHECK_THAT(refusal_of_family(
                   "granitemoehybrid",
                   R"("mamba_n_heads": 8, "num_local_experts": 16, "num_experts_per_tok": 3)"),
               Contains("shared_intermediate_size: missing"));
    CHECK_THAT(
        refusal_of_family(
            "ernie4_5_moe",
            R"("moe_num_experts": 16, "moe_k": 3, "moe_intermediate_size": 32, "moe_layer_end_index": 10)"),
        Contains("moe_layer_end_index: dense layers behind those with experts are not modelled"));
    CHECK(
        experts_of(
            "ernie4_5_moe",
            R"("moe_num_experts": 16, "moe_k": 3, "moe_intermediate_size": 32, "moe_layer_end_index": -1)")
            .experts == 16);
    CHECK_THAT(refusal_of_family("qwen3_moe", R"("num_experts": 60, "num_experts_per_tok": 4)"),
               Contains("moe_intermediate_size: missing"));
    CHECK(experts_of("olmoe", R"("num_experts": 64, "num_experts_per_tok": 8)") ==
          Moe{.experts = 64, .top_k = 8});
    CHECK(workload_of("olmoe", R"("num_experts": 64, "num_experts_per_tok": 8)").layers == 12);
    CHECK_THAT(refusal_of_family("mixtral", R"("num_local_experts": 8)"),
               Contains("num_experts_per_tok: missing"));
}

TEST_CASE("latents, further predictions and what they need") {
    const std::string latents =
        R"("q_lora_rank": 20, "kv_lora_rank": 16, "qk_nope_head_dim": 24, "qk_rope_head_dim": 8, "v_head_dim": 12, )";
    const HubConfig deepseek =
        of_type("deepseek_v3", latents + R"("num_nextn_predict_layers": 2, )" + routed);
    CHECK(is_latent(deepseek.workload));
    CHECK(deepseek.workload.mla == Mla{20, 16, 24, 8, 12});
    CHECK(deepseek.workload.moe.router_bias);
    REQUIRE(deepseek.notes.size() == 1);
    CHECK_THAT(deepseek.notes[0], Contains("--set workload.mtp_layers=2"));
    CHECK(of_type("deepseek_v2", latents + R"("num_nextn_predict_layers": 0, )" + routed)
              .notes.empty());
    CHECK_THAT(refusal_of_family("deepseek_v2", routed), Contains("kv_lora_rank: missing"));
}

// MiniMax-M2 has three modules of one layer, switched by use_mtp; a number written as text is
// ignored.
TEST_CASE("every name of multi-token prediction gets its note") {
    const std::string experts = R"("num_local_experts": 32, "num_experts_per_tok": 5, )";
    const HubConfig minimax =
        of_type("minimax_m2", experts + R"("use_mtp": true, "num_mtp_modules": 3)");
    REQUIRE(minimax.notes.size() == 1);
    CHECK(minimax.notes[0] ==
          "num_mtp_modules: the forecast trains without multi-token prediction; with it: --set "
          "workload.mtp_layers=3");
    CHECK(
        of_type("minimax_m2", experts + R"("use_mtp": false, "num_mtp_modules": 3)").notes.empty());
    CHECK(of_type("minimax_m2", experts + R"("num_mtp_modules": 0)").notes.empty());
    CHECK(of_type("glm4_moe", R"("num_nextn_predict_layers": "one", )" + routed).notes.empty());
}

TEST_CASE(
    "what is no causal decoder, or no decoder of a kind that is modelled, is refused by name") {
    for (const char* encoder : {"roberta", "modernbert", "xlm-roberta", "deberta-v2", "Dream"})
        CHECK_THAT(refusal_of_family(encoder, ""),
                   Contains(std::string("model_type: \"") + encoder +
                            "\" is not modelled: its attention is not causal"));
    // HRM-Text of 16 layers in each of two stacks runs 2 x (3 + 1) x 16 of them for a token, and
    // its saved file has these 128 as num_hidden_layers
    CHECK_THAT(
        refusal_of_family("hrm_text", R"("H_cycles": 2, "L_cycles": 3)"),
        Contains("\"hrm_text\" is not modelled: its layers run several times for each token"));
    Experiment e;
    CHECK_THROWS_WITH(set_key(e, {"workload.family", "encoders"}),
                      Contains("encoders.toml: is not modelled: its attention is not causal"));
    CHECK_THAT(refusal_of_family("newcomer", R"("use_bidirectional_attention": true)"),
               Contains("has no rule"));
    CHECK_THAT(of_type("newcomer").notes.at(0),
               Contains("read as Llama's shape: causal, gated feed-forward, RMSNorm unless stated, "
                        "rotary positions"));
}

TEST_CASE("biases, ties, dropout and positions are as the file says, else as the family has them") {
    for (const char* off : {"attention_bias", "mlp_bias"})
        CHECK_FALSE(workload_of("llama", std::string("\"") + off + "\": false").linear_bias);
    CHECK(workload_of("llama", R"("attention_bias": true)").qkv_bias);
    CHECK(workload_of("llama", R"("mlp_bias": true)").linear_bias);
    CHECK(
        workload_of(
            "bamba",
            R"("mamba_n_heads": 8, "attention_bias": true, "mlp_bias": true, "tie_word_embeddings": true)")
            .qkv_bias);
    CHECK(workload_of("bamba", R"("mamba_n_heads": 8, "mlp_bias": true)").linear_bias);
    CHECK(workload_of("bamba", R"("mamba_n_heads": 8, "tie_word_embeddings": true)").tied);
    CHECK(workload_of("bamba", R"("mamba_n_heads": 8, "position_embedding_type": "rope")")
              .positions == Positions::rotary);
    CHECK(workload_of("qwen2_moe",
                      R"("num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32)")
              .qkv_bias);
    CHECK_FALSE(
        workload_of("qwen3_moe",
                    R"("num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32)")
            .qkv_bias);
    const Workload oss =
        workload_of("gpt_oss", R"("num_local_experts": 8, "attention_bias": false)");
    CHECK_FALSE(oss.qkv_bias);
    CHECK(oss.linear_bias);
    CHECK(workload_of("gemma").tied);
    CHECK_FALSE(workload_of("gemma", R"("tie_word_embeddings": false)").tied);
    CHECK(workload_of("ernie4_5_moe",
                      R"("moe_num_experts": 16, "moe_k": 3, "moe_intermediate_size": 32)")
              .tied);
    CHECK(of_type("gemma").notes.empty());
    CHECK_THAT(of_type("gemma2").notes.back(), Contains("caps of scores"));
    for (const char* type : {"gpt_neox", "phi", "cohere"})
        CHECK_THAT(of_type(type).notes.back(), Contains("side by side behind one norm"));
    CHECK_THAT(of_type("gptj", R"("n_layer": 3, "n_embd": 32, "n_head": 2)").notes.at(0),
               Contains("side by side"));
    CHECK(of_type("gpt_neox", R"("use_parallel_residual": false)").notes.empty());
    CHECK((workload_of("cohere").norm == Norm::layernorm && workload_of("cohere").tied));
    CHECK(
        workload_of("gpt_neox", R"("hidden_dropout": 0.25, "tie_word_embeddings": true)").dropout ==
        0.25);
    CHECK(workload_of("gpt_neox", R"("tie_word_embeddings": true)").tied);
    CHECK(workload_of("bert", R"("max_position_embeddings": 512)").tied);
    CHECK_FALSE(
        workload_of("bert", R"("max_position_embeddings": 512, "tie_word_embeddings": false)")
            .tied);
    CHECK_FALSE(workload_of("gpt_neox", R"("tie_word_embeddings": false)").tied);
    const Workload bert =
        workload_of("bert", R"("max_position_embeddings": 512, "hidden_dropout_prob": 0.125)");
    CHECK(bert.seq == 512);
    CHECK(bert.max_positions == 512);
    CHECK(bert.dropout == 0.125);
    const Workload gpt2 = workload_of(
        "gpt2",
        R"("n_layer": 3, "n_embd": 32, "n_head": 2, "n_positions": 64, "tie_word_embeddings": false)");
    CHECK(gpt2.ffn == 128);
    CHECK_FALSE(gpt2.tied);
    CHECK(
        workload_of("gpt2",
                    R"("n_layer": 3, "n_embd": 32, "n_head": 2, "n_positions": 64, "n_inner": 80)")
            .ffn == 80);
    CHECK(workload_of("newcomer", R"("add_qkv_bias": true)").qkv_bias);
    CHECK(workload_of("newcomer", R"("use_bias": true)").linear_bias);
    CHECK_FALSE(workload_of("newcomer", R"("use_bias": false)").linear_bias);
    CHECK(workload_of("newcomer", R"("rms_norm_eps": 1e-5, "layer_norm_epsilon": 1e-5)").norm ==
          Norm::rmsnorm);
    CHECK(workload_of("newcomer", R"("layer_norm_epsilon": 1e-5)").norm == Norm::layernorm);
    const Workload heads = workload_of("llama", R"("num_key_value_heads": 2, "head_dim": 24)");
    CHECK(heads.kv_heads == 2);
    CHECK(heads.head_dim == 24);
}

TEST_CASE("norms and activations that a type has without saying so") {
    CHECK(workload_of("olmo2").qk_norm);
    CHECK_FALSE(workload_of("olmo").qk_norm);
    CHECK(workload_of("glm4").post_norms);
    CHECK_FALSE(workload_of("bert", R"("max_position_embeddings": 512)").fp32_loss);
    CHECK(workload_of("gpt_neox").fp32_loss);
    const Workload opt = workload_of("opt", R"("ffn_dim": 96)");
    CHECK(opt.activation == Activation::relu);
    CHECK(opt.ffn == 96);
    CHECK(opt.positions == Positions::learned);
    CHECK(opt.tied);
    CHECK(opt.seq == 2048);            // OPTConfig's own value
    CHECK(opt.max_positions == 2050);  // positions begin at the third row
    CHECK(workload_of("opt", R"("ffn_dim": 96, "max_position_embeddings": 700)").seq == 700);
    CHECK(workload_of("opt", R"("ffn_dim": 96, "max_position_embeddings": 700)").max_positions ==
          702);
    CHECK(workload_of("bert", R"("max_position_embeddings": 512)").token_types ==
          2);  // BertConfig's own value
    CHECK(workload_of("bert", R"("max_position_embeddings": 512, "type_vocab_size": 5)")
              .token_types == 5);
    CHECK(workload_of("bert", R"("max_position_embeddings": 512, "type_vocab_size": 0)")
              .token_types == 0);
    CHECK(workload_of("opt",
                      R"("ffn_dim": 96, "word_embed_proj_dim": 64, "do_layer_norm_before": true)")
              .ffn == 96);
    CHECK_THAT(refusal_of_family("opt", R"("ffn_dim": 96, "word_embed_proj_dim": 32)"),
               Contains("word_embed_proj_dim: an embedding narrower"));
    CHECK_THAT(refusal_of_family("opt", R"("ffn_dim": 96, "do_layer_norm_before": false)"),
               Contains("do_layer_norm_before: norms behind blocks"));
}

// 12 layers: every fifth has no window (2 of 12), or those from the ninth on have one (3 of 12).
TEST_CASE("windows, in the share of layers that slide") {
    CHECK(workload_of("mistral", R"("sliding_window": 128, "use_sliding_window": false)").window ==
          0);
    CHECK(workload_of("mistral", R"("sliding_window": 128, "sliding_window_pattern": 5)")
              .window_share == Approx(10.0 / 12));
    CHECK(workload_of("mistral", R"("sliding_window": 128, "sliding_window_pattern": 0)")
              .window_share == 1);
    CHECK(workload_of("mistral", R"("sliding_window": 128, "sliding_window_pattern": 1)").window ==
          0);
    const Workload qwen = workload_of(
        "qwen2", R"("sliding_window": 128, "use_sliding_window": true, "max_window_layers": 9)");
    CHECK(qwen.window == 128);
    CHECK(qwen.window_share == 0.25);
    CHECK(
        workload_of("qwen2",
                    R"("sliding_window": 128, "use_sliding_window": true, "max_window_layers": 24)")
            .window == 0);
    CHECK(workload_of("gemma3_text", R"("sliding_window": 128)").window_share ==
          Approx(10.0 / 12));  // every sixth has none
    CHECK(workload_of("gemma2", R"("sliding_window": 128)").window_share == 0.5);
    CHECK(workload_of("mistral", R"("sliding_window": 128, "sliding_window_pattern": "LLLG")")
              .window_share == 0.75);
    CHECK(workload_of("llama", R"("layer_types": [], "sliding_window": 128)").window_share == 1);
    const std::string experts =
        R"("num_local_experts": 16, "num_experts_per_tok": 1, "attention_chunk_size": 96)";
    const HubConfig chunked = of_type("llama4", experts);
    CHECK(chunked.workload.window == 96);
    CHECK(chunked.workload.window_share == 0.75);
    CHECK_THAT(chunked.notes.back(), Contains("attention_chunk_size: read as a sliding window"));
    CHECK(of_type("llama4", R"("num_local_experts": 16, "num_experts_per_tok": 1)").notes.empty());
    CHECK(workload_of("llama4",
                      experts + R"(, "layer_types": ["chunked_attention", "full_attention"])")
              .window_share == 0.5);
}

// No layer of these files has a window, so a window that the user sets applies to all 12 layers:
// their share is 1.
TEST_CASE("where no layer slides a window of the user's is of all layers") {
    for (const char* none :
         {R"("use_sliding_window": false, "sliding_window": null, "max_window_layers": 12)",
          R"("use_sliding_window": false, "sliding_window": 128, "max_window_layers": 9)",
          R"("use_sliding_window": true, "sliding_window": 128, "max_window_layers": 12)",
          R"("sliding_window": null, "layer_types": ["full_attention", "full_attention"])"}) {
        const Workload w = workload_of("qwen3", none);
        CHECK(w.window == 0);
        CHECK(w.window_share == 1);
    }
}

// A file of 12 layers that lists 3 attention layers has 9 Mamba blocks: with 8 heads these are 8 x
// 9 / 12 = 6 per layer.
TEST_CASE("Mamba-2 blocks under both families of names") {
    const HubConfig bamba = of_type(
        "bamba",
        R"("attn_layer_indices": [1, 5, 9], "mamba_n_heads": 8, "mamba_d_head": 24, "mamba_d_state": 40, "mamba_n_groups": 2, "shared_intermediate_size": 96)");
    CHECK(bamba.workload.mamba == Mamba{6, 24, 40, 2, 0.25});
    CHECK(bamba.workload.ffn == 96);
    REQUIRE(bamba.notes.size() == 1);
    CHECK(bamba.notes[0] ==
          "9 Mamba blocks over 12 layers: read as one a layer of 6 heads instead of 8");
    const HubConfig both = of_type("falcon_h1", R"("mamba_n_heads": 8, "mamba_d_head": "auto")");
    // FalconH1Config: 1024 over all heads, states of 256, one group
    CHECK(both.workload.mamba == Mamba{8, 1024 / 8, 256, 1, 1});
    CHECK(both.notes.empty());
    CHECK_THAT(
        refusal_of_family(
            "bamba",
            R"("mamba_n_heads": 8, "attn_layer_indices": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])"),
        Contains("more blocks than layers"));
    CHECK(workload_of(
              "bamba",
              R"("mamba_n_heads": 8, "attn_layer_indices": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])")
              .mamba.attention == 1);
    const std::string names =
        R"("mamba_num_heads": 8, "mamba_head_dim": 24, "ssm_state_size": 40, "n_groups": 2, "attention_head_dim": 20, "head_dim": 16)";
    const Workload dense =
        workload_of("nemotron_h", R"("hybrid_override_pattern": "M-M*-M-", )" + names);
    CHECK(dense.layers == 3);
    CHECK(dense.mamba == Mamba{8, 24, 40, 2, 1.0 / 3});
    CHECK(dense.head_dim == 20);
    CHECK_FALSE(dense.gated);
    CHECK(dense.activation == Activation::squared_relu);
    CHECK(dense.positions == Positions::none);
    CHECK(dense.moe == Moe{});
    CHECK(
        workload_of(
            "nemotron_h",
            R"("hybrid_override_pattern": "MEME", "n_routed_experts": 16, "num_experts_per_tok": 3, "moe_intermediate_size": 32,
                                       "n_shared_experts": 2, "moe_shared_expert_intermediate_size": 96, )" +
                names)
            .moe ==
        Moe{.experts = 16, .top_k = 3, .shared_experts = 2, .ffn = 32, .shared_ffn = 96});
    CHECK_THAT(refusal_of_family("nemotron_h", names),
               Contains("hybrid_override_pattern: missing"));
    CHECK_THAT(refusal_of_family("nemotron_h", R"("hybrid_override_pattern": "*-", )" + names),
               Contains("expected Mamba and feed-forward blocks"));
    CHECK_THAT(refusal_of_family("nemotron_h", R"("hybrid_override_pattern": "M*", )" + names),
               Contains("expected Mamba and feed-forward blocks"));
    CHECK_THAT(refusal_of_family("nemotron_h", R"("hybrid_override_pattern": "M-ME", )" + names),
               Contains("dense blocks between those with experts"));
    CHECK_THAT(
        refusal_of_family(
            "nemotron_h",
            R"("hybrid_override_pattern": "ME", "n_routed_experts": 16, "num_experts_per_tok": 3, )" +
                names),
        Contains("moe_intermediate_size: missing"));
}

// Each would change the forecast silently: Nemotron 3 Super has 121 billion weights, without its
// latent width 459.
TEST_CASE("fields that change the work and that no rule reads are refused by name") {
    const std::string latents =
        R"("kv_lora_rank": 16, "qk_nope_head_dim": 24, "qk_rope_head_dim": 8, "v_head_dim": 12, )" +
        routed;
    const std::string hybrid =
        R"("hybrid_override_pattern": "MEM*E", "mamba_num_heads": 8, )" + routed;
    CHECK_THAT(refusal_of_family("nemotron_h", hybrid + R"(, "moe_latent_size": 1024)"),
               Contains("moe_latent_size: found 1024; a latent width of experts is not modelled; "
                        "expected a file without it"));
    CHECK_THAT(refusal_of_family("deepseek_v3", latents + R"(, "index_topk": 2048)"),
               Contains("index_topk: found 2048; sparse attention is not modelled"));
    CHECK_THAT(refusal_of_family("gemma3_text", R"("use_bidirectional_attention": true)"),
               Contains("use_bidirectional_attention: found true; attention to later tokens"));
    CHECK(experts_of("nemotron_h", hybrid + R"(, "moe_latent_size": null)").experts == 48);
    CHECK(experts_of("deepseek_v3", latents + R"(, "index_topk": 0)").experts == 48);
    CHECK(workload_of("gemma3_text", R"("use_bidirectional_attention": false)").layers == 12);
}

// DeepseekV32Config: 2048 keys of 64 heads of 128. An index_topk of null selects none.
TEST_CASE("an indexer is read with its heads and the keys that it selects") {
    const std::string sizes =
        R"("q_lora_rank": 48, "kv_lora_rank": 16, "qk_nope_head_dim": 24, "qk_rope_head_dim": 8, "v_head_dim": 12, )" +
        routed;
    const HubConfig sparse = of_type(
        "deepseek_v32", sizes + R"(, "index_topk": 512, "index_n_heads": 6, "index_head_dim": 20)");
    CHECK(sparse.workload.indexer == Indexer{6, 20, 512});
    CHECK(sparse.workload.window == 0);
    CHECK(is_latent(sparse.workload));
    CHECK(sparse.notes.empty());
    CHECK(workload_of("deepseek_v32", sizes).indexer == Indexer{64, 128, 2048});
    CHECK(workload_of("deepseek_v32", sizes + R"(, "index_topk": null)").indexer == Indexer{});
    CHECK(
        of_type("deepseek_v32", sizes + R"(, "layer_types": ["indexed_attention"])").notes.empty());
    for (const char* shared : {R"("indexer_types": ["full", "shared"])", R"("index_topk_freq": 2)",
                               R"("index_topk_pattern": "FS")"})
        CHECK(of_type("glm_moe_dsa", sizes + ", " + shared).notes ==
              std::vector<std::string>{
                  "layers that take the selection of the indexer before them: the forecast has an "
                  "indexer in every layer"});
    CHECK(of_type("glm_moe_dsa", sizes + R"(, "index_topk_freq": 1)").notes.empty());
}

// Qwen3NextConfig: 16 key and 32 value heads of 128 and attention in every fourth layer. Qwen3.5's
// dense models have the same layers; those with experts have no dense layer and state no width.
TEST_CASE("gated delta nets are read with the layers that have attention") {
    const std::string experts =
        R"("num_experts": 48, "num_experts_per_tok": 6, "moe_intermediate_size": 32)";
    const Workload next = workload_of("qwen3_next", experts);
    CHECK(next.delta == Delta{.value_heads = 32, .key_heads = 16});
    CHECK(next.attention_gate);
    CHECK(next.qk_norm);
    CHECK(next.head_dim == 256);
    CHECK(next.moe.shared_gate);
    CHECK(next.moe.shared_ffn == 512);
    const std::string sizes =
        R"("linear_num_key_heads": 3, "linear_num_value_heads": 6, "linear_key_head_dim": 20, "linear_value_head_dim": 24, "linear_conv_kernel_dim": 5, )";
    const Delta stated{
        .value_heads = 6, .key_heads = 3, .key_dim = 20, .value_dim = 24, .conv = 5, .interval = 3};
    CHECK(workload_of("qwen3_5_text", sizes + R"("full_attention_interval": 3)").delta == stated);
    std::string kinds;
    for (int layer = 0; layer < 12; ++layer)
        kinds += layer % 3 == 2 ? R"(, "full_attention")" : R"(, "linear_attention")";
    const std::string listed = sizes + R"("layer_types": [)" + kinds.substr(2);
    CHECK(workload_of("qwen3_5_text", listed + "]").delta == stated);
    CHECK_THAT(refusal_of_family("qwen3_5_text", listed + R"(, "full_attention"])"),
               Contains("layer_types: layer 12 is \"full_attention\"; expected linear_attention, "
                        "and full_attention in every n-th layer"));
    CHECK_FALSE(workload_of("qwen3_5_text", sizes + R"("attn_output_gate": false)").attention_gate);
    CHECK(workload_of("qwen3_5_moe_text", experts).moe.shared_gate);
}

// Kimi's delta attention has factors by channel; the count of OLMo Hybrid is in
// hub_counts_test.cpp.
TEST_CASE("OLMo Hybrid has Qwen3-Next's delta nets, Kimi Linear is refused by name") {
    const std::string nets =
        R"("linear_num_key_heads": 30, "linear_num_value_heads": 30, "linear_key_head_dim": 96, "linear_value_head_dim": 192)";
    const Workload hybrid = workload_of("olmo_hybrid", nets);
    CHECK(hybrid.delta ==
          Delta{.value_heads = 30, .key_heads = 30, .key_dim = 96, .value_dim = 192});
    CHECK(hybrid.qk_norm);
    CHECK_FALSE(hybrid.attention_gate);
    CHECK_THAT(refusal_of_family("olmo_hybrid", R"("hidden_size": 3840)"),
               Contains("linear_num_value_heads: missing"));
    CHECK_THAT(refusal_of_family("kimi_linear", R"("hidden_size": 3840)"),
               Contains("Kimi delta attention"));
}

// Qwen3-VL's file has the sizes in the text part, and tie and type for all parts above it.
TEST_CASE("what stands above the text part holds where that is silent") {
    const TestFolder folder;
    const auto parts = [&](const std::string& above, const std::string& within) {
        return read_hub_config(
                   folder.write(
                       "config.json",
                       R"({"model_type": "qwen3_vl", )" + above +
                           R"("text_config": {"model_type": "qwen3_vl_text", )" + within +
                           R"("num_hidden_layers": 12, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 240, "vocab_size": 1000}})"))
            .workload;
    };
    CHECK_FALSE(parts("", "").tied);  // Qwen3VLConfig
    CHECK_FALSE(parts(R"("tie_word_embeddings": false, )", "").tied);
    CHECK_FALSE(
        parts(R"("tie_word_embeddings": false, )", R"("tie_word_embeddings": null, )").tied);
    CHECK(parts(R"("tie_word_embeddings": false, )", R"("tie_word_embeddings": true, )").tied);
    CHECK(parts(R"("torch_dtype": "float32", )", "").dtype == Dtype::fp32);
    CHECK(parts(R"("dtype": "float16", )", "").dtype == Dtype::fp16);
    CHECK(parts(R"("torch_dtype": "float32", )", R"("dtype": "float16", )").dtype == Dtype::fp16);
}

// The file states layers under the second of the rule's names or the first. The type itself sets
// heads. Four times 64 is an inner width that no key gives.
TEST_CASE("a home of one's own may say how a type is read; what is no key and no rule is refused") {
    const auto read = [](const std::string& more, const std::string& fields = "") {
        const TestFolder folder;
        std::filesystem::create_directories(folder.path() + "/model/presets");
        folder.write("model/presets/hub.toml",
                     "[need.own]\nlayers = [\"depth\", \"num_hidden_layers\"]\n[may.own]\nhidden = "
                     "[\"hidden_size\"]\n"
                     "[[type]]\nnames = [\"own\"]\nset = [\"gated=false\", \"heads=8\"]\nkeys = "
                     "[\"own\"]\n" +
                         more);
        const TestHome home(folder.path());
        return of_type("own", fields).workload;
    };
    const Workload own = read("");
    CHECK(own.layers == 12);
    CHECK(own.hidden == 64);
    CHECK(own.heads == 8);
    CHECK(own.ffn == 256);
    CHECK_FALSE(own.gated);
    CHECK(own.norm == Norm::rmsnorm);  // llama's norm, as no family has this type
    CHECK(read("", R"("depth": 3)").layers == 3);
    CHECK_THAT(complaint([&] { read("rules = [\"guess\"]\n"); }),
               Contains("hub.toml: type.rules: \"guess\" is no rule"));
    CHECK_THAT(complaint([&] { read("[may.own.wrong]\nlayerz = [\"a\"]\n"); }),
               Contains("no key of a workload in a group"));
    CHECK_THAT(complaint([&] { read("[unready]\na = \"b\"\n"); }),
               Contains("unknown key; expected need, may, unread, defaults, text_parts"));
    CHECK_THAT(complaint([&] { read("[unread]\nnum_attention_heads = \"a head\"\n"); }),
               Contains("num_attention_heads: found 4; a head is not modelled"));
}
