#include "model/input/hub_families.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/text_search.h"
#include "model/input/fields.h"
#include "model/transformer/counts.h"

namespace stepcast {
namespace {

double all_but_every(int nth, int layers) { return 1 - real(layers / nth) / layers; }

double share_by_types(const HubValues& c) {
    double windowed = 0;
    for (const auto& type : c.of("layer_types")) {
        const auto text = type.is_string() ? type.get<std::string>() : type.dump();
        if (text == "sliding_attention" || text == "chunked_attention")
            ++windowed;
        else if (text != "full_attention")
            c.fail("layer_types",
                   "\"" + text +
                       "\" is no kind of layer that is modelled; expected full_attention or "
                       "sliding_attention");
    }
    const auto told = real(c.of("layer_types").size());
    return told > 0 ? windowed / told : 1;
}

// Share of the layers with a sliding window: all layers, those in layer_types, all but every n-th
// (sliding_window_pattern), or those after the first max_window_layers (Qwen).
double share_of_windows(const HubValues& c, int layers) {
    double share = 1;
    if (c.states("max_window_layers") && c.of("max_window_layers").is_number())
        share = 1 - std::min(c.of("max_window_layers").get<double>() / layers, 1.0);
    for (const char* name : {"_sliding_window_pattern", "sliding_window_pattern"})
        if (c.states(name) && c.of(name).is_number_integer())
            if (const auto nth = c.of(name).get<std::int64_t>(); nth > 0)
                share = all_but_every(as_int(std::min<std::int64_t>(nth, layers + 1)), layers);
    // a letter a layer, repeated: L has a window
    if (c.states("sliding_window_pattern") && c.of("sliding_window_pattern").is_string()) {
        const auto pattern = c.of("sliding_window_pattern").get<std::string>();
        if (!pattern.empty()) share = real(std::ranges::count(pattern, 'L')) / real(pattern.size());
    }
    return c.states("layer_types") ? share_by_types(c) : share;
}

// Qwen's windows are off unless switched on, or layers are listed that have one. If no layer has
// one, the share is 1: a window set by the user is in all layers.
void read_window(HubValues& c, const std::string& name) {
    Workload& w = c.workload();
    w.window = 0;
    const bool by_kind = c.stated_in_file("layer_types") && !c.stated_in_file("use_sliding_window");
    const bool on = c.flag("use_sliding_window", !c.states("max_window_layers"));
    if (c.states(name) && (by_kind || on)) c.may("window", name);
    w.window_share = share_of_windows(c, w.layers);
    if (w.window == 0 || w.window_share == 0) {
        w.window = 0;
        w.window_share = 1;
    }
}

void read_window(HubValues& c) { read_window(c, "sliding_window"); }

// A width of the shared experts says that there is one; a width of zero that there is none.
void read_shared_width(HubValues& c) {
    for (const char* name : {"shared_expert_intermediate_size", "shared_intermediate_size"})
        if (c.states(name)) c.workload().moe.shared_experts = c.of(name) == 0 ? 0 : 1;
}

// Leading layers without experts, from [0, 1, 2] in mlp_only_layers, [0, 0, 1, 1, ..] in
// moe_layer_freq or kinds in mlp_layer_types.
void read_dense_layers(HubValues& c) {
    read_shared_width(c);
    if (c.states("mlp_layer_types")) {
        const Json& kinds = c.of("mlp_layer_types");
        const auto experts =
            std::ranges::find_if(kinds, [](const Json& kind) { return kind != "dense"; });
        if (std::any_of(experts, kinds.end(), [](const Json& kind) { return kind != "sparse"; }))
            c.fail("mlp_layer_types",
                   "expected dense layers first, then sparse ones; others are not modelled");
        c.workload().moe.dense_layers = as_int(experts - kinds.begin());
    }
    if (c.states("mlp_only_layers")) {
        int expected = 0;
        for (const auto& layer : c.of("mlp_only_layers"))
            if (!layer.is_number_integer() || layer != expected++)
                c.fail("mlp_only_layers",
                       "dense layers that are not the first ones are not modelled");
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

// The model type's default share of sliding layers, for files that do not state one.
template <int nth>
void read_slides(HubValues& c) {
    Workload& w = c.workload();
    if (c.states("layer_types") || c.stated_in_file("sliding_window_pattern")) return;
    w.window_share = all_but_every(nth, w.layers);
    if (w.window_share == 0) w.window = 0;
    if (w.window == 0) w.window_share = 1;
}

void read_norm_by_epsilon(HubValues& c) {
    if (!c.states("rms_norm_eps") && (c.states("layer_norm_eps") || c.states("layer_norm_epsilon")))
        c.workload().norm = Norm::layernorm;
}

void read_gate_by_name(HubValues& c) {
    c.workload().gated = c.states("mlp_type") && c.of("mlp_type") == "gated";
}

void read_llama4(HubValues& c) {
    Workload& w = c.workload();
    w.moe.shared_experts = 1;
    w.moe.ffn = w.moe.shared_ffn = w.ffn;
    c.may("ffn", "intermediate_size_mlp");
    if (c.states("moe_layers") && c.of("moe_layers").is_array())
        for (int at = 0; at < as_int(c.of("moe_layers").size()); ++at)
            if (c.of("moe_layers")[as_index(at)] != (at + 1) * w.moe.interval - 1)
                c.fail(
                    "moe_layers",
                    "expected every interleave_moe_layer_step-th layer; others are not modelled");
    if (!c.states("attention_chunk_size")) return;
    read_window(c, "attention_chunk_size");
    // every fourth layer attends to all tokens
    if (!c.states("layer_types")) w.window_share = 0.75;
    c.note(
        "attention_chunk_size: read as a sliding window of as many tokens, which sees up to twice "
        "as many as a chunk");
}

// Spreads Mamba-2 and attention blocks over the layers (one per feed-forward), with the key names
// of Nemotron-H or Bamba. If there are more or fewer Mamba blocks than layers, each layer has one
// block with proportionally more or fewer heads.
void lay_mixers(HubValues& c, double mamba, double attention) {
    Workload& w = c.workload();
    w.mamba.attention = attention / w.layers;
    c.read_group("mamba");
    const double heads = w.mamba.heads;
    w.mamba.heads = as_int(std::lround(heads * mamba / w.layers));
    if (mamba != w.layers)
        c.note(std::to_string(static_cast<int>(mamba)) + " Mamba blocks over " +
               std::to_string(w.layers) + " layers: read as one a layer of " +
               std::to_string(w.mamba.heads) + " heads instead of " +
               std::to_string(static_cast<int>(heads)));
    const bool sized = c.states("mamba_d_ssm") && c.of("mamba_d_ssm").is_number_integer();
    // width of all heads
    const double whole = sized ? c.of("mamba_d_ssm").get<double>() : 2.0 * w.hidden;
    for (const char* name : {"mamba_head_dim", "mamba_d_head"}) {
        if (!c.states(name)) continue;
        if (c.of(name) != "auto")
            c.may("mamba.head_dim", name);
        else if (heads > 0 && whole >= heads && whole <= upto::width)
            w.mamba.head_dim = static_cast<int>(whole / heads);
    }
    if (sized && c.stated_in_file("mamba_d_ssm") && whole != heads * w.mamba.head_dim)
        c.fail("mamba_d_ssm",
               fmt::format("expected heads x head width, {:.0f}; other widths are not modelled",
                           heads * w.mamba.head_dim));
}

// One letter per block: M a Mamba-2 block, - a feed-forward, E experts, * attention. Newer files
// list the blocks by name.
std::string blocks_of_nemotron_h(HubValues& c) {
    if (c.states("hybrid_override_pattern") && c.of("hybrid_override_pattern").is_string())
        return c.of("hybrid_override_pattern").get<std::string>();
    constexpr std::pair<std::string_view, char> letters[] = {
        {"linear_attention", 'M'}, {"mamba", 'M'},    {"mlp", '-'}, {"moe", 'E'},
        {"full_attention", '*'},   {"attention", '*'}};
    std::string pattern;
    if (c.states("layers_block_type"))
        for (const Json& block : c.of("layers_block_type")) {
            const auto letter =
                first_with(letters, block.is_string() ? block.get<std::string>() : "",
                           &std::pair<std::string_view, char>::first);
            if (!letter)
                c.fail("layers_block_type", block.dump() + " is no kind of block that is modelled");
            pattern += letter->second;
        }
    if (pattern.empty())
        c.fail("hybrid_override_pattern", "missing; expected a text of M, -, E and *");
    return pattern;
}

void read_nemotron_h(HubValues& c) {
    const std::string pattern = blocks_of_nemotron_h(c);
    const auto count = [&](char block) { return as_int(std::ranges::count(pattern, block)); };
    const int forward = count('-') + count('E');
    if (count('M') == 0 || forward == 0)
        c.fail("hybrid_override_pattern", "expected Mamba and feed-forward blocks");
    if (count('-') > 0 && count('E') > 0)
        c.fail("hybrid_override_pattern",
               "dense blocks between those with experts are not modelled");
    if (count('E') > 0) {
        for (const char* group : {"experts", "narrow_experts"}) c.read_group(group);
        read_dense_layers(c);
    }
    c.workload().layers = forward;
    lay_mixers(c, count('M'), count('*'));
    c.read_group("attention_head");
}

// Each feed-forward follows a Mamba-2 block or attention (Bamba, Granite 4.0), or both in parallel
// (Falcon-H1, arXiv 2507.22448).
template <bool both>
void read_mamba_and_attention(HubValues& c) {
    Workload& w = c.workload();
    if (c.states("position_embedding_type") && c.of("position_embedding_type") == "nope")
        w.positions = Positions::none;
    std::size_t attention = c.states("attn_layer_indices") ? c.of("attn_layer_indices").size() : 0;
    if (c.states("layer_types"))
        attention = as_index(std::ranges::count_if(c.of("layer_types"), [](const Json& kind) {
            return kind == "attention" || kind == "full_attention";
        }));
    if (attention > as_index(w.layers)) c.fail("attn_layer_indices", "more blocks than layers");
    lay_mixers(c, both ? w.layers : w.layers - real(attention), both ? w.layers : real(attention));
    c.may("moe.experts", "num_local_experts");
    if (w.moe.experts == 0) return c.may("ffn", "shared_intermediate_size");
    c.read_group("experts_beside_shared");
    read_shared_width(c);
}

void refuse_dense_end(HubValues& c) {
    if (c.states("moe_layer_end_index") && c.of("moe_layer_end_index") != -1 &&
        c.of("moe_layer_end_index") < c.workload().layers - 1)
        c.fail("moe_layer_end_index", "dense layers behind those with experts are not modelled");
}

void note_parallel(HubValues& c) {
    c.note(
        "attention and feed-forward of a layer run side by side behind one norm: the forecast has "
        "them one after the "
        "other, with two norms and "
        "twice the all-reduces of tensor parallelism");
}

// Attention and feed-forward read the same norm (GPT-J; GPT-NeoX, arXiv 2204.06745, section 2.1,
// has a flag for it).
template <bool otherwise>
void note_side_by_side(HubValues& c) {
    if (c.flag("use_parallel_residual", otherwise) || c.flag("use_parallel_block", false))
        note_parallel(c);
}

// ALiBi (arXiv 2108.12409) adds a bias to the scores in place of positions.
void note_alibi(HubValues& c) {
    c.workload().positions = Positions::none;
    c.note("ALiBi: the biases that it adds to the scores of attention are not in the forecast");
}
// Baichuan's 7B has rotary positions and states their number, its 13B has ALiBi and states a length
// of sequences.
void note_alibi_without_positions(HubValues& c) {
    if (!c.states("max_position_embeddings")) note_alibi(c);
}

void read_multi_query(HubValues& c) {
    if (c.flag("multi_query", false)) c.workload().kv_heads = 1;
}

// Falcon's three generations: one key and value head, as many as queries, or a number of its own
// (arXiv 2311.16867, section 3).
void read_falcon(HubValues& c) {
    Workload& w = c.workload();
    const bool own = c.flag("new_decoder_architecture", c.stated_in_file("n_head_kv"));
    w.kv_heads = !own && c.flag("multi_query", true) ? 1 : 0;
    for (const char* name : {"num_kv_heads", "n_head_kv"})
        if (c.states(name) && own) c.may("kv_heads", name);
    w.linear_bias = w.qkv_bias = c.flag("bias", false);
    if (c.flag("alibi", false)) note_alibi(c);
    if (own || c.flag("parallel_attn", true)) note_parallel(c);
}

void read_mpt(HubValues& c) {
    Workload& w = c.workload();
    if (c.states("expansion_ratio")) {
        const double ratio =
            c.of("expansion_ratio").is_number() ? c.of("expansion_ratio").get<double>() : 0;
        if (!(ratio > 0 && ratio <= 64))
            c.fail("expansion_ratio", "expected a number above 0, 64 at most");
        w.ffn = as_int(std::lround(ratio * w.hidden));
    }
    const Json kind = c.states("attn_config.attn_type") ? c.of("attn_config.attn_type")
                                                        : Json("multihead_attention");
    if (kind == "multiquery_attention") w.kv_heads = 1;
    w.linear_bias = w.qkv_bias = !c.flag("no_bias", true);
    w.positions = Positions::learned;
    if (c.flag("attn_config.rope", false)) w.positions = Positions::rotary;
    if (c.flag("attn_config.alibi", true)) return note_alibi(c);
    if (w.positions == Positions::learned) w.seq = w.max_positions;
}

// The first ChatGLM has other layers than ChatGLM2 and 3.
void read_chatglm(HubValues& c) {
    for (const char* name : {"inner_hidden_size", "position_encoding_2d"})
        if (c.states(name))
            c.fail(name, "the first ChatGLM is not modelled; expected ChatGLM2, 3 or GLM-4");
    Workload& w = c.workload();
    if (!c.flag("multi_query_attention", false)) w.kv_heads = 0;
    if (!c.flag("rmsnorm", true)) w.norm = Norm::layernorm;
}

// Layers of GPT-Neo: [[["global", "local"], 12]], every kind as often as it says.
void read_local_layers(HubValues& c) {
    Workload& w = c.workload();
    double local = 0, all = 0;
    if (c.states("attention_types"))
        for (const Json& part : c.of("attention_types")) {
            if (!part.is_array() || part.size() != 2 || !part[0].is_array() || !part[1].is_number())
                c.fail("attention_types",
                       "expected lists of kinds and how often they come, like [[[\"global\", "
                       "\"local\"], 12]]");
            local += part[1].get<double>() * real(std::ranges::count(part[0], Json("local")));
            all += part[1].get<double>() * real(part[0].size());
        }
    if (!(local > 0 && local <= all)) return;
    c.may("window", "window_size");
    w.window_share = local / all;
}

// Every n-th layer has attention, the others a gated delta net.
void read_delta(HubValues& c) {
    Delta& d = c.workload().delta;
    if (c.states("full_attention_interval")) c.may("delta.interval", "full_attention_interval");
    if (!c.states("layer_types")) return;
    const Json& kinds = c.of("layer_types");
    const auto attends = [](const Json& kind) { return kind == "full_attention"; };
    const auto first = std::ranges::find_if(kinds, attends);
    d.interval = first == kinds.end() ? 0 : as_int(first - kinds.begin()) + 1;
    for (const std::size_t l : indices_of(kinds))
        if (kinds[l] !=
            (has_attention(c.workload(), as_int(l)) ? "full_attention" : "linear_attention"))
            c.fail("layer_types", fmt::format("layer {} is {}; expected linear_attention, and "
                                              "full_attention in every n-th layer",
                                              l, kinds[l].dump()));
}

// Some of GLM's layers take the selection of the one before (transformers 5.24.0,
// models/glm_moe_dsa/modeling_glm_moe_dsa.py: indexer_types).
void read_indexed(HubValues& c) {
    Indexer& x = c.workload().indexer;
    static_cast<void>(c.states("layer_types"));
    if (!c.states("index_topk")) x = {};
    const auto says = [&](const char* name, const char* what) {
        return c.states(name) && has(c.of(name).dump(), what);
    };
    const bool rarely = c.states("index_topk_freq") && c.of("index_topk_freq").is_number() &&
                        c.of("index_topk_freq") > 1;
    const bool shared = says("indexer_types", "shared") || says("index_topk_pattern", "S");
    if (x.heads > 0 && (rarely || shared))
        c.note(
            "layers that take the selection of the indexer before them: the forecast has an "
            "indexer in every layer");
}

// One shared expert of an expert's width beside the others, unless switched off.
void read_hunyuan(HubValues& c) {
    if (c.workload().moe.shared_experts == 0) c.workload().moe.shared_experts = 1;
    if (!c.flag("use_mixed_mlp_moe", true)) c.workload().moe.shared_experts = 0;
}

// OPT 350M alone embeds in another width, and norms behind its blocks. The table of positions has
// two rows that no token uses (modeling_opt.py, OPTLearnedPositionalEmbedding).
void read_opt(HubValues& c) {
    if (c.workload().max_positions > 0) c.workload().max_positions += 2;
    if (c.states("word_embed_proj_dim") && c.of("word_embed_proj_dim") != c.workload().hidden)
        c.fail("word_embed_proj_dim", "an embedding narrower than hidden_size is not modelled");
    if (!c.flag("do_layer_norm_before", true))
        c.fail("do_layer_norm_before", "norms behind blocks are not modelled for OPT");
}

struct TypeRule {
    std::string_view name;
    void (*read)(HubValues&);
};
constexpr TypeRule type_rules[] = {{"window", read_window},
                                   {"every_layer_sees_all", read_slides<1>},
                                   {"every_2nd_sees_all", read_slides<2>},
                                   {"every_6th_sees_all", read_slides<6>},
                                   {"dense_layers", read_dense_layers},
                                   {"no_dense_end", refuse_dense_end},
                                   {"opt", read_opt},
                                   {"norm_by_epsilon", read_norm_by_epsilon},
                                   {"gate_by_name", read_gate_by_name},
                                   {"gate_and_up", [](HubValues& c) { c.workload().ffn /= 2; }},
                                   {"side_by_side", note_side_by_side<true>},
                                   {"side_by_side_if_stated", note_side_by_side<false>},
                                   {"llama4", read_llama4},
                                   {"nemotron_h", read_nemotron_h},
                                   {"mamba_or_attention", read_mamba_and_attention<false>},
                                   {"mamba_and_attention", read_mamba_and_attention<true>},
                                   {"every_4th_sees_all", read_slides<4>},
                                   {"shared_width", read_shared_width},
                                   {"alibi", note_alibi},
                                   {"alibi_if_no_positions", note_alibi_without_positions},
                                   {"falcon", read_falcon},
                                   {"mpt", read_mpt},
                                   {"chatglm", read_chatglm},
                                   {"one_kv_head_if_stated", read_multi_query},
                                   {"local_layers", read_local_layers},
                                   {"indexed", read_indexed},
                                   {"delta", read_delta},
                                   {"hunyuan", read_hunyuan}};

// Reads an entry like "mistral.num_key_value_heads"; a nested name follows the type's, too.
void read_default(const std::string& name, const ConfigValue& value, HubRules& into) {
    Json& of = into.defaults[name.substr(0, name.find('.'))][name.substr(name.find('.') + 1)];
    std::visit(
        [&]<class T>(const T& one) {
            if constexpr (requires { of = one; } && !std::same_as<T, std::vector<ConfigValue>>)
                of = one;
            else
                throw ConfigError("expected true, false, a number or text");
        },
        value.value);
}

// Reads entries like "need.sizes.layers" and "may.experts.moe.groups".
bool read_names(const TomlEntry& entry, HubRules& into) {
    const auto group = entry.path.find('.'), key = entry.path.find('.', group + 1);
    const bool needed = entry.path.starts_with("need.");
    if (!needed && !entry.path.starts_with("may.")) return false;
    into.keys.push_back(
        {entry.path.substr(group + 1, key - group - 1), entry.path.substr(key + 1), {}, needed});
    if (key == std::string::npos || !find_key("workload." + into.keys.back().key))
        throw ConfigError("no key of a workload in a group");
    read_value(entry.value, into.keys.back().names);
    return true;
}

}  // namespace

HubRules read_hub_rules() {
    HubRules all;
    each_entry(
        read_toml(hub_path()).entries,
        [&](const TomlEntry& entry) {
            const auto name = entry.path.substr(entry.path.find('.') + 1);
            if (entry.path.starts_with("unread."))
                read_value(entry.value, all.unread.emplace_back(name, "").second);
            else if (entry.path == "defaults.untied_wholes")
                read_value(entry.value, all.untied_wholes);
            else if (entry.path.starts_with("defaults."))
                read_default(name, entry.value, all);
            else
                return read_names(entry, all) || read_field(entry.path, entry.value, all);
            return true;
        },
        [](const TomlEntry&) {
            return "unknown key; expected need, may, unread, defaults, text_parts, speaking, "
                   "without_effect or type";
        });
    return all;
}

const HubType* HubRules::of(std::string_view name) const {
    for (const HubType& type : types)
        if (contains(type.names, name)) return &type;
    return nullptr;
}

namespace {

const Json* at_name(const Json& table, std::string_view name) {
    const auto dot = name.find('.');
    const auto found = table.find(std::string(name.substr(0, dot)));
    if (found == table.end()) return nullptr;
    if (dot == std::string_view::npos) return &*found;
    return found->is_object() ? at_name(*found, name.substr(dot + 1)) : nullptr;
}

bool fits(std::string_view name, std::string_view pattern) {
    if (pattern.starts_with('*')) return name.ends_with(pattern.substr(1));
    if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
    return name == pattern;
}

bool is_off(const Json& value) {
    return value.is_null() || value == false || value == 0 || value == "" ||
           ((value.is_array() || value.is_object()) && value.empty());
}

// "a: 1" for each name of a table and of the tables in it.
template <typename Visit>
void each_name(const Json& table, const std::string& before, const Visit& visit) {
    for (const auto& [name, value] : table.items()) {
        const std::string full = before + name;
        if (value.is_object() && !value.empty())
            each_name(value, full + ".", visit);
        else
            visit(full, value);
    }
}

}  // namespace

const Json* HubValues::find(const std::string& name) const {
    asked_.insert(name);
    const Json* found = at_name(file_, name);
    if (!found) found = defaults_.contains(name) ? &defaults_[name] : nullptr;
    return found && !found->is_null() ? found : nullptr;
}

bool HubValues::stated_in_file(const std::string& name) const {
    const Json* found = at_name(file_, name);
    return found && !found->is_null();
}

// A list of one value for each layer is that value.
ConfigValue HubValues::value_of(const Json& value) {
    if (value.is_array() && !value.empty() && !value[0].is_array()) {
        if (std::ranges::all_of(value, [&](const Json& one) { return one == value[0]; }))
            return value_of(value[0]);
        throw ConfigError("found " + value.dump().substr(0, 40) +
                          "; layers that differ in it are not modelled; expected one value");
    }
    if (value.is_boolean()) return {value.get<bool>()};
    if (value.is_number_integer()) return {value.get<std::int64_t>()};
    if (value.is_number()) return {value.get<double>()};
    if (value.is_string()) return {value.get<std::string>()};
    throw ConfigError("found " + value.dump().substr(0, 40) + "; expected a number or text");
}

// Some files say false of a number that they do not have.
void HubValues::may(const std::string& key, const std::string& name) {
    if (!states(name)) return;
    const Key& to = *find_key("workload." + key);
    const std::string now = text_of(to, experiment_);
    if (of(name) == false && now != "true" && now != "false") return;
    at_place(path_ + ": " + name, [&] { assign(to, experiment_, value_of(of(name))); });
}

// The first of the key's names that the file states, also with a value for each layer; else the
// type's default.
void HubValues::read_key(const HubKey& key) {
    for (const std::string& name : key.names)
        for (const std::string& spoken : {name, name + "_per_layer"})
            if (stated_in_file(spoken)) return may(key.key, spoken);
    if (key.needed && !filled_)
        fail(key.names.front(), "missing; expected a value for workload." + key.key);
    const auto implied =
        first_where(key.names, [&](const std::string& name) { return states(name); });
    if (!implied && key.needed)
        fail(key.names.front(), "missing; expected a value for workload." + key.key);
    if (!implied) return;
    if (key.needed)
        filled_in_ += (filled_in_.empty() ? "" : ", ") + *implied + " " + of(*implied).dump();
    may(key.key, *implied);
}

void HubValues::read_group(std::string_view group) {
    for (const HubKey& key : rules_.keys)
        if (key.group == group) read_key(key);
}

void HubValues::note_unread(bool known) {
    std::string unread;
    each_name(file_, "", [&](const std::string& name, const Json& value) {
        const auto is = [&](const std::string& pattern) {
            return fits(name.substr(0, name.find('.')), pattern) || has(name, "." + pattern) ||
                   fits(name.substr(name.rfind('.') + 1), pattern);
        };
        if (value.is_null() || asked_.contains(name) ||
            std::ranges::any_of(rules_.without_effect, is))
            return;
        if (defaults_.contains(name) ? defaults_[name] == value : is_off(value)) return;
        const auto speaks = [&](const std::string& part) { return has(name, part); };
        if (known && std::ranges::none_of(rules_.speaking, speaks)) return;
        unread += (unread.empty() ? "" : ", ") + name + " = " + value.dump().substr(0, 40);
    });
    if (!unread.empty())
        note("not read, and perhaps more work than is forecast: " + unread +
             "; a workload of TOML keys can say what these mean");
}

// Where the file states no heads of keys and values: latent attention has none, and a library's
// default that does not divide the heads is not meant.
static void imply_kv_heads(HubValues& c) {
    Workload& w = c.workload();
    if (c.stated_in_file("num_key_value_heads")) return;
    if (is_latent(w)) w.kv_heads = 0;
    if (w.kv_heads <= 0 || w.heads % w.kv_heads == 0) return;
    c.note("num_key_value_heads: not stated, and the default of its library, " +
           std::to_string(w.kv_heads) + ", does not divide " + std::to_string(w.heads) +
           " heads; read as one for each head");
    w.kv_heads = 0;
}

void HubValues::read(const HubType& type) {
    Workload& w = workload();
    for (const std::string& text : type.set) {
        const Override implied = parse_override("workload." + text);
        assign_text(*find_key(implied.key), experiment_, implied.value);
    }
    w.tied = flag("tie_word_embeddings", w.tied);
    for (const std::string& group : type.keys) read_group(group);
    if (std::ranges::count(type.keys, "latents") > 0 && !is_latent(w))
        fail("kv_lora_rank", "missing; expected a value for workload.mla.kv_rank");
    imply_kv_heads(*this);
    if (!filled_in_.empty()) note("not stated, so the defaults of its library: " + filled_in_);
    if (w.ffn == 0) w.ffn = 4 * w.hidden;
    if (w.positions == Positions::learned) w.seq = w.max_positions;
    for (const std::string& name : type.rules) {
        const auto rule = std::ranges::find(type_rules, name, &TypeRule::name);
        if (rule == std::end(type_rules))
            throw ConfigError(hub_path() + ": type.rules: \"" + name + "\" is no rule");
        rule->read(*this);
    }
    if (!type.note.empty()) note(type.note);
}

}  // namespace stepcast
