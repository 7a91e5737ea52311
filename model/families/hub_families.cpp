#include "model/families/hub_families.h"

#include <algorithm>
#include <cmath>

#include "model/keys/fields.h"

namespace stepcast {
namespace {

double all_but_every(int nth, int layers) { return 1 - static_cast<double>(layers / nth) / layers; }

// Share of the layers with a sliding window: all layers, those in layer_types, all but every n-th (sliding_window_pattern), or those
// after the first max_window_layers (Qwen).
double share_of_windows(const HubValues& c, int layers) {
    double share = 1;
    if (c.states("max_window_layers") && c.of("max_window_layers").is_number())
        share = 1 - std::min(c.of("max_window_layers").get<double>() / layers, 1.0);
    if (c.states("sliding_window_pattern") && c.of("sliding_window_pattern").is_number_integer())
        if (const auto nth = c.of("sliding_window_pattern").get<std::int64_t>(); nth > 0)
            share = all_but_every(static_cast<int>(std::min<std::int64_t>(nth, layers + 1)), layers);
    if (c.states("sliding_window_pattern") && c.of("sliding_window_pattern").is_string()) {  // a letter a layer, repeated: L has a window
        const auto pattern = c.of("sliding_window_pattern").get<std::string>();
        if (!pattern.empty()) share = static_cast<double>(std::ranges::count(pattern, 'L')) / static_cast<double>(pattern.size());
    }
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

// Qwen's windows are off unless switched on. If no layer has one, the share is 1: a window set by the user is in all layers.
void read_window(HubValues& c, const char* name) {
    Workload& w = c.workload();
    w.window = 0;
    if (c.flag("use_sliding_window", !c.states("max_window_layers"))) c.may("window", name);
    w.window_share = share_of_windows(c, w.layers);
    if (w.window == 0 || w.window_share == 0) {
        w.window = 0;
        w.window_share = 1;
    }
}

void read_window(HubValues& c) { read_window(c, "sliding_window"); }

// Leading layers without experts, from [0, 1, 2] in mlp_only_layers or [0, 0, 1, 1, ..] in moe_layer_freq.
void read_dense_layers(HubValues& c) {
    if (c.states("shared_expert_intermediate_size")) c.workload().moe.shared_experts = 1;
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

// The model type's default share of sliding layers, for files that do not state one.
template <int nth>
void read_slides(HubValues& c) {
    if (!c.states("layer_types") && !c.states("sliding_window_pattern")) c.workload().window_share = all_but_every(nth, c.workload().layers);
}

void read_norm_by_epsilon(HubValues& c) {
    if (!c.states("rms_norm_eps") && (c.states("layer_norm_eps") || c.states("layer_norm_epsilon"))) c.workload().norm = Norm::layernorm;
}

void read_gate_by_name(HubValues& c) { c.workload().gated = c.states("mlp_type") && c.of("mlp_type") == "gated"; }

void read_llama4(HubValues& c) {
    Workload& w = c.workload();
    w.moe.shared_experts = 1;
    w.moe.ffn = w.moe.shared_ffn = w.ffn;
    c.may("ffn", "intermediate_size_mlp");
    if (!c.states("attention_chunk_size")) return;
    read_window(c, "attention_chunk_size");
    if (!c.states("layer_types")) w.window_share = 0.75;  // every fourth layer attends to all tokens
    c.note("attention_chunk_size: read as a sliding window of as many tokens, which sees up to twice as many as a chunk");
}

// Spreads Mamba-2 and attention blocks over the layers (one per feed-forward), with the key names of Nemotron-H or Bamba. If there
// are more or fewer Mamba blocks than layers, each layer has one block with proportionally more or fewer heads.
void lay_mixers(HubValues& c, double mamba, double attention) {
    Workload& w = c.workload();
    w.mamba.attention = attention / w.layers;
    c.read_group("mamba");
    const double heads = w.mamba.heads;
    w.mamba.heads = static_cast<int>(std::lround(heads * mamba / w.layers));
    if (mamba != w.layers)
        c.note(std::to_string(static_cast<int>(mamba)) + " Mamba blocks over " + std::to_string(w.layers) + " layers: read as one a layer of " +
               std::to_string(w.mamba.heads) + " heads instead of " + std::to_string(static_cast<int>(heads)));
    for (const char* name : {"mamba_head_dim", "mamba_d_head"})
        if (c.states(name) && c.of(name) != "auto") c.may("mamba.head_dim", name);
}

// The pattern has one letter per block: M a Mamba-2 block, - a feed-forward, E experts, * attention.
void read_nemotron_h(HubValues& c) {
    if (!c.states("hybrid_override_pattern") || !c.of("hybrid_override_pattern").is_string())
        c.fail("hybrid_override_pattern", "missing; expected a text of M, -, E and *");
    const auto pattern = c.of("hybrid_override_pattern").get<std::string>();
    const auto count = [&](char block) { return static_cast<int>(std::ranges::count(pattern, block)); };
    const int forward = count('-') + count('E');
    if (count('M') == 0 || forward == 0) c.fail("hybrid_override_pattern", "expected Mamba and feed-forward blocks");
    if (count('-') > 0 && count('E') > 0) c.fail("hybrid_override_pattern", "dense blocks between those with experts are not modelled");
    if (count('E') > 0) {
        for (const char* group : {"experts", "narrow_experts"}) c.read_group(group);
        read_dense_layers(c);
    }
    c.workload().layers = forward;
    lay_mixers(c, count('M'), count('*'));
    c.read_group("attention_head");
}

// Each feed-forward follows a Mamba-2 block or attention (Bamba, Granite 4.0), or both in parallel (Falcon-H1, arXiv 2507.22448).
void read_mamba_or_attention(HubValues& c) {
    Workload& w = c.workload();
    if (c.states("position_embedding_type") && c.of("position_embedding_type") == "nope") w.positions = Positions::none;
    const bool both = !c.states("layer_types") && !c.states("attn_layer_indices");
    std::size_t attention = c.states("attn_layer_indices") ? c.of("attn_layer_indices").size() : 0;
    if (c.states("layer_types")) attention = static_cast<std::size_t>(std::ranges::count(c.of("layer_types"), Json("attention")));
    if (attention > static_cast<std::size_t>(w.layers)) c.fail("attn_layer_indices", "more blocks than layers");
    lay_mixers(c, both ? w.layers : w.layers - static_cast<double>(attention), both ? w.layers : static_cast<double>(attention));
    c.may("moe.experts", "num_local_experts");
    if (w.moe.experts == 0) return c.may("ffn", "shared_intermediate_size");
    c.read_group("experts_beside_shared");
    w.moe.shared_experts = 1;
}

void refuse_dense_end(HubValues& c) {
    if (c.states("moe_layer_end_index") && c.of("moe_layer_end_index") != -1 && c.of("moe_layer_end_index") < c.workload().layers - 1)
        c.fail("moe_layer_end_index", "dense layers behind those with experts are not modelled");
}

// Attention and feed-forward read the same norm (GPT-J; GPT-NeoX, arXiv 2204.06745, section 2.1, has a flag for it).
template <bool otherwise>
void note_side_by_side(HubValues& c) {
    if (c.flag("use_parallel_residual", otherwise) || c.flag("use_parallel_block", false))
        c.note("attention and feed-forward of a layer run side by side behind one norm: the forecast has them one after the other, with two norms and "
               "twice the all-reduces of tensor parallelism");
}

// OPT 350M alone embeds in another width, and norms behind its blocks.
void refuse_opt_350m(HubValues& c) {
    if (c.states("word_embed_proj_dim") && c.of("word_embed_proj_dim") != c.workload().hidden)
        c.fail("word_embed_proj_dim", "an embedding narrower than hidden_size is not modelled");
    if (!c.flag("do_layer_norm_before", true)) c.fail("do_layer_norm_before", "norms behind blocks are not modelled for OPT");
}

// OPT's table has two rows more than positions, which begin at the third (transformers/models/opt/modeling_opt.py).
void read_offset_positions(HubValues& c) { c.workload().max_positions += 2; }

struct Rule {
    std::string_view name;
    void (*read)(HubValues&);
};
constexpr Rule rules[] = {{"window", read_window},
                          {"every_2nd_sees_all", read_slides<2>},
                          {"every_6th_sees_all", read_slides<6>},
                          {"dense_layers", read_dense_layers},
                          {"no_dense_end", refuse_dense_end},
                          {"not_opt_350m", refuse_opt_350m},
                          {"offset_positions", read_offset_positions},
                          {"norm_by_epsilon", read_norm_by_epsilon},
                          {"gate_by_name", read_gate_by_name},
                          {"gate_and_up", [](HubValues& c) { c.workload().ffn /= 2; }},
                          {"side_by_side", note_side_by_side<true>},
                          {"side_by_side_if_stated", note_side_by_side<false>},
                          {"llama4", read_llama4},
                          {"nemotron_h", read_nemotron_h},
                          {"mamba_or_attention", read_mamba_or_attention}};

// Reads entries like "need.sizes.layers" and "may.experts.moe.groups".
bool read_names(const TomlEntry& entry, HubRules& into) {
    const auto group = entry.path.find('.'), key = entry.path.find('.', group + 1);
    const bool needed = entry.path.starts_with("need.");
    if (!needed && !entry.path.starts_with("may.")) return false;
    into.keys.push_back({entry.path.substr(group + 1, key - group - 1), entry.path.substr(key + 1), {}, needed});
    if (key == std::string::npos || !find_key("workload." + into.keys.back().key)) throw ConfigError("no key of a workload in a group");
    read_value(entry.value, into.keys.back().names);
    return true;
}

}  // namespace

HubRules read_hub_rules() {
    HubRules all;
    each_entry(read_toml(hub_path()).entries,
               [&](const TomlEntry& entry) {
                   if (!entry.path.starts_with("unread.")) return read_names(entry, all) || read_field(entry.path, entry.value, all);
                   read_value(entry.value, all.unread.emplace_back(entry.path.substr(entry.path.find('.') + 1), "").second);
                   return true;
               },
               [](const TomlEntry&) { return "unknown key; expected need, may, unread or type"; });
    return all;
}

const HubType* HubRules::of(std::string_view name) const {
    for (const HubType& type : types)
        if (std::ranges::find(type.names, name) != type.names.end()) return &type;
    return nullptr;
}

void HubValues::read_group(std::string_view group) {
    for (const HubKey& key : rules_.keys) {
        if (key.group != group) continue;
        const auto stated = std::ranges::find_if(key.names, [&](const std::string& name) { return states(name.c_str()); });
        if (stated == key.names.end() && key.needed) fail(key.names.front().c_str(), "missing; expected a value for workload." + key.key);
        if (stated != key.names.end()) may(key.key, stated->c_str());
    }
}

void HubValues::read(const HubType& type) {
    Workload& w = workload();
    for (const std::string& text : type.set) {
        const Override implied = parse_override("workload." + text);
        assign_text(*find_key(implied.key), experiment_, implied.value);
    }
    w.tied = flag("tie_word_embeddings", w.tied);
    for (const std::string& group : type.keys) read_group(group);
    if (w.ffn == 0) w.ffn = 4 * w.hidden;
    if (w.positions == Positions::learned) w.seq = w.max_positions;
    for (const std::string& name : type.rules) {
        const auto rule = std::ranges::find(rules, name, &Rule::name);
        if (rule == std::end(rules)) throw ConfigError(hub_path() + ": type.rules: \"" + name + "\" is no rule");
        rule->read(*this);
    }
    if (!type.note.empty()) note(type.note);
}

}  // namespace stepcast
