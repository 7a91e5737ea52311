#include "model/hub_config.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "model/errors.h"
#include "model/families.h"
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
    w.tied = c.flag("tie_word_embeddings", w.tied);
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
    w.seq = w.max_positions;
}

void read_neox(Config& c) {
    read_sizes(c);
    c.may("dropout", "hidden_dropout");
    Workload& w = c.workload();
    w.tied = c.flag("tie_word_embeddings", w.tied);
}

void read_llama(Config& c) {
    read_sizes(c);
    Workload& w = c.workload();
    w.tied = c.flag("tie_word_embeddings", w.tied);
    w.qkv_bias = c.flag("attention_bias", w.qkv_bias);
    w.linear_bias = c.flag("mlp_bias", w.linear_bias);
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
    c.may("moe.interval", "moe_layer_freq");
}

void read_deepseek_v3(Config& c) {
    read_deepseek(c);
    c.workload().moe.router_bias = true;
}

struct ModelType {
    std::string_view name;
    void (*read)(Config&);
};
constexpr std::array<ModelType, 11> model_types{{{"gpt2", read_gpt2},
                                                 {"bert", read_bert},
                                                 {"gpt_neox", read_neox},
                                                 {"llama", read_llama},
                                                 {"mistral", read_llama},
                                                 {"mixtral", read_mixtral},
                                                 {"qwen2", read_llama},
                                                 {"qwen3", read_llama},
                                                 {"qwen3_moe", read_qwen3_experts},
                                                 {"deepseek_v2", read_deepseek},
                                                 {"deepseek_v3", read_deepseek_v3}}};

const ModelType& type_of(const Json& json, const std::string& path) {
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
    throw ConfigError(path + ": model_type: " + (name.empty() ? "missing" : "\"" + name + "\" has no rule") +
                      "; expected one of " + listed + did_you_mean(name, known));
}

Json parse(const std::string& path) {
    const std::string text = read_text(path, "a model's config.json");
    try {
        Json json = Json::parse(text, [&](int depth, Json::parse_event_t, const Json&) {
            constexpr int deepest = 32;  // recursion in the library; a config.json has four levels
            if (depth > deepest) throw ConfigError(path + ": nested deeper than 32 levels; expected a model's config.json");
            return true;
        });
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

// Of the family whose file names the type.
Workload architecture_of(std::string_view type) {
    for (const ModelFamily& family : read_families())
        if (std::ranges::find(family.hub, type) != family.hub.end()) return family.architecture;
    throw ConfigError("model_type: \"" + std::string(type) + "\" is in the `hub` list of no family");
}

}  // namespace

Workload read_hub_config(const std::string& path) {
    const Json json = parse(path);
    const ModelType& type = type_of(json, path);
    Config config(json, path);
    Workload& w = config.workload();
    w = architecture_of(type.name);
    w.attention = AttentionKind::flash;
    w.optimizer = Optimizer::adam;
    type.read(config);
    config.need("vocab", "vocab_size");
    w.dtype = dtype_in(json, config);
    const auto folder = std::filesystem::path(path).parent_path().filename().string();
    w.name = folder.empty() ? std::string(type.name) : folder;
    return w;
}

}  // namespace stepcast
