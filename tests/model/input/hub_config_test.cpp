#include "model/input/hub_config.h"
#include "measured/read.h"
#include "model/experiment.h"
#include "model/input/families.h"
#include "model/transformer/counts.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

Workload read_workload(const std::string& text) {
    const TestFolder folder;
    return read_hub_config(folder.write("config.json", text)).workload;
}

double counted(const std::string& text) { return count_parameters(read_workload(text)).total(); }

std::string told(const std::string& text) {
    const TestFolder folder;
    return complaint([&] { read_hub_config(folder.write("config.json", text)); }, folder.path());
}

const std::string llama3_8b =
    R"({"model_type": "llama", "architectures": ["x"], "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 128256, "max_position_embeddings": 8192, "tie_word_embeddings": false, "torch_dtype": "bfloat16"})";

}  // namespace

// The counts of transformer/counts_test.cpp; Qwen2-0.5B has 494,032,768 (tied, biases of queries,
// keys, values).
TEST_CASE("config files of model hubs give the published parameter counts") {
    CHECK(counted(llama3_8b) == 8'030'261'248);
    CHECK(
        counted(
            R"({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024,
                      "n_inner": null, "vocab_size": 50257})") == 124'439'808);
    CHECK(counted(R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
                      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
                      "num_local_experts": 8, "num_experts_per_tok": 2})") == 46'702'792'704);
    CHECK(counted(R"({"model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432,
                      "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128,
                      "vocab_size": 129280, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
                      "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 256, "num_experts_per_tok": 8,
                      "moe_intermediate_size": 2048, "n_shared_experts": 1, "first_k_dense_replace": 3,
                      "moe_layer_freq": 1})") == 671'026'419'200);
    CHECK(
        counted(
            R"({"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
                      "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936,
                      "tie_word_embeddings": true})") == 494'032'768);
    CHECK(
        counted(
            R"({"model_type": "bert", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
                      "num_attention_heads": 16, "vocab_size": 30522, "max_position_embeddings": 512})") ==
        334'092'288);
}

// Qwen3-0.6B has 28 layers with two norms of 128 each: 28 x 256 weights. Gemma 2 2B has two more
// norms of 2304 in each of 26 layers. The first Qwen states both halves of its gated feed-forward
// together: 80 x (4 x 8192^2 + 3 x 8192 x 24576 + 3 x 8192 + 2 x 8192) + 2 x 152064 x 8192 + 8192.
TEST_CASE(
    "norms of queries and keys and behind blocks, and the first Qwen's width, come with the type") {
    const std::string qwen3 =
        R"({"model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "head_dim": 128,
                      "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 151936, "tie_word_embeddings": true})";
    CHECK(counted(qwen3) == 596'049'920);
    CHECK(read_workload(qwen3).qk_norm);
    const std::string gemma2 =
        R"({"model_type": "gemma2", "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "head_dim": 256,
                      "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 256000, "sliding_window": 4096})";
    CHECK(counted(gemma2) == 2'614'341'888);
    CHECK(read_workload(gemma2).post_norms);
    CHECK(
        counted(
            R"({"model_type": "qwen", "hidden_size": 8192, "intermediate_size": 49152, "num_hidden_layers": 80, "num_attention_heads": 64,
                      "kv_channels": 128, "no_bias": true, "vocab_size": 152064})") ==
        72'287'920'128);
}

// Published sizes, with totals as transformers 5 builds these models. The last digits, which norms
// of queries and keys and biases of convolutions and routers decide, are not compared.
TEST_CASE(
    "hybrids, experts and text parts of further families have the weights that their library "
    "builds") {
    const std::string mixed =
        R"("mamba_d_state": 128, "mamba_n_groups": 1, "num_key_value_heads": 8, "num_attention_heads": 32, "tie_word_embeddings": false, )";
    // 29 Mamba-2 blocks and 3 of attention, 32 feed-forwards.
    CHECK(
        counted(
            R"({"model_type": "bamba", "attn_layer_indices": [9, 18, 27], "hidden_size": 4096, "intermediate_size": 14336,
                      "mamba_d_head": 64, "mamba_n_heads": 128, "num_hidden_layers": 32, )" +
            mixed + R"("vocab_size": 128256})") == Approx(9'780'235'392).epsilon(1e-3));
    // Attention and Mamba side by side in each of 44 layers.
    CHECK(
        counted(
            R"({"model_type": "falcon_h1", "head_dim": 128, "hidden_size": 3072, "intermediate_size": 12288, "mamba_d_head": 128,
                      "mamba_d_state": 256, "mamba_n_groups": 1, "mamba_n_heads": 24, "num_attention_heads": 12, "num_hidden_layers": 44,
                      "num_key_value_heads": 2, "tie_word_embeddings": false, "vocab_size": 130048})") ==
        Approx(7'585'513'568).epsilon(1e-4));
    // Nemotron Nano 9B v2: 27 Mamba-2, 25 feed-forward, 4 attention blocks.
    const auto nano = read_workload(
        R"({"model_type": "nemotron_h", "hybrid_override_pattern": "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-",
                      "head_dim": 128, "hidden_size": 4480, "intermediate_size": 15680, "mamba_head_dim": 80, "mamba_num_heads": 128,
                      "n_groups": 8, "ssm_state_size": 128, "num_attention_heads": 40, "num_hidden_layers": 56, "num_key_value_heads": 8,
                      "tie_word_embeddings": false, "vocab_size": 131072})");
    CHECK(nano.layers == 25);
    CHECK(nano.mamba.heads == 138);  // 128 x 27 / 25
    CHECK(nano.mamba.attention == Approx(4.0 / 25));
    CHECK(count_parameters(nano).total() == Approx(8'888'227'328).epsilon(3e-3));
    // Granite 4.0 tiny: 36 and 4 blocks, 64 experts of 512, a shared one of 1024.
    std::string kinds;
    for (int i = 0; i < 40; ++i) kinds += i % 10 == 5 ? R"("attention",)" : R"("mamba",)";
    kinds.pop_back();
    const auto granite =
        read_workload(R"({"model_type": "granitemoehybrid", "layer_types": [)" + kinds +
                      R"(], "hidden_size": 1536, "intermediate_size": 512,
                      "mamba_d_head": 64, "mamba_d_state": 128, "mamba_n_groups": 1, "mamba_n_heads": 48, "num_attention_heads": 12,
                      "num_experts_per_tok": 6, "num_hidden_layers": 40, "num_key_value_heads": 4, "num_local_experts": 64,
                      "position_embedding_type": "nope", "shared_intermediate_size": 1024, "tie_word_embeddings": true, "vocab_size": 100352})");
    CHECK(granite.positions == Positions::none);
    CHECK(count_parameters(granite).total() == Approx(6'939'037'248).epsilon(1e-3));
    CHECK(
        counted(
            R"({"model_type": "ernie4_5_moe", "hidden_size": 2560, "intermediate_size": 12288, "moe_intermediate_size": 1536,
                      "moe_k": 6, "moe_layer_end_index": 28, "moe_layer_interval": 1, "moe_layer_start_index": 1, "moe_num_experts": 64,
                      "moe_num_shared_experts": 2, "num_attention_heads": 20, "num_hidden_layers": 28, "num_key_value_heads": 4,
                      "tie_word_embeddings": true, "use_bias": false, "vocab_size": 103424})") ==
        Approx(21'825'437'888).epsilon(1e-4));
    // Gemma 3 4B's file leaves out its library's defaults: heads and vocabulary.
    const auto gemma = read_workload(
        R"({"model_type": "gemma3", "text_config": {"hidden_size": 2560, "intermediate_size": 10240,
                      "model_type": "gemma3_text", "num_hidden_layers": 34, "sliding_window": 1024}})");
    CHECK(count_parameters(gemma).total() == Approx(3'880'263'168).epsilon(1e-4));
    CHECK(gemma.window_share == Approx(29.0 / 34));  // 5 of 34 layers have no window
}

// Published: 7,173,923,840, 6,050,882,784, 2,779,683,840, 4.19 B. A layer of StarCoder2-7B by hand:
// queries and results 2 x 4608^2, keys and values 2 x 4608 x 512, two matrices 2 x 4608 x 18432,
// biases 4608 x 3 + 2 x 512 + 18432, two norms of 2 x 4608: 217,106,944; 32 of them, tied 49152 x
// 4608, and a norm of 9216. GPT-J and Phi-2 have one norm per layer and a bias of the logits; here
// they have two norms and none.
TEST_CASE("decoders without a gate have two matrices a feed-forward") {
    const auto starcoder = read_workload(
        R"({"model_type": "starcoder2", "hidden_size": 4608, "intermediate_size": 18432, "num_hidden_layers": 32,
                                    "num_attention_heads": 36, "num_key_value_heads": 4, "vocab_size": 49152, "mlp_type": "default",
                                    "norm_type": "layer_norm", "norm_epsilon": 1e-5, "use_bias": true, "sliding_window": 4096})");
    CHECK(count_parameters(starcoder).total() == 7'173'923'840);
    CHECK(starcoder.window == 4096);
    CHECK_FALSE(starcoder.gated);
    CHECK(
        counted(
            R"({"model_type": "gptj", "n_layer": 28, "n_embd": 4096, "n_head": 16, "n_inner": null, "vocab_size": 50400,
                      "tie_word_embeddings": false})") == Approx(6'050'882'784).epsilon(1e-4));
    CHECK(
        counted(
            R"({"model_type": "phi", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 32, "hidden_act": "gelu_new",
                      "num_attention_heads": 32, "vocab_size": 51200, "tie_word_embeddings": false})") ==
        Approx(2'779'683'840).epsilon(1e-4));
    CHECK(
        counted(
            R"({"model_type": "nemotron", "hidden_size": 3072, "intermediate_size": 9216, "num_hidden_layers": 32, "hidden_act": "relu2", "head_dim": 128,
                      "num_attention_heads": 24, "num_key_value_heads": 8, "vocab_size": 256000})") ==
        Approx(4.19e9).epsilon(1e-3));
    CHECK_FALSE(
        read_workload(
            R"({"model_type": "persimmon", "hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
                         "vocab_size": 1000})")
            .gated);
}

TEST_CASE("a config file sets the architecture and leaves the sequence to the experiment") {
    const Workload w = read_workload(llama3_8b);
    CHECK(w.kind == Workload::Kind::transformer);
    CHECK(w.gated);
    CHECK(w.norm == Norm::rmsnorm);
    CHECK(w.positions == Positions::rotary);
    CHECK_FALSE(w.tied);
    CHECK(w.dtype == Dtype::bf16);
    CHECK(w.optimizer == Optimizer::adam);
    CHECK(w.seq == 0);
    const Workload learned = read_workload(
        R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2, "n_positions": 64,
                                      "vocab_size": 100, "resid_pdrop": 0.1, "torch_dtype": "float32"})");
    CHECK(learned.seq == 64);
    CHECK(learned.dropout == 0.1);
    CHECK(learned.dtype == Dtype::fp32);
    CHECK(learned.tied);
}

TEST_CASE("a workload may start from a config file beside the experiment") {
    const TestHome home;
    const TestFolder folder;
    folder.write("config.json", llama3_8b);
    const auto path =
        folder.write("e.toml",
                     "[workload]\npreset = \"config.json\"\nseq = 2048\ndtype = \"fp16\"\n"
                     "[parallelism]\ndp = 4\n[cluster]\npreset = \"four\"\n");
    const Experiment e = read_experiment(path);
    CHECK(e.workload.hidden == 4096);
    CHECK(e.workload.seq == 2048);
    CHECK(e.workload.dtype == Dtype::fp16);
    CHECK(
        complaint(
            [&] { read_experiment(folder.write("f.toml", "[workload]\npreset = \"no.json\"\n")); },
            folder.path()) ==
        "f.toml:2:10: workload.preset: no.json: no such file; expected a TOML file, a model's "
        "config.json or the "
        "name of "
        "a preset workload");
}

TEST_CASE("a config file that is none says what is wrong") {
    CHECK(told("{") ==
          "config.json: parse error at line 1, column 2: syntax error while parsing object key - "
          "unexpected end "
          "of input; expected string literal");
    CHECK(told("[]") == "config.json: found no JSON object; expected a model's config.json");
    CHECK(told("{}").starts_with("config.json: model_type: missing; expected one of gpt2, "));
    CHECK(told(R"({"model_type": "mamba"})")
              .starts_with("config.json: model_type: \"mamba\" has no rule; expected one of"));
    CHECK(told(R"({"model_type": "llama"})") ==
          "config.json: num_hidden_layers: missing; expected a value for workload.layers");
    CHECK(told(R"({"model_type": "llama", "num_hidden_layers": "two"})") ==
          "config.json: num_hidden_layers: \"two\" is not an integer; expected an integer, for "
          "example 4");
    CHECK(told(R"({"model_type": "llama", "num_hidden_layers": 0})") ==
          "config.json: num_hidden_layers: 0 is out of range; expected 1 to 10000");
    CHECK(told(R"({"model_type": "llama", "num_hidden_layers": []})") ==
          "config.json: num_hidden_layers: found []; expected a number or text");
    CHECK(complaint([] { read_hub_config("/no/config.json"); }) ==
          "/no/config.json: cannot be read (No such file or directory); expected a model's "
          "config.json");
}

namespace {

const std::string stated_sizes =
    "\"num_hidden_layers\": 4, \"hidden_size\": 64, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": 4, \"intermediate_size\": 256, "
    "\"vocab_size\": 1000";

HubConfig whole(const std::string& text) {
    const TestFolder folder;
    return read_hub_config(folder.write("config.json", text));
}
std::string refusal_of_config(const std::string& text) {
    return complaint([&] { whole(text); });
}

}  // namespace

TEST_CASE(
    "an unknown model of Llama's shape is read with a note, another is refused with the way out") {
    const auto known = whole("{\"model_type\": \"newcomer\", " + stated_sizes + "}");
    CHECK(known.workload.layers == 4);
    CHECK(known.workload.gated);
    REQUIRE(known.notes.size() == 1);
    CHECK(known.notes[0].find("\"newcomer\" is not known; read as Llama's shape") !=
          std::string::npos);
    const auto experts = refusal_of_config("{\"model_type\": \"newcomer\", \"num_experts\": 8, " +
                                           stated_sizes + "}");
    CHECK(experts.find("\"newcomer\" has no rule") != std::string::npos);
    CHECK(experts.find("write its sizes as a workload") != std::string::npos);
    const auto named =
        whole("{\"model_type\": \"own\", \"architectures\": [\"MistralForCausalLM\"], " +
              stated_sizes + "}");
    CHECK(named.notes.empty());
}

// GELU and squared ReLU mean no gated feed-forward; cross attention is not in Llama's layers. What
// a file of an unknown type leaves out is its library's default: tied.
TEST_CASE(
    "an unknown model whose file contradicts Llama's shape is refused, one that states biases or "
    "ties keeps them") {
    for (const char* other :
         {"\"hidden_act\": \"relu2\", ", "\"hidden_act\": \"gelu_new\", ",
          "\"cross_attention_layers\": [3], ", "\"moe_k\": 6, ", "\"use_moe\": true, ",
          "\"mlp_type\": \"default\", ", "\"hidden_activation\": \"gelu\", ",
          "\"activation_function\": \"gelu\", ", "\"layer_types\": [\"full_attention\"], "})
        CHECK(refusal_of_config(std::string("{\"model_type\": \"newcomer\", ") + other +
                                stated_sizes + "}")
                  .find("has no rule") != std::string::npos);
    for (const char* none :
         {"\"use_moe\": false, ", "\"num_experts\": null, ", "\"hidden_act\": \"swish\", ",
          "\"layer_types\": [\"full_attention\"], \"sliding_window\": null, "})
        CHECK(whole(std::string("{\"model_type\": \"newcomer\", ") + none + stated_sizes + "}")
                  .notes.size() == 1);
    const auto newcomer =
        whole("{\"model_type\": \"newcomer\", \"hidden_act\": \"silu\", \"use_qkv_bias\": true, " +
              stated_sizes + "}")
            .workload;
    CHECK(newcomer.qkv_bias);
    CHECK(newcomer.tied);
    CHECK(whole("{\"model_type\": \"newcomer\", \"layer_norm_eps\": 1e-5, " + stated_sizes + "}")
              .workload.norm == Norm::layernorm);
    CHECK_FALSE(whole("{\"model_type\": \"newcomer\", \"tie_word_embeddings\": false, " +
                      stated_sizes + "}")
                    .workload.tied);
}

// Experts with the names of OLMoE, Granite and GLM 4.5; GLM's first layer is dense and its router
// has a bias.
TEST_CASE("experts of further families") {
    const std::string routed =
        ", \"n_routed_experts\": 16, \"num_experts_per_tok\": 4, \"moe_intermediate_size\": 32, "
        "\"n_shared_experts\": 1, \"first_k_dense_replace\": 1, ";
    const auto glm =
        whole("{\"model_type\": \"glm4_moe\"" + routed + stated_sizes + "}").workload.moe;
    CHECK(glm.experts == 16);
    CHECK(glm.top_k == 4);
    CHECK(glm.ffn == 32);
    CHECK(glm.shared_experts == 1);
    CHECK(glm.dense_layers == 1);
    CHECK(glm.router_bias);
    CHECK(whole("{\"model_type\": \"olmoe\", \"num_experts\": 8, \"num_experts_per_tok\": 2, " +
                stated_sizes + "}")
              .workload.moe.experts == 8);
    CHECK(whole("{\"model_type\": \"granitemoe\", \"num_local_experts\": 8, "
                "\"num_experts_per_tok\": 2, " +
                stated_sizes + "}")
              .workload.moe.top_k == 2);
}

// Windows, dense layers in between and kinds of layers change the work.
TEST_CASE("fields that change the work are modelled or refused by name") {
    const auto window =
        whole("{\"model_type\": \"mistral\", \"sliding_window\": 4096, " + stated_sizes + "}")
            .workload;
    CHECK(window.window == 4096);
    CHECK(window.window_share == 1);
    const auto alternating =
        whole(
            "{\"model_type\": \"qwen3\", \"sliding_window\": 128, \"layer_types\": "
            "[\"sliding_attention\", "
            "\"sliding_attention\", \"sliding_attention\", \"full_attention\"], " +
            stated_sizes + "}")
            .workload;
    CHECK(alternating.window == 128);
    CHECK(alternating.window_share == 0.75);
    const auto sixth = whole(
                           "{\"model_type\": \"gemma3_text\", \"sliding_window\": 1024, "
                           "\"sliding_window_pattern\": 4, " +
                           stated_sizes + "}")
                           .workload;
    CHECK(sixth.window_share == 0.75);
    CHECK(whole("{\"model_type\": \"gemma2\", \"sliding_window\": 4096, " + stated_sizes + "}")
              .workload.window_share == 0.5);
    // off unless switched on
    const std::string qwen =
        "{\"model_type\": \"qwen2\", \"sliding_window\": 4096, \"max_window_layers\": 3, ";
    CHECK(whole(qwen + stated_sizes + "}").workload.window == 0);
    CHECK(
        whole(qwen + "\"use_sliding_window\": true, " + stated_sizes + "}").workload.window_share ==
        0.25);
    CHECK(whole("{\"model_type\": \"qwen3\", \"sliding_window\": 128, \"layer_types\": "
                "[\"full_attention\"], " +
                stated_sizes + "}")
              .workload.window == 0);
    CHECK(
        refusal_of_config("{\"model_type\": \"qwen3\", \"layer_types\": [\"linear_attention\"], " +
                          stated_sizes + "}")
            .find("layer_types: \"linear_attention\"") != std::string::npos);
    const std::string moe =
        ", \"num_experts\": 8, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 32, ";
    CHECK(whole("{\"model_type\": \"qwen3_moe\", \"mlp_only_layers\": [0, 1]" + moe + stated_sizes +
                "}")
              .workload.moe.dense_layers == 2);
    CHECK(
        whole("{\"model_type\": \"qwen3_moe\", \"mlp_only_layers\": [0]" + moe + stated_sizes + "}")
            .workload.moe.dense_layers == 1);
    CHECK(refusal_of_config("{\"model_type\": \"qwen3_moe\", \"mlp_only_layers\": [3]" + moe +
                            stated_sizes + "}")
              .find("mlp_only_layers") != std::string::npos);
    CHECK(whole("{\"model_type\": \"qwen3_moe\", \"moe_layer_freq\": [0, 1, 1, 1]" + moe +
                stated_sizes + "}")
              .workload.moe.dense_layers == 1);
    CHECK(refusal_of_config("{\"model_type\": \"qwen3_moe\", \"moe_layer_freq\": [0, 1, 0, 1]" +
                            moe + stated_sizes + "}")
              .find("moe_layer_freq: only leading zeros") != std::string::npos);
}

// 6 Mamba blocks, 2 attention blocks, 6 feed-forward blocks: a third of an attention block per
// layer.
TEST_CASE("families with parts, experts and other blocks") {
    const auto gemma =
        whole("{\"model_type\": \"gemma2\", \"sliding_window\": 4096, \"head_dim\": 256, " +
              stated_sizes + "}");
    CHECK(gemma.workload.tied);
    CHECK(gemma.workload.head_dim == 256);
    const auto oss = whole(
        "{\"model_type\": \"gpt_oss\", \"num_local_experts\": 32, \"experts_per_token\": 4, "
        "\"router\": Infinity, " +
        stated_sizes + "}");
    CHECK(oss.workload.moe.experts == 32);
    CHECK(oss.workload.moe.top_k == 4);
    CHECK(oss.workload.qkv_bias);
    const auto parts = whole(
        "{\"model_type\": \"llama4\", \"text_config\": {\"model_type\": \"llama4_text\", "
        "\"num_local_experts\": 16, "
        "\"num_experts_per_tok\": 1, \"intermediate_size_mlp\": 512, "
        "\"interleave_moe_layer_step\": 2, " +
        stated_sizes + "}}");
    CHECK(parts.workload.moe.interval == 2);
    CHECK(parts.workload.ffn == 512);
    CHECK(parts.workload.moe.ffn == 256);
    const auto hybrid = whole(
        "{\"model_type\": \"nemotron_h\", \"hybrid_override_pattern\": \"M-M*-M-M-M*-M-\", "
        "\"mamba_num_heads\": 8, " +
        stated_sizes + "}");
    CHECK(hybrid.workload.layers == 6);
    CHECK(hybrid.workload.mamba.attention == Approx(2.0 / 6));
    CHECK(hybrid.workload.mamba.heads == 8);
}

// fp16 weights are trained in fp16, fp32 weights in fp32 with a note.
TEST_CASE("a config file's type of weights is the forecast's") {
    const auto read_as = [](const std::string& type) {
        return whole("{\"model_type\": \"llama\", " + type + stated_sizes + "}");
    };
    CHECK(read_as("").workload.dtype == Dtype::bf16);
    CHECK(read_as("\"dtype\": \"float16\", ").workload.dtype == Dtype::fp16);
    CHECK(read_as("\"torch_dtype\": \"float16\", \"dtype\": \"bfloat16\", ").workload.dtype ==
          Dtype::fp16);
    const HubConfig wide = read_as("\"torch_dtype\": \"float32\", ");
    CHECK(wide.workload.dtype == Dtype::fp32);
    REQUIRE(wide.notes.size() == 1);
    CHECK(wide.notes[0].find("--set dtype=bf16") != std::string::npos);
    CHECK(refusal_of_config("{\"model_type\": \"llama\", \"dtype\": 16, " + stated_sizes + "}")
              .find("dtype: \"16\" is no dtype; expected bfloat16, float16 or float32") !=
          std::string::npos);
    CHECK(read_as("\"hidden_act\": \"silu\", ").attention == AttentionKind::flash);
}

// 32 levels are read, 33 are not.
TEST_CASE("a config file is not read too deep") {
    const auto nested = [](int levels) {
        return "{\"model_type\": \"llama\", \"x\": " +
               std::string(static_cast<std::size_t>(levels), '[') +
               std::string(static_cast<std::size_t>(levels), ']') + ", " + stated_sizes + "}";
    };
    CHECK(whole(nested(31)).workload.layers == 4);
    CHECK(refusal_of_config(nested(33)).find("nested deeper than 32 levels") != std::string::npos);
    CHECK(whole("{\"model_type\": \"llama\", \"x\":[NaN,-Infinity, Infinity], \"s\": \"an "
                "Infinity\", " +
                stated_sizes + "}")
              .workload.layers == 4);
    // letters within a name
    CHECK(whole("{\"model_type\": \"llama\", \"xNaN\":[NaN,NaN], " + stated_sizes +
                ", \"hiddenNaN_size\": 7}")
              .workload.layers == 4);
    CHECK(refusal_of_config("{\"model_type\": \"t5NaN\"}").find("\"t5NaN\" has no rule") !=
          std::string::npos);
}

// The longest type in the first architecture's name counts: Qwen3MoeForCausalLM is not a Qwen3.
TEST_CASE("a type of its own is read by its architecture") {
    const std::string moe =
        ", \"num_experts\": 8, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 32, ";
    CHECK(whole("{\"model_type\": \"own\", \"architectures\": [\"Qwen3MoeForCausalLM\"]" + moe +
                stated_sizes + "}")
              .workload.moe.experts == 8);
    CHECK(whole("{\"architectures\": [\"Qwen3ForCausalLM\", \"Qwen3MoeForCausalLM\"], " +
                stated_sizes + "}")
              .workload.moe.experts == 0);
    // else a note about Llama's shape
    CHECK(whole("{\"architectures\": [\"GPTNeoXForCausalLM\"], \"use_parallel_residual\": false, " +
                stated_sizes + "}")
              .notes.empty());
    CHECK(refusal_of_config("{\"architectures\": [4], \"model_type\": \"t5\"}")
              .find("\"t5\" has no rule") != std::string::npos);
    CHECK(refusal_of_config("{\"architectures\": [], \"model_type\": \"t5\"}")
              .find("\"t5\" has no rule") != std::string::npos);
    const auto parts =
        whole("{\"model_type\": \"own\", \"text_config\": {\"model_type\": \"llama\", " +
              stated_sizes + "}}");
    REQUIRE(parts.notes.size() == 1);
    CHECK(parts.notes[0].find("text_config: the text model only") == 0);
}
