#include "model/input/hub_config.h"
#include "model/base/joined.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <utility>

#include "model/base/characters.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/base/text_search.h"
#include "model/base/whole_files.h"
#include "model/input/hub_families.h"
#include "model/input/layers.h"

namespace stepcast {
namespace {

// The type from "architectures" ("DeepseekV3ForCausalLM"), for a file whose model_type is unknown.
std::string type_of_architecture(const Json& json, const HubRules& rules) {
    if (!json.contains("architectures") || !json["architectures"].is_array() ||
        json["architectures"].empty())
        return "";
    const auto& first = json["architectures"][0];
    const std::string spoken = first.is_string() ? lower_case(first.get<std::string>()) : "";
    std::string longest;
    for (const HubType& type : rules.types)
        for (const std::string& name : type.names) {
            std::string plain = name;
            std::erase(plain, '_');
            if (spoken.starts_with(plain + "for") && name.size() > longest.size()) longest = name;
        }
    return longest;
}

bool names_other_layers(const Json& json) {
    for (const auto& [name, value] : json.items())
        for (const char* other :
             {"expert", "lora_rank", "mamba", "ssm", "ssd", "linear_attn", "conv_kernel", "hybrid",
              "is_encoder_decoder", "bidirectional", "recurrent", "vision", "compress",
              "cross_attention", "index_topk", "attn_type", "moe"})
            if (has(name, other) && !value.is_null() && value != false) return true;
    return false;
}

// True if the file has all of Llama's sizes and a gated activation, and names no experts, latents,
// states or other kinds of layers.
bool has_shape_of_llama(const Json& json) {
    for (const char* key : {"hidden_act", "hidden_activation", "activation_function"})
        if (json.contains(key) && json[key] != "silu" && json[key] != "swish") return false;
    // StarCoder2's value for a feed-forward without gate
    if (json.contains("mlp_type") && json["mlp_type"] == "default") return false;
    for (const char* size : {"num_hidden_layers", "hidden_size", "num_attention_heads",
                             "intermediate_size", "vocab_size"})
        if (!json.contains(size) || !json[size].is_number_integer()) return false;
    return !names_other_layers(json) &&
           (!json.contains("layer_types") || json.contains("sliding_window"));
}

// The file's model type under a name that the rules know.
std::string type_of(const Json& json, const std::string& path, const HubRules& rules,
                    std::vector<std::string>& notes) {
    const auto name = json.contains("model_type") && json["model_type"].is_string()
                          ? json["model_type"].get<std::string>()
                          : std::string();
    if (name != any_type && rules.of(name)) return name;
    for (const ModelFamily& family : read_families())
        if (!family.not_modelled.empty() && contains(family.hub, name))
            throw ConfigError(path + ": model_type: \"" + name +
                              "\" is not modelled: " + family.not_modelled);
    if (const auto type = type_of_architecture(json, rules); !type.empty()) return type;
    if (has_shape_of_llama(json)) {
        notes.push_back("model_type \"" + name +
                        "\" is not known; read as Llama's shape: causal, gated feed-forward, "
                        "RMSNorm unless stated, rotary positions, no biases but those stated, tied "
                        "embeddings unless stated");
        return std::string(any_type);
    }
    std::vector<std::string> known;
    for (const HubType& type : rules.types)
        std::ranges::copy_if(type.names, std::back_inserter(known),
                             [](const auto& one) { return one != any_type; });
    refuse(
        "{}: model_type: {}; expected one of {}{}; or write its sizes as a workload of "
        "TOML keys (stepcast list keys workload)",
        path, name.empty() ? "missing" : "\"" + name + "\" has no rule", joined(known, ", "),
        did_you_mean(name, known));
}

std::string without_infinities(std::string text) {
    for (const std::string word : {"-Infinity", "Infinity", "NaN"})
        for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 4)) {
            const char before = at == 0 ? ' ' : text[at - 1];
            const bool bare =
                before == ' ' || before == ':' || before == ',' || before == '[' || before == '\n';
            if (bare) text.replace(at, word.size(), "null");
        }
    return text;
}

Json parse(const std::string& path) {
    const std::string text = plain_utf8(read_text(path, "a model's config.json"));
    try {
        // NaN and Infinity are not JSON, but some published files contain them.
        Json json = Json::parse(without_infinities(text), [&](int depth, Json::parse_event_t,
                                                              const Json&) {
            constexpr int deepest = 32;  // the library recurses; a real config.json has four levels
            if (depth > deepest)
                throw ConfigError(path +
                                  ": nested deeper than 32 levels; expected a model's config.json");
            return true;
        });
        if (!json.is_object())
            throw ConfigError(path + ": found no JSON object; expected a model's config.json");
        return json;
    } catch (const Json::exception& e) {
        std::string what = e.what();
        throw ConfigError(path + ": " + what.substr(what.find("] ") + 2));
    }
}

// torch_dtype, called dtype in newer files. fp16 weights train in fp16.
Dtype dtype_in(const Json& json, const HubValues& config) {
    const char* name = config.states("torch_dtype") ? "torch_dtype" : "dtype";
    if (!config.states(name)) return Dtype::bf16;
    const auto text = json[name].is_string() ? json[name].get<std::string>() : json[name].dump();
    if (text == "bfloat16") return Dtype::bf16;
    if (text == "float16") return Dtype::fp16;
    if (text == "float32") return Dtype::fp32;
    config.fail(name, "\"" + text + "\" is no dtype; expected bfloat16, float16 or float32");
}

// Multi-token-prediction modules of the file are noted but not trained, because nobody asked for
// them.
void note_further_predictions(HubValues& c) {
    for (const char* name : {"num_nextn_predict_layers", "num_mtp_modules"})
        if (c.states(name) && c.of(name).is_number_integer() && c.of(name) > 0 &&
            c.flag("use_mtp", true))
            c.note(std::string(name) +
                   ": the forecast trains without multi-token prediction; with it: --set "
                   "workload.mtp_layers=" +
                   c.of(name).dump());
}

void refuse_unread(const HubValues& c, const HubRules& rules) {
    for (const auto& [key, what] : rules.unread) {
        if (!c.asked(key) && c.states(key) && c.of(key) != false && c.of(key) != 0)
            c.fail(key, "found " + c.of(key).dump().substr(0, 40) + "; " + what +
                            " is not modelled; expected a file without it");
    }
}

// The text part of a multimodal model, which keeps its sizes there and not at the top level; null
// if the file has no such part.
const Json* find_text_part(const Json& file, const HubRules& rules) {
    if (file.contains("hidden_size")) return nullptr;
    for (const std::string& name : rules.text_parts)
        if (file.contains(name) && file[name].is_object()) {
            const Json* inner = find_text_part(file[name], rules);
            return inner ? inner : &file[name];
        }
    return nullptr;
}

// Keys that the part does not state are taken from the top level, which holds for all parts.
Json whole_text_part(const Json& file, Json text, const HubRules& rules) {
    const auto states = [](const Json& part, const char* name) {
        return part.contains(name) && !part[name].is_null();
    };
    const bool typed = states(text, "torch_dtype") || states(text, "dtype");
    const std::array<std::pair<const char*, bool>, 3> shared{
        {{"tie_word_embeddings", states(text, "tie_word_embeddings")},
         {"torch_dtype", typed},
         {"dtype", typed}}};
    for (const auto& [name, said] : shared)
        if (!said && states(file, name)) text[name] = file[name];
    const bool untied = std::ranges::any_of(rules.untied_wholes, [&](const std::string& whole) {
        return file.value("model_type", Json()) == whole;
    });
    if (untied && !states(text, "tie_word_embeddings")) text["tie_word_embeddings"] = false;
    return text;
}

std::string letters_of(std::string_view name) {
    std::string letters;
    std::ranges::copy_if(lower_case(std::string(name)), std::back_inserter(letters),
                         is_letter_or_digit);
    return letters;
}

// The preset workload that a hub's name like "meta-llama/Llama-2-7b-hf" means; empty for an unknown
// name.
std::string preset_of_hub_name(const std::string& name) {
    std::string last = letters_of(name.substr(name.rfind('/') + 1)), found;
    if (last.starts_with("metallama")) last.erase(0, 4);
    for (const std::string& preset : preset_names(PresetKind::workload))
        if (last.starts_with(letters_of(preset)) && preset.size() > found.size()) found = preset;
    return found;
}

NamedTextPart name_of_text_part(const Json& text) {
    NamedTextPart part;
    if (text.contains("_name_or_path") && text["_name_or_path"].is_string())
        part.name = text["_name_or_path"].get<std::string>();
    const double vocab = text.contains("vocab_size") && text["vocab_size"].is_number_integer()
                             ? text["vocab_size"].get<double>()
                             : 0;
    if (vocab > 0 && vocab <= upto::tokens) part.vocab = static_cast<int>(vocab);
    return part;
}

// A text part without sizes names the model whose sizes it has.
HubConfig text_model_by_name(const std::string& path, const NamedTextPart& part) {
    const std::string preset = preset_of_hub_name(part.name);
    if (preset.empty())
        refuse(
            "{}: text_config: states no sizes{}; expected --model with that model's own "
            "config.json or a preset "
            "(stepcast list presets workload), or the keys hidden_size, num_hidden_layers, "
            "num_attention_heads, "
            "intermediate_size",
            path,
            part.name.empty()
                ? ""
                : ", only that its model is \"" + part.name + "\", which is no preset");
    Layers layers;
    lay_workload(layers, preset_path(PresetKind::workload, preset));
    HubConfig config{.workload = layers.experiment.workload,
                     .attention = layers.experiment.runtime.attention,
                     .notes = {}};
    if (part.vocab > 0) config.workload.vocab = part.vocab;
    add_line(config.notes,
             "text_config: names \"{}\" without sizes; read as the preset {}; what it sees "
             "or hears is not in the forecast",
             part.name, preset);
    return config;
}

bool states_a_size(const Json& text, const HubRules& rules) {
    return std::ranges::any_of(rules.keys, [&](const HubKey& key) {
        return key.needed && key.key != "vocab" &&
               std::ranges::any_of(key.names,
                                   [&](const std::string& name) { return text.contains(name); });
    });
}

// The architecture of the family whose file lists this type.
Workload architecture_of(std::string_view type) {
    for (const ModelFamily& family : read_families())
        if (contains(family.hub, type)) return family.architecture;
    if (type == "llama") throw std::logic_error("no family lists llama as model_type");
    return architecture_of("llama");  // the rules of the type state the differences
}

}  // namespace

std::optional<NamedTextPart> text_part_without_sizes(const std::string& path) {
    const Json file = parse(path);
    const HubRules rules = read_hub_rules();
    const Json* part = find_text_part(file, rules);
    if (!part || states_a_size(*part, rules)) return std::nullopt;
    return name_of_text_part(*part);
}

HubConfig read_hub_config(const std::string& path) {
    const Json file = parse(path);
    std::vector<std::string> notes;
    const HubRules rules = read_hub_rules();
    const Json* part = find_text_part(file, rules);
    if (part)
        notes.emplace_back(
            "text_config: the text model only; what it sees or hears is not in the forecast");
    if (part && !states_a_size(*part, rules))
        return text_model_by_name(path, name_of_text_part(*part));
    const Json json = part ? whole_text_part(file, *part, rules) : file;
    const std::string name =
        type_of(part && !json.contains("model_type") ? file : json, path, rules, notes);
    HubValues config(json, rules.defaults.value(name, Json::object()), path, rules,
                     part != nullptr);
    Workload& w = config.workload();
    w = architecture_of(name);
    w.optimizer = Optimizer::adam;
    config.read(*rules.of(name));
    refuse_unread(config, rules);
    note_further_predictions(config);
    w.dtype = dtype_in(json, config);
    if (w.dtype == Dtype::fp32)
        config.said.notes.emplace_back(
            "dtype float32 is how the weights are stored; the forecast trains in it: --set "
            "dtype=bf16 for mixed precision");
    config.note_unread(name != any_type);
    const auto folder = std::filesystem::path(path).parent_path().filename().string();
    w.name = !folder.empty() ? folder : name == any_type ? "llama" : name;
    HubConfig result = config.said;
    result.notes.insert(result.notes.begin(), notes.begin(), notes.end());
    result.workload = w;
    return result;
}

}  // namespace stepcast
