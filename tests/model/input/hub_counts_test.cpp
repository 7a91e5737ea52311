// What a config.json that states sizes only means: each type against the model that its own library
// builds from the same file (tests/model/input/hub_counts.csv), and published models of types
// that the library or only its users know, with counts by hand.

#include <cmath>

#include <catch2/catch.hpp>

#include "model/base/csv.h"
#include "model/input/families.h"
#include "model/input/hub_config.h"
#include "model/input/presets.h"
#include "model/transformer/counts.h"
#include "tests/model/files.h"

using namespace stepcast;
using Catch::Contains;

namespace {

HubConfig read_hub_model(const std::string& text) {
    const TestFolder folder;
    return read_hub_config(folder.write("config.json", text));
}
double counted_of_model(const std::string& text) {
    return count_parameters(read_hub_model(text).workload).total();
}

std::string notes_of(const std::string& text) {
    std::string notes;
    for (const std::string& note : read_hub_model(text).notes) notes += note + "\n";
    return notes;
}
std::string refusal_of_model(const std::string& text) {
    return complaint([&] { read_hub_model(text); });
}

}  // namespace

// `apart` says by how many weights the model here differs, and `why`: each such number is a product
// of the file's sizes.
TEST_CASE(
    "a file of sizes only means what its library's class makes of it, for every type that has "
    "one") {
    CsvReader table(home_folder() + "/tests/model/input/hub_counts.csv");
    REQUIRE(table.next_after_comments());
    REQUIRE(table.fields() == std::vector<std::string>{"type", "parameters", "windows", "tied",
                                                       "apart", "why", "config"});
    int types = 0;
    for (; table.next(); ++types) {
        table.expect_fields(7);
        const auto& row = table.fields();
        INFO(row[0] << ": " << row[5]);
        const Workload w = read_hub_model(row[6]).workload;
        CHECK(count_parameters(w).total() == std::stod(row[1]) + std::stod(row[4]));
        CHECK((w.window > 0 ? std::lround(w.window_share * w.layers) : 0) == std::stol(row[2]));
        CHECK(w.tied == (row[3] == "true"));
        CHECK((row[4] == "0") == row[5].empty());
    }
    CHECK(types > 80);
}

// By hand. Falcon 7B (arXiv 2311.16867): a layer of 71 heads of 64, one key and value head: 4544 x
// (4544 + 128) + 4544^2, 8 x 4544^2, here two norms of 2 x 4544 where Falcon has one; 32 layers;
// table 65024 x 4544; last norm 9088. Published: 6,921,720,704.
TEST_CASE("Falcon's generations have one key and value head, or a number of their own") {
    const std::string falcon7 =
        R"({"model_type": "falcon", "hidden_size": 4544, "num_attention_heads": 71, "num_hidden_layers": 32, "vocab_size": 65024,
        "multi_query": true, "new_decoder_architecture": false, "parallel_attn": true, "bias": false, "alibi": false})";
    CHECK(counted_of_model(falcon7) == 6'921'720'704 + 32 * 2 * 4544);
    CHECK(read_hub_model(falcon7).workload.kv_heads == 1);
    CHECK_THAT(notes_of(falcon7), Contains("side by side"));
    // 40B: 60 layers of 8192, 8 of 128 heads for keys and values, two norms: 60 x (2 x 8192^2 + 2 x
    // 8192 x 512 + 8 x 8192^2 + 4 x 8192) + 65024 x 8192 + 2 x 8192 = 41,303,293,952, as published.
    // The first releases call the type RefinedWeb, and heads n_head.
    CHECK(
        counted_of_model(
            R"({"model_type": "RefinedWeb", "hidden_size": 8192, "n_head": 128, "n_head_kv": 8, "n_layer": 60, "vocab_size": 65024,
                      "parallel_attn": true, "bias": false, "alibi": false})") == 41'303'293'952);
    // 180B: 80 layers of 14848, 232 heads of 64, 8 for keys and values.
    CHECK(
        counted_of_model(
            R"({"model_type": "falcon", "hidden_size": 14848, "num_attention_heads": 232, "num_kv_heads": 8, "num_hidden_layers": 80,
                      "vocab_size": 65024, "new_decoder_architecture": true})") ==
        80.0 * (2.0 * 14848 * 14848 + 2.0 * 14848 * 512 + 8.0 * 14848 * 14848 + 4 * 14848) +
            65024.0 * 14848 + 2 * 14848);
    // Falcon RW: ALiBi, biases, a head for keys and values each.
    const auto rw = read_hub_model(
        R"({"model_type": "falcon", "hidden_size": 2048, "num_attention_heads": 32, "num_hidden_layers": 24, "vocab_size": 50304,
                             "multi_query": false, "parallel_attn": false, "bias": true, "alibi": true})");
    CHECK(rw.workload.kv_heads == 0);
    CHECK(rw.workload.qkv_bias);
    CHECK(rw.workload.positions == Positions::none);
    CHECK_THAT(rw.notes.at(0), Contains("ALiBi"));
}

// Of allenai/Olmo-Hybrid-7B by hand (transformers 5.24.0, models/olmo_hybrid): a delta net has 3840
// x (2 x 2880 + 2 x 5760 + 2 x 30) + 4 x (2 x 2880 + 5760) + 2 x 30 + 192 + 5760 x 3840 weights,
// attention 4 x 3840^2 + 2 x 3840, each layer 3 x 3840 x 11008 + 2 x 3840; 24 and 8 of them, two
// tables of 100352 x 3840 and a norm. Norms of queries and keys are a head wide here.
TEST_CASE("OLMo Hybrid counts as its library's class") {
    CHECK(
        counted_of_model(
            R"({"model_type": "olmo_hybrid", "hidden_size": 3840, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 30,
                      "vocab_size": 100352, "linear_num_key_heads": 30, "linear_num_value_heads": 30, "linear_key_head_dim": 96,
                      "linear_value_head_dim": 192})") ==
        24.0 * (3840.0 * (2 * 2880 + 2 * 5760 + 60) + 4 * 11520 + 60 + 192 + 5760 * 3840.0) +
            8.0 * (4.0 * 3840 * 3840 + 2 * 128) + 32.0 * (3.0 * 3840 * 11008 + 2 * 3840) +
            2.0 * 100352 * 3840 + 3840);
}

// MPT 7B: 32 x 12 x 4096^2 + 50432 x 4096 and 65 norms of 4096, here with biases: 6,649,286,656
// published. BLOOM 176B: 70 layers of 14336: 176,247,271,424 published, without its norm behind the
// embedding. StarCoder 15.5B: 40 layers of 6144, keys and values of one head of 128. CodeGen 16B:
// 34 layers of 6144. GPT-Neo 2.7B: 32 layers of 2560, half of them with windows of 256.
TEST_CASE("decoders of 2021 to 2023 under their own names of sizes") {
    CHECK(
        counted_of_model(
            R"({"model_type": "mpt", "d_model": 4096, "n_heads": 32, "n_layers": 32, "expansion_ratio": 4, "vocab_size": 50432, "no_bias": true,
                      "attn_config": {"alibi": true, "attn_type": "multihead_attention"}})") ==
        6'649'286'656 + 65 * 4096);
    CHECK(
        counted_of_model(
            R"({"model_type": "bloom", "hidden_size": 14336, "n_head": 112, "n_layer": 70, "vocab_size": 250880})") ==
        176'247'271'424 - 2 * 14336);
    CHECK(
        counted_of_model(
            R"({"model_type": "bloom", "n_embed": 14336, "num_attention_heads": 112, "n_layer": 70, "vocab_size": 250880})") ==
        176'247'271'424 - 2 * 14336);
    const double layer = 6144.0 * (6144 + 256) + 6144 + 256 + 6144.0 * 6144 + 6144 +
                         2 * 6144.0 * 24576 + 24576 + 6144 + 4 * 6144;
    const std::string starcoder =
        R"({"model_type": "gpt_bigcode", "n_embd": 6144, "n_head": 48, "n_layer": 40, "n_inner": 24576, "n_positions": 8192,
                                      "vocab_size": 49152, "multi_query": true})";
    CHECK(counted_of_model(starcoder) ==
          40 * layer + (49152.0 + 8192) * 6144 + 2 * 6144);  // 15,517,456,384
    CHECK(read_hub_model(starcoder).workload.kv_heads == 1);
    CHECK(
        counted_of_model(
            R"({"model_type": "codegen", "n_embd": 6144, "n_head": 24, "n_layer": 34, "n_positions": 2048, "vocab_size": 51200})") ==
        34 * (12 * 6144.0 * 6144 + 6144 * 6 + 4 * 6144) + 2 * 51200.0 * 6144 + 2 * 6144);
    const auto neo = read_hub_model(
        R"({"model_type": "gpt_neo", "hidden_size": 2560, "num_heads": 20, "num_layers": 32, "max_position_embeddings": 2048,
                              "vocab_size": 50257, "window_size": 256, "attention_types": [[["global", "local"], 16]]})");
    CHECK(count_parameters(neo.workload).total() ==
          32 * (12 * 2560.0 * 2560 + 6 * 2560 + 4 * 2560) + (50257.0 + 2048) * 2560 + 2 * 2560);
    CHECK(neo.workload.window == 256);
    CHECK(neo.workload.window_share == 0.5);
}

// ChatGLM3 6B: queries 4096, two groups of 128 for keys and values with biases 4608, result 4096^2,
// gate and up 2 x 13696, two norms: 28 x 203,960,832 + 2 x 65024 x 4096 + 4096. The first ChatGLM
// is another model.
TEST_CASE("ChatGLM, EXAONE, InternLM2, Baichuan and MiniCPM") {
    const std::string glm =
        R"({"model_type": "chatglm", "num_layers": 28, "hidden_size": 4096, "num_attention_heads": 32, "ffn_hidden_size": 13696,
        "kv_channels": 128, "multi_query_attention": true, "multi_query_group_num": 2, "padded_vocab_size": 65024, "add_qkv_bias": true,
        "add_bias_linear": false, "rmsnorm": true, "original_rope": true, "seq_length": 8192, "tie_word_embeddings": false)";
    CHECK(counted_of_model(glm + "}") == 6'243'584'000);
    CHECK(notes_of(glm + "}").empty());
    CHECK_THAT(refusal_of_model(glm + R"(, "inner_hidden_size": 16384})"),
               Contains("inner_hidden_size: the first ChatGLM is not modelled"));
    // EXAONE 3.0 7.8B, published as 7.8 B: 32 x (2 x 4096^2 + 2 x 4096 x 1024 + 3 x 4096 x 14336 +
    // 8192) + 2 x 102400 x 4096 + 4096.
    CHECK(
        counted_of_model(
            R"({"model_type": "exaone", "num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
                      "intermediate_size": 14336, "vocab_size": 102400, "activation_function": "silu", "tie_word_embeddings": false})") ==
        7'818'448'896);
    // InternLM2 7B: 7,737,708,544 published: as Llama, with 8 heads for keys and values and 92544
    // words.
    const std::string intern =
        R"({"model_type": "internlm2", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
                      "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 92544)";
    CHECK(counted_of_model(intern + R"(, "bias": false})") == 7'737'708'544);
    CHECK(read_hub_model(intern + "}").workload.qkv_bias);
    const std::string baichuan =
        R"({"model_type": "baichuan", "num_hidden_layers": 40, "hidden_size": 5120, "num_attention_heads": 40, "intermediate_size": 13696, "vocab_size": 125696)";
    CHECK(counted_of_model(baichuan + R"(, "model_max_length": 4096})") ==
          40 * (4 * 5120.0 * 5120 + 3 * 5120.0 * 13696 + 2 * 5120) + 2 * 125696.0 * 5120 + 5120);
    CHECK_THAT(notes_of(baichuan + R"(, "model_max_length": 4096})"), Contains("ALiBi"));
    CHECK(read_hub_model(baichuan + R"(, "max_position_embeddings": 4096})").workload.positions ==
          Positions::rotary);
    CHECK(
        read_hub_model(
            R"({"model_type": "minicpm", "num_hidden_layers": 40, "hidden_size": 2304, "num_attention_heads": 36, "intermediate_size": 5760, "vocab_size": 122753})")
            .workload.tied);
}

// By hand, each layer's experts E x 3 x hidden x ffn, the router E x hidden, attention, two norms,
// and both tables; published: dots.llm1 142 B (14 B at work), Ling-lite 16.8 B, Hunyuan-A13B 80 B,
// Phi-3.5-MoE 41.9 B, DeepSeekMoE 16.4 B, Qwen3-VL-30B 30.5 B of text, DBRX 132 B, Grok-1 314 B.
TEST_CASE("mixtures of experts under their own names of sizes") {
    const auto experts = [](double of, double hidden, double ffn) {
        return of * 3 * hidden * ffn + of * hidden;
    };
    // One dense layer of 10944 first; biases of the router, and norms of queries and keys over 128.
    CHECK(
        counted_of_model(
            R"({"model_type": "dots1", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128, "num_hidden_layers": 62,
                      "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 128, "n_shared_experts": 2, "num_experts_per_tok": 6,
                      "first_k_dense_replace": 1, "vocab_size": 152064, "tie_word_embeddings": false})") ==
        62 * (4 * 4096.0 * 4096 + 2 * 4096 + 2 * 128) + 3 * 4096.0 * 10944 +
            61 * (experts(128, 4096, 1408) + 128 + 3 * 4096.0 * 2816) + 2 * 152064.0 * 4096 + 4096);
    CHECK(
        counted_of_model(
            R"({"model_type": "bailing_moe", "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128, "num_hidden_layers": 28,
                      "intermediate_size": 5632, "moe_intermediate_size": 1408, "num_experts": 64, "num_shared_experts": 2, "num_experts_per_tok": 6,
                      "vocab_size": 126464, "use_bias": false, "use_qkv_bias": false, "norm_head": true})") ==
        28 * (2048.0 * 5120 + experts(64, 2048, 1408) + 3 * 2048.0 * 2816 + 2 * 2048) +
            2 * 126464.0 * 2048 + 2048);
    const std::string hunyuan =
        R"({"model_type": "hunyuan_v1_moe", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 4,
        "attention_head_dim": 128, "intermediate_size": 3072, "moe_intermediate_size": [3072, 3072, 3072, 3072], "num_experts": 64, "moe_topk": [8, 8, 8, 8],
        "num_shared_expert": [1, 1, 1, 1], "use_qk_norm": true, "use_mixed_mlp_moe": true, "vocab_size": 128167, "tie_word_embeddings": true)";
    CHECK(counted_of_model(hunyuan + "}") ==
          4 * (4096.0 * 128 * 80 + 256 + experts(64, 4096, 3072) + 3 * 4096.0 * 3072 + 2 * 4096) +
              128167.0 * 4096 + 4096);
    CHECK(read_hub_model(hunyuan + "}").workload.moe.top_k == 8);
    CHECK(
        read_hub_model(
            hunyuan +
            R"(, "n_group": false, "topk_group": false, "kv_lora_rank": null, "use_cla": false, "cla_share_factor": 2})")
            .notes.empty());
    CHECK_THAT(
        refusal_of_model(hunyuan + R"(, "use_cla": true})"),
        Contains("use_cla: found true; attention that shares keys and values between layers"));
    CHECK(
        counted_of_model(
            R"({"model_type": "phimoe", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32,
                      "intermediate_size": 6400, "num_local_experts": 16, "num_experts_per_tok": 2, "vocab_size": 32064})") ==
        41'872'793'600);
    CHECK(
        counted_of_model(
            R"({"model_type": "deepseek", "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 16, "num_hidden_layers": 28,
                      "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
                      "first_k_dense_replace": 1, "moe_layer_freq": 1, "vocab_size": 102400, "scoring_func": "softmax", "norm_topk_prob": false})") ==
        16'375'728'128);
    const auto qwen = read_hub_model(
        R"({"model_type": "qwen3_vl_moe", "tie_word_embeddings": false, "vision_config": {"depth": 27}, "text_config":
        {"model_type": "qwen3_vl_moe_text", "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "num_hidden_layers": 48,
         "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1,
         "mlp_only_layers": [], "vocab_size": 151936}})");
    CHECK(count_parameters(qwen.workload).total() == 30'532'122'624);
    CHECK(
        counted_of_model(
            R"({"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "vocab_size": 100352, "attn_config": {"kv_n_heads": 8, "clip_qkv": 8,
                      "rope_theta": 500000}, "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4, "ffn_act_fn": {"name": "silu"}}})") ==
        40 * (6144.0 * 128 * 112 + experts(16, 6144, 10752) + 4 * 6144) + 2 * 100352.0 * 6144 +
            2 * 6144);
    CHECK(
        counted_of_model(
            R"({"model_type": "grok-1", "hidden_size": 6144, "num_attention_heads": 48, "num_key_value_heads": 8, "num_hidden_layers": 64,
                      "intermediate_size": 32768, "num_experts": 8, "num_experts_per_tok": 2, "vocab_size": 131072})") ==
        64 * (6144.0 * 128 * 112 + experts(8, 6144, 32768) + 4 * 6144) + 131072.0 * 6144 + 6144);
}

namespace {

const std::string llama =
    R"("num_hidden_layers": 6, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 2048, "vocab_size": 9000)";
std::string unknown(const std::string& more) {
    return R"({"model_type": "newcomer", "tie_word_embeddings": false, )" + llama + ", " + more +
           "}";
}

}  // namespace

// A list of equal values is one value: 3 heads for keys and values in each layer.
TEST_CASE("what an unknown type states and nobody reads is named") {
    const auto uniform =
        read_hub_model(unknown(R"("num_key_value_heads_per_layer": [3, 3, 3, 3, 3, 3])"));
    CHECK(uniform.workload.kv_heads == 3);
    CHECK(uniform.notes.size() == 1);
    CHECK_THAT(refusal_of_model(unknown(R"("num_key_value_heads_per_layer": [3, 3, 3, 6, 3, 3])")),
               Contains("layers that differ in it are not modelled"));
    CHECK_THAT(refusal_of_model(unknown(R"("head_dim": [64, 32])")),
               Contains("head_dim: found [64,32]; layers that differ"));
    for (const char* key : {"total_ut_steps", "num_loops", "num_recursions",
                            "attention_window_pattern", "kv_share_every", "attn_output_gate",
                            "block_types", "use_gated_attention", "num_kv_shared_layers",
                            "depth_multiplexing", "n_passes", "hyper_streams", "ngram_tables"}) {
        const auto notes = notes_of(unknown(std::string("\"") + key + "\": 3"));
        CHECK_THAT(notes,
                   Contains(std::string("not read, and perhaps more work than is forecast: ") +
                            key + " = 3;"));
    }
    CHECK_THAT(
        notes_of(unknown(R"("block_types": ["recurrent", "attention"], "attn_output_gate": true)")),
        Contains(R"(attn_output_gate = true, block_types = ["recurrent","attention"])"));
    CHECK_THAT(notes_of(unknown(R"("inner": {"loops": 2})")), Contains("inner.loops = 2"));
    for (const char* quiet :
         {R"("attn_output_gate": false)", R"("num_loops": null)", R"("rope_theta": 5e5)",
          R"("bos_token_id": 7)", R"("initializer_range": 0.02)", R"("rms_norm_eps": 1e-6)",
          R"("block_types": [])", R"("router_aux_loss_coef": 0.1)", R"("hidden_act": "silu")",
          R"("quantization_config": {"bits": 8})"})
        CHECK(read_hub_model(unknown(quiet)).notes.size() == 1);  // that the type is not known
}

// The library's own default says nothing: another value does, if the name speaks of work.
TEST_CASE(
    "what a known type states beside its defaults and no rule asks for is named, if its name "
    "speaks of work") {
    const auto known = [&](const std::string& more) {
        return notes_of(R"({"model_type": "llama", "num_key_value_heads": 4, )" + llama + ", " +
                        more + "}");
    };
    for (const char* key : {"num_loops", "attn_output_gate", "num_kv_shared_layers", "mamba_state",
                            "window_pattern", "num_experts", "moe_topk", "mtp_depth"})
        CHECK_THAT(known(std::string("\"") + key + "\": 2"), Contains(key + std::string(" = 2")));
    for (const char* quiet :
         {R"("pretraining_tp": 1)", R"("note": "by us")", R"("rope_scaling": {"factor": 8})",
          R"("attention_dropout": 0.0)", R"("torch_dtype": "bfloat16")",
          R"("transformers_version": "4.40")", R"("num_loops": 0)",
          R"("use_sliding_window": false)", R"("max_position_embeddings": 8192)"})
        CHECK(known(quiet).empty());
    CHECK_THAT(
        notes_of(
            R"({"model_type": "phimoe", "num_key_value_heads": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "lm_head_bias": true, )" +
            llama + "}"),
        Contains("lm_head_bias = true"));
    CHECK_THAT(
        notes_of(
            R"({"model_type": "seed_oss", "num_key_value_heads": 4, "attention_out_bias": true, )" +
            llama + "}"),
        Contains("attention_out_bias = true"));
}

// Qwen2 has windows only if `use_sliding_window` is stated; Mistral has them unless null; Dots by
// `max_window_layers` alone.
TEST_CASE("defaults of windows, experts and heads are those of the type's class") {
    const auto of = [&](const std::string& type, const std::string& more) {
        return read_hub_model(R"({"model_type": ")" + type + R"(", )" + llama + more + "}")
            .workload;
    };
    for (const char* type : {"qwen2", "qwen3"}) {
        CHECK(of(type, R"(, "num_key_value_heads": 4, "sliding_window": 512)").window == 0);
        CHECK(
            of(type, R"(, "num_key_value_heads": 4, "sliding_window": 512, "max_window_layers": 2)")
                .window == 0);
        const auto on = of(
            type,
            R"(, "num_key_value_heads": 4, "sliding_window": 512, "use_sliding_window": true, "max_window_layers": 2)");
        CHECK(on.window == 512);
        CHECK(on.window_share == Approx(4.0 / 6));
    }
    CHECK(of("mistral", R"(, "num_key_value_heads": 4)").window == 4096);
    CHECK(of("mistral", R"(, "num_key_value_heads": 4, "sliding_window": null)").window == 0);
    CHECK(of("mistral", R"(, "num_key_value_heads": null, "num_attention_heads": 16)").kv_heads ==
          0);  // null: as many as heads
    CHECK(of("mistral", R"(, "num_attention_heads": 16)").kv_heads == 8);
    CHECK_THAT(notes_of(R"({"model_type": "mistral", )" + llama + "}"),
               Contains("num_key_value_heads: not stated, and the default of its library, 8, does "
                        "not divide 12 heads"));
    const auto qwen_experts = [&](const std::string& type, const std::string& width) {
        return of(type,
                  R"(, "num_key_value_heads": 4, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 128)" +
                      width)
            .moe;
    };
    CHECK(qwen_experts("qwen3_moe", R"(, "shared_expert_intermediate_size": 0)").shared_experts ==
          0);
    CHECK(qwen_experts("qwen2_moe", R"(, "shared_expert_intermediate_size": 0)").shared_experts ==
          0);
    CHECK(qwen_experts("qwen2_moe", R"(, "shared_expert_intermediate_size": 640)").shared_ffn ==
          640);
    CHECK(qwen_experts("qwen2_moe", "").shared_ffn == 5632);  // Qwen2MoeConfig
    CHECK(qwen_experts("qwen3_moe", "").shared_experts == 0);
    CHECK(of("gpt_oss", R"(, "num_key_value_heads": 4, "num_local_experts": 8)").window_share ==
          0.5);
    CHECK(of("bert", R"(, "max_position_embeddings": 128)").token_types == 2);
    // OPT's table of positions has two rows that no token uses.
    const auto opt =
        read_hub_model(
            R"({"model_type": "opt", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "ffn_dim": 96, "vocab_size": 1000,
                              "max_position_embeddings": 512})")
            .workload;
    CHECK(opt.max_positions == 514);
    CHECK(opt.seq == 512);
}

TEST_CASE("dense layers by kind, Mamba blocks by name, and lists that are no leading layers") {
    const std::string glm =
        R"({"model_type": "glm4_moe_lite", "q_lora_rank": 32, "kv_lora_rank": 16, "qk_nope_head_dim": 24, "qk_rope_head_dim": 8, "v_head_dim": 12,
        "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 96, )" +
        llama + R"(, "mlp_layer_types": )";
    CHECK(read_hub_model(glm + R"(["dense", "dense", "sparse", "sparse", "sparse", "sparse"]})")
              .workload.moe.dense_layers == 2);
    CHECK_THAT(refusal_of_model(glm + R"(["dense", "sparse", "dense"]})"),
               Contains("mlp_layer_types: expected dense layers first"));
    const auto hybrid =
        read_hub_model(
            R"({"model_type": "nemotron_h", "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 256, "vocab_size": 1000,
        "mamba_num_heads": 8, "layers_block_type": ["linear_attention", "mlp", "full_attention", "mlp"]})")
            .workload;
    CHECK(hybrid.layers == 2);
    CHECK(hybrid.mamba.attention == 0.5);
    CHECK_THAT(
        refusal_of_model(
            R"({"model_type": "nemotron_h", "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 256, "vocab_size": 1000,
        "mamba_num_heads": 8, "layers_block_type": ["mlp", "conv"]})"),
        Contains("\"conv\" is no kind of block"));
    CHECK(read_hub_model(
              R"({"model_type": "bamba", "mamba_n_heads": 8, "attn_layer_indices": null, )" +
              llama + "}")
              .workload.mamba.attention == 0);
}

// The text part has the sizes of the model that it names; only presets are known by name.
TEST_CASE("a text part that is only named is a preset, or told to be said") {
    const auto named = [](const std::string& name) {
        return R"({"model_type": "see", "text_config": {"_name_or_path": ")" + name +
               R"(", "model_type": "llama", "vocab_size": 32064}, "vision_config": {}})";
    };
    const auto known = read_hub_model(named("meta-llama/Llama-2-7b-chat-hf"));
    CHECK(known.workload.layers == 32);
    CHECK(known.workload.vocab == 32064);
    CHECK_THAT(
        known.notes.at(0),
        Contains(
            "names \"meta-llama/Llama-2-7b-chat-hf\" without sizes; read as the preset llama2-7b"));
    CHECK(read_hub_model(named("Qwen/Qwen3-30B-A3B-Instruct")).workload.moe.experts == 128);
    CHECK(read_hub_model(named("meta-llama/Meta-Llama-3-8B")).workload.ffn == 14336);
    CHECK_THAT(refusal_of_model(named("our/text-9b")),
               Contains("text_config: states no sizes, only that its model is \"our/text-9b\", "
                        "which is no preset; expected --model"));
    CHECK_THAT(refusal_of_model(R"({"model_type": "see", "text_config": {"model_type": "llama"}})"),
               Contains("text_config: states no sizes; expected --model"));
    // Partly stated: the rest has the defaults of the type, and a note says which.
    const auto part = read_hub_model(
        R"({"model_type": "see", "llm_config": {"model_type": "gemma3_text", "hidden_size": 1024, "num_hidden_layers": 6, "intermediate_size": 3072}})");
    CHECK(part.workload.heads == 8);
    CHECK(part.workload.vocab == 262208);
    CHECK_THAT(part.notes.at(1), Contains("not stated, so the defaults of its library: "
                                          "num_attention_heads 8, vocab_size 262208"));
}
