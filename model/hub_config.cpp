#include "model/hub_config.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "model/errors.h"
#include "model/keys.h"
#include "model/whole_files.h"

namespace stepcast {
namespace {

using Json = nlohmann::json;

// Values of the file laid on the keys of a workload, which check type and range.
class Config {
public:
    Config(const Json& json, const std::string& path) : json_(json), path_(path) {}

    [[nodiscard]] bool states(const char* name) const { return json_.contains(name) && !json_[name].is_null(); }
    [[nodiscard]] const Json& of(const char* name) const { return json_[name]; }
    void note(const std::string& text) { said.notes.push_back(text); }
    void see_at_most(const char* name) {
        if (!states(name)) return;
        if (!json_[name].is_number_integer()) fail(name, "found " + json_[name].dump() + "; expected a number of tokens");
        said.window = json_[name].get<int>();
        said.window_name = name;
    }
    void see_all() { said.window = 0; }
    [[nodiscard]] bool flag(const char* name, bool otherwise) const {
        if (!states(name)) return otherwise;
        if (!json_[name].is_boolean()) fail(name, "found " + json_[name].dump() + "; expected true or false");
        return json_[name].get<bool>();
    }
    void need(const char* key, const char* name) {
        if (!states(name)) fail(name, "missing; expected a value for workload." + std::string(key));
        may(key, name);
    }
    void may(const char* key, const char* name) {
        if (!states(name)) return;
        try {
            assign(*find_key("workload." + std::string(key)), experiment_, value_of(json_[name]));
        } catch (const ConfigError& e) {
            fail(name, e.what());
        }
    }
    Workload& workload() { return experiment_.workload; }
    HubConfig said;  // all but the workload
    [[noreturn]] void fail(const char* name, const std::string& what) const {
        throw ConfigError(path_ + ": " + name + ": " + what);
    }

private:
    static ConfigValue value_of(const Json& value) {
        if (value.is_boolean()) return {value.get<bool>()};
        if (value.is_number_integer()) return {value.get<std::int64_t>()};
        if (value.is_number()) return {value.get<double>()};
        if (value.is_string()) return {value.get<std::string>()};
        throw ConfigError("found " + value.dump().substr(0, 40) + "; expected a number or text");
    }

    const Json& json_;
    const std::string& path_;
    Experiment experiment_;
};

void read_gpt2(Config& c) {
    c.need("layers", "n_layer");
    c.need("hidden", "n_embd");
    c.need("heads", "n_head");
    c.need("max_positions", "n_positions");
    c.may("dropout", "resid_pdrop");
    Workload& w = c.workload();
    w.ffn = 4 * w.hidden;
    c.may("ffn", "n_inner");
    w.tied = c.flag("tie_word_embeddings", true);
    w.seq = w.max_positions;
}

void read_sizes(Config& c) {
    c.need("layers", "num_hidden_layers");
    c.need("hidden", "hidden_size");
    c.need("heads", "num_attention_heads");
    c.need("ffn", "intermediate_size");
    c.may("kv_heads", "num_key_value_heads");
    c.may("head_dim", "head_dim");
}

void read_bert(Config& c) {
    read_sizes(c);
    c.need("max_positions", "max_position_embeddings");
    c.may("dropout", "hidden_dropout_prob");
    Workload& w = c.workload();
    w.causal = false;
    w.seq = w.max_positions;
}

void read_neox(Config& c) {
    read_sizes(c);
    c.may("dropout", "hidden_dropout");
    Workload& w = c.workload();
    w.positions = Positions::rotary;
    w.tied = c.flag("tie_word_embeddings", false);
}

// Layers that attend to a window: the shortest counts, and the experiment's rules compare it with the sequence.
void read_window(Config& c) {
    if (c.flag("use_sliding_window", true)) c.see_at_most("sliding_window");
    if (!c.states("layer_types")) return;
    bool windowed = false;
    for (const auto& type : c.of("layer_types")) {
        const auto text = type.is_string() ? type.get<std::string>() : type.dump();
        windowed = windowed || text == "sliding_attention";
        if (text != "full_attention" && text != "sliding_attention")
            c.fail("layer_types", "\"" + text + "\" is no kind of layer that is modelled; expected full_attention or "
                                  "sliding_attention");
    }
    if (!windowed) c.see_all();
}

// Leading layers without experts: [0, 1, 2] of mlp_only_layers, [0, 0, 1, 1, ..] of moe_layer_freq.
void read_dense_layers(Config& c) {
    if (c.states("mlp_only_layers")) {
        int expected = 0;
        for (const auto& layer : c.of("mlp_only_layers"))
            if (!layer.is_number_integer() || layer.get<int>() != expected++)
                c.fail("mlp_only_layers", "dense layers that are not the first ones are not modelled");
        if (expected > 0) c.workload().moe.dense_layers = expected;
    }
    if (!c.states("moe_layer_freq")) return;
    if (!c.of("moe_layer_freq").is_array()) return c.may("moe.interval", "moe_layer_freq");
    int dense = 0, at = 0;
    for (const auto& layer : c.of("moe_layer_freq")) {
        const bool experts = !layer.is_number() || layer.get<int>() != 0;
        if (!experts && dense++ != at) c.fail("moe_layer_freq", "only leading zeros are modelled");
        ++at;
    }
    c.workload().moe.dense_layers = dense;
}

void read_llama(Config& c) {
    read_sizes(c);
    read_window(c);
    Workload& w = c.workload();
    w.gated = true;
    w.norm = Norm::rmsnorm;
    w.positions = Positions::rotary;
    w.tied = c.flag("tie_word_embeddings", false);
    w.qkv_bias = c.flag("attention_bias", false);
    w.linear_bias = c.flag("mlp_bias", false);
}

void read_qwen2(Config& c) {
    read_llama(c);
    c.workload().qkv_bias = true;
}

void read_mixtral(Config& c) {
    read_llama(c);
    c.need("moe.experts", "num_local_experts");
    c.need("moe.top_k", "num_experts_per_tok");
}

void read_qwen3_experts(Config& c) {
    read_llama(c);
    c.need("moe.experts", "num_experts");
    c.need("moe.top_k", "num_experts_per_tok");
    c.need("moe.ffn", "moe_intermediate_size");
    c.may("moe.interval", "decoder_sparse_step");
    c.may("moe.shared_ffn", "shared_expert_intermediate_size");
    if (c.states("shared_expert_intermediate_size")) c.workload().moe.shared_experts = 1;
    read_dense_layers(c);
}

void read_qwen2_experts(Config& c) {
    read_qwen3_experts(c);
    c.workload().qkv_bias = true;
}

void read_gemma(Config& c) {
    read_llama(c);
    c.workload().tied = c.flag("tie_word_embeddings", true);
    c.note("gemma: norms behind each block and caps of the scores are not in the forecast");
}

void read_gpt_oss(Config& c) {
    read_llama(c);
    c.workload().qkv_bias = c.flag("attention_bias", true);
    c.workload().linear_bias = true;
    c.need("moe.experts", "num_local_experts");
    c.may("moe.top_k", c.states("num_experts_per_tok") ? "num_experts_per_tok" : "experts_per_token");
}

void read_llama4(Config& c) {
    read_llama(c);
    c.need("moe.experts", "num_local_experts");
    c.need("moe.top_k", "num_experts_per_tok");
    c.may("moe.interval", "interleave_moe_layer_step");
    Workload& w = c.workload();
    w.moe.shared_experts = 1;
    w.moe.ffn = w.ffn;
    w.moe.shared_ffn = w.ffn;
    c.may("ffn", "intermediate_size_mlp");
    c.see_at_most("attention_chunk_size");
}

// A pattern of blocks: M a Mamba-2 block, - a feed-forward, E experts, * attention. A layer is a Mamba block with the
// feed-forward behind it.
void read_nemotron_h(Config& c) {
    read_llama(c);
    if (!c.states("hybrid_override_pattern") || !c.of("hybrid_override_pattern").is_string())
        c.fail("hybrid_override_pattern", "missing; expected a text of M, -, E and *");
    const auto pattern = c.of("hybrid_override_pattern").get<std::string>();
    const auto count = [&](char block) { return static_cast<int>(std::ranges::count(pattern, block)); };
    const int mamba = count('M'), forward = count('-') + count('E');
    if (mamba == 0 || forward == 0) c.fail("hybrid_override_pattern", "expected Mamba and feed-forward blocks");
    Workload& w = c.workload();
    w.layers = mamba;
    w.gated = false;
    w.activation = Activation::relu;
    w.positions = Positions::none;
    w.mamba.attention = static_cast<double>(count('*')) / mamba;
    c.need("mamba.heads", c.states("mamba_num_heads") ? "mamba_num_heads" : "mamba_n_heads");
    c.may("mamba.head_dim", "mamba_head_dim");
    c.may("mamba.state", "ssm_state_size");
    c.may("mamba.groups", "n_groups");
    if (count('E') > 0) {
        c.need("moe.experts", "n_routed_experts");
        c.need("moe.top_k", "num_experts_per_tok");
        c.need("moe.ffn", "moe_intermediate_size");
        c.may("moe.shared_experts", "n_shared_experts");
        c.may("moe.shared_ffn", "moe_shared_expert_intermediate_size");
    }
    if (forward != mamba)
        c.note(std::to_string(forward) + " feed-forward blocks beside " + std::to_string(mamba) +
               " Mamba blocks: the forecast has one a layer");
}

void read_deepseek(Config& c) {
    read_llama(c);
    c.workload().attention = AttentionKind::mla;
    c.may("mla.q_rank", "q_lora_rank");
    c.need("mla.kv_rank", "kv_lora_rank");
    c.need("mla.nope_dim", "qk_nope_head_dim");
    c.need("mla.rope_dim", "qk_rope_head_dim");
    c.need("mla.value_dim", "v_head_dim");
    c.need("moe.experts", "n_routed_experts");
    c.need("moe.top_k", "num_experts_per_tok");
    c.need("moe.ffn", "moe_intermediate_size");
    c.may("moe.shared_experts", "n_shared_experts");
    c.may("moe.dense_layers", "first_k_dense_replace");
    if (c.states("moe_layer_freq") && c.of("moe_layer_freq").is_array())
        read_dense_layers(c);
    else
        c.may("moe.interval", "moe_layer_freq");
    c.may("moe.groups", "n_group");
    c.may("moe.top_groups", "topk_group");
    if (c.states("num_nextn_predict_layers") && c.of("num_nextn_predict_layers").get<int>() > 0)
        c.note("num_nextn_predict_layers: the forecast trains without multi-token prediction");
}

void read_deepseek_v3(Config& c) {
    read_deepseek(c);
    c.workload().moe.router_bias = true;
}

struct ModelType {
    std::string_view name;
    void (*read)(Config&);
};
constexpr std::array<ModelType, 25> model_types{{{"gpt2", read_gpt2},
                                                 {"bert", read_bert},
                                                 {"gpt_neox", read_neox},
                                                 {"llama", read_llama},
                                                 {"mistral", read_llama},
                                                 {"mixtral", read_mixtral},
                                                 {"qwen2", read_qwen2},
                                                 {"qwen3", read_llama},
                                                 {"qwen3_moe", read_qwen3_experts},
                                                 {"qwen2_moe", read_qwen2_experts},
                                                 {"gemma", read_gemma},
                                                 {"gemma2", read_gemma},
                                                 {"gemma3_text", read_gemma},
                                                 {"phi3", read_llama},
                                                 {"olmo", read_llama},
                                                 {"olmo2", read_llama},
                                                 {"granite", read_llama},
                                                 {"gpt_oss", read_gpt_oss},
                                                 {"llama4", read_llama4},
                                                 {"llama4_text", read_llama4},
                                                 {"nemotron_h", read_nemotron_h},
                                                 {"kimi_k2", read_deepseek_v3},
                                                 {"glm4", read_llama},
                                                 {"deepseek_v2", read_deepseek},
                                                 {"deepseek_v3", read_deepseek_v3}}};

constexpr std::size_t llama_at = 3;
static_assert(model_types[llama_at].name == "llama");

// "DeepseekV3ForCausalLM" of a file whose model_type is its own.
const ModelType* type_of_architecture(const Json& json) {
    if (!json.contains("architectures") || !json["architectures"].is_array() || json["architectures"].empty())
        return nullptr;
    std::string spoken;
    if (const auto& first = json["architectures"][0]; first.is_string())
        for (const char c : first.get<std::string>()) {
            if (std::isupper(static_cast<unsigned char>(c)) && !spoken.empty() && spoken.back() != '_') spoken += '_';
            spoken += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        }
    const ModelType* longest = nullptr;
    for (const auto& type : model_types)
        if (spoken.starts_with(std::string(type.name) + "_for_") && (!longest || type.name.size() > longest->name.size()))
            longest = &type;
    return longest;
}

// All of Llama's sizes, and nothing that names experts, latents, states or other kinds of layers.
bool has_shape_of_llama(const Json& json) {
    for (const char* size : {"num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size"})
        if (!json.contains(size) || !json[size].is_number_integer()) return false;
    for (const auto& [name, value] : json.items())
        for (const char* other : {"expert", "lora_rank", "mamba", "ssm", "ssd", "linear_attn", "conv_kernel", "hybrid",
                                  "is_encoder_decoder", "recurrent", "vision", "compress"})
            if (name.find(other) != std::string::npos && !value.is_null() && value != false) return false;
    return !json.contains("layer_types") || json.contains("sliding_window");
}

const ModelType& type_of(const Json& json, const std::string& path, std::vector<std::string>& notes) {
    const auto name = json.contains("model_type") && json["model_type"].is_string()
                          ? json["model_type"].get<std::string>()
                          : std::string();
    std::vector<std::string> known;
    std::string listed;
    for (const auto& type : model_types) {
        if (type.name == name) return type;
        known.emplace_back(type.name);
        listed += (listed.empty() ? "" : ", ") + known.back();
    }
    if (const auto* type = type_of_architecture(json)) return *type;
    if (has_shape_of_llama(json)) {
        notes.push_back("model_type \"" + name + "\" is not known; read as Llama's shape: gated feed-forward, RMSNorm, "
                        "rotary positions, no biases but those stated");
        return model_types[llama_at];
    }
    throw ConfigError(path + ": model_type: " + (name.empty() ? "missing" : "\"" + name + "\" has no rule") +
                      "; expected one of " + listed + did_you_mean(name, known) +
                      "; or write its sizes as a workload of TOML keys (stepcast list keys workload)");
}

std::string without_infinities(std::string text) {
    for (const std::string word : {"-Infinity", "Infinity", "NaN"})
        for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 4)) {
            const char before = at == 0 ? ' ' : text[at - 1];
            const bool bare = before == ' ' || before == ':' || before == ',' || before == '[' || before == '\n';
            if (bare) text.replace(at, word.size(), "null");
        }
    return text;
}

Json parse(const std::string& path) {
    const auto text = read_text(path);
    if (!text) throw ConfigError(path + ": cannot be read; expected a model's config.json");
    try {
        // NaN and Infinity are no JSON, but some publish them.
        Json json = Json::parse(without_infinities(*text));
        if (!json.is_object()) throw ConfigError(path + ": found no JSON object; expected a model's config.json");
        return json;
    } catch (const Json::exception& e) {
        std::string what = e.what();
        throw ConfigError(path + ": " + what.substr(what.find("] ") + 2));
    }
}

// torch_dtype, in newer files dtype; fp16 weights train in fp16.
Dtype dtype_in(const Json& json, const Config& config) {
    const char* name = config.states("torch_dtype") ? "torch_dtype" : "dtype";
    if (!config.states(name)) return Dtype::bf16;
    const auto text = json[name].is_string() ? json[name].get<std::string>() : json[name].dump();
    if (text == "bfloat16") return Dtype::bf16;
    if (text == "float16") return Dtype::fp16;
    if (text == "float32") return Dtype::fp32;
    config.fail(name, "\"" + text + "\" is no dtype; expected bfloat16, float16 or float32");
}

}  // namespace

HubConfig read_hub_config(const std::string& path) {
    const Json file = parse(path);
    std::vector<std::string> notes;
    // Of a model of several parts the text part counts; sizes stand there, not above.
    const bool parts = file.contains("text_config") && file["text_config"].is_object() && !file.contains("hidden_size");
    const Json json = parts ? file["text_config"] : file;
    if (parts) notes.emplace_back("text_config: the text model only; what it sees or hears is not in the forecast");
    const ModelType& type = type_of(parts && !json.contains("model_type") ? file : json, path, notes);
    Config config(json, path);
    Workload& w = config.workload();
    w.kind = Workload::Kind::transformer;
    w.attention = AttentionKind::flash;
    w.optimizer = Optimizer::adam;
    type.read(config);
    config.need("vocab", "vocab_size");
    w.dtype = dtype_in(json, config);
    const auto folder = std::filesystem::path(path).parent_path().filename().string();
    w.name = folder.empty() ? std::string(type.name) : folder;
    HubConfig result = config.said;
    result.notes.insert(result.notes.begin(), notes.begin(), notes.end());
    result.workload = w;
    return result;
}

}  // namespace stepcast
