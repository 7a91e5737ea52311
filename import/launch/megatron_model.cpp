#include "import/launch/megatron_model.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "import/launch/launch_flags.h"
#include "import/launch/megatron.h"
#include "import/launch/megatron_source.h"
#include "import/launch/translation.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/text_search.h"

namespace stepcast {
namespace {

void take_feed_forward(MegatronSource& s) {
    const auto* activation = s.d.find_any({"activation", "activation_func"});
    const auto* gate = s.d.find_any({"swiglu", "quick_geglu", "gated_linear_unit"});
    const auto* kind = s.d.find("glu_activation");  // BigScience's: geglu, liglu, reglu or swiglu
    const std::string named = activation ? lower_case(activation->value) : "";
    const bool gated = (gate && flag_in(*gate)) || kind || has(named, "glu");
    s.take(
        "workload.gated",
        gate   ? gate
        : kind ? kind
               : activation,
        [&](const NamedValue&) { return truth(gated); }, "false");
    const auto* squared = s.d.on("squared_relu");
    if (squared || named == "squared-relu" || named == "squared_relu")
        s.t.set("workload.activation", "squared_relu", (squared ? squared : activation)->at);
    const long hidden = s.t.count("workload.hidden", 0);
    s.take("workload.ffn", s.d.find("ffn_hidden_size"), integer_text,
           std::to_string(s.lm() && (s.d.on("swiglu") || named == "swiglu")
                              ? hidden * 4 * 2 / 3 / 64 * 64
                              : 4 * hidden));
}

// Flags for fused attention before --attention-backend, of Megatron-LM and Megatron-DeepSpeed.
constexpr std::pair<std::string_view, std::string_view> fused_attentions[] = {
    {"use_flash_attn", "flash"},
    {"use_flash_attn_v1", "flash"},
    {"use_flash_attn_v2", "flash2"},
    {"use_flash_attn_triton", "triton"},
    {"use_flash_attn_builder", "flash"}};

// Megatron-DeepSpeed's own attention has its softmax in one kernel where that is not switched off,
// for 17 to 4096 keys in fours (fused_softmax.py: is_kernel_available; megatron-core 0.7 has the
// same file), else in steps of PyTorch.
void name_softmax_in_steps(MegatronSource& s) {
    constexpr long least = 17, most = 4096, multiple = 4;
    const auto *off = s.d.on("no_masked_softmax_fusion"),
               *of_dump = s.d.find("masked_softmax_fusion");
    if (!off && of_dump && !flag_in(*of_dump)) off = of_dump;
    const auto* keys = s.d.find("seq_length");
    const long n = keys ? count_in(*keys) : most;
    const auto* why = off ? off : n < least || n > most || n % multiple != 0 ? keys : nullptr;
    if (why)
        s.t.problem(*why,
                    "the softmax of the scores runs in steps; the forecast has it in one pass");
}

// The flag for fused attention that is on, and its kernel.
std::pair<const NamedValue*, std::string_view> fused_attention(MegatronSource& s) {
    std::pair<const NamedValue*, std::string_view> found{};
    for (const auto& [name, kernel] : fused_attentions)
        if (const auto* v = s.d.on(name); v && s.lm() && !found.first) found = {v, kernel};
    return found;
}

void take_key_heads(MegatronSource& s) {
    const auto* groups = s.d.find("num_query_groups");
    const auto* grouped = s.d.find("group_query_attention");
    const bool in_groups = grouped ? flag_in(*grouped) : s.full;
    if (groups && s.lm() && !in_groups)
        s.t.ignored.push_back("num_query_groups (" + groups->at +
                              "): without group_query_attention");
    else
        s.take("workload.kv_heads", groups, integer_text,
               s.lm() && s.d.on("group_query_attention") ? "1" : "");
    // name in Megatron-DeepSpeed
    s.t.take("workload.kv_heads", s.d.find("num_key_value_heads"), integer_text);
}

bool is_script_of_core(const MegatronSource& s) { return s.lm() && !s.deepspeed && !s.full; }

void take_latent_attention(MegatronSource& s) {
    for (const auto& [theirs, ours, otherwise] :
         {std::tuple{"kv_lora_rank", "workload.mla.kv_rank", "32"},
          {"qk_head_dim", "workload.mla.nope_dim", "128"},
          {"qk_pos_emb_head_dim", "workload.mla.rope_dim", "64"},
          {"v_head_dim", "workload.mla.value_dim", "128"}})
        s.t.take(ours, s.d.find(theirs), integer_text, otherwise);
}

void take_attention(MegatronSource& s) {
    take_key_heads(s);
    // "unfused", or "AttnBackend.unfused" in a dump
    const auto* backend = s.d.find("attention_backend");
    const auto says = [&](const char* one, const char* other) {
        return backend && (backend->value.ends_with(one) || backend->value.ends_with(other));
    };
    const bool unfused = says("unfused", "local");
    const auto [flash, kernel] = fused_attention(s);
    const bool of_core = is_script_of_core(s) && !backend;
    if (s.d.on("multi_latent_attention")) {
        take_latent_attention(s);
        if (unfused)
            s.t.problem(*backend, backend->value + " is not modelled with MLA; taken as fused");
    } else if (unfused) {
        s.t.set("runtime.attention", "plain", backend->at);
    } else if (flash) {
        s.t.set("runtime.attention", std::string(kernel), flash->at);
    } else if (says("flash", "fused")) {
        s.t.set("runtime.attention", "flash", backend->at);
    } else if (const auto* own = s.d.find("transformer_impl");
               own && own->value == "local" && of_core) {
        s.t.set("runtime.attention", "plain", own->at);  // Megatron-Core's DotProductAttention
    } else if (s.sized && s.deepspeed) {
        s.t.take_default("runtime.attention", "plain");
        name_softmax_in_steps(s);
    } else if (s.sized) {  // its framework's, which depends on the device
        s.t.defaulted.emplace_back("runtime.attention = flash, where the device has it");
    }
}

// A word that none of the known ones is read as the last of them, which the report says.
void check_word(MegatronSource& s, const NamedValue* stated,
                std::initializer_list<const char*> known) {
    if (stated == nullptr || contains(known, lower_case(stated->value))) return;
    s.t.problem(*stated, "\"" + stated->value + "\" is not known; taken as " + *(known.end() - 1));
}

void take_norms_and_positions(MegatronSource& s) {
    check_word(s, s.d.find("normalization"), {"rmsnorm", "layernorm1p", "layernorm"});
    check_word(
        s, s.d.find("position_embedding_type"),
        {"rope", "yarn", "mrope", "rotary", "learned_absolute", "absolute", "relative", "none"});
    s.take(
        "workload.norm", s.d.find("normalization"),
        [](const NamedValue& v) {
            return lower_case(v.value) == "rmsnorm" ? "rmsnorm" : "layernorm";
        },
        "layernorm");
    const auto *old = s.d.on("use_rotary_position_embeddings"),
               *kind = s.d.find("position_embedding_type");
    const auto* none = s.lm() ? s.d.on("no_position_embedding") : nullptr;
    s.take(
        "workload.positions",
        old    ? old
        : kind ? kind
               : none,
        [&](const NamedValue& v) {
            const auto said = v.name == "no_position_embedding" ? "none" : lower_case(v.value);
            return old || said == "rope" || said == "yarn" || said == "mrope" || said == "rotary"
                       ? "rotary"
                   : said == "learned_absolute" || said == "absolute" ? "learned"
                   : said == "relative"                               ? "relative"
                                                                      : "none";
        },
        "learned");
}

void take_norm_of_queries(MegatronSource& s) {
    const auto* v = s.d.on("qk_layernorm");
    if (!v) return;
    // it is one of the latents there, which the forecast always has
    if (s.t.find("workload.mla.kv_rank"))
        s.t.ignored.push_back("qk_layernorm (" + v->at + "): MLA has its own norms");
    else
        s.t.set("workload.qk_norm", "true", v->at);
}

void take_dropout(MegatronSource& s) {
    const auto *hidden = s.d.find("hidden_dropout"), *scores = s.d.find("attention_dropout");
    const double of_scores = scores ? number_in(*scores) : 0.1,
                 of_hidden = hidden ? number_in(*hidden) : 0.1;
    s.take(
        "workload.dropout", hidden ? hidden : scores,
        [&](const NamedValue&) { return fmt::format("{}", std::max(of_scores, of_hidden)); },
        "0.1");
    if (scores && of_scores == 0 && of_hidden > 0)
        s.t.set("workload.score_dropout", "false", scores->at);
}

// Dumps of arguments and --yaml-cfg files name the flag's destination, which for some flags has the
// opposite meaning.
void take_biases_and_ends(MegatronSource& s) {
    const auto flag = [&](const char* key, const char* theirs, const char* opposite) {
        const auto *no = s.d.find(opposite), *yes = s.d.find(theirs);
        s.take(
            key, yes ? yes : no,
            [&](const NamedValue& v) { return truth(flag_in(v) != (yes == nullptr)); }, "true");
    };
    if (s.dialect == MegatronDialect::nemo)
        s.take("workload.linear_bias", s.d.find("bias"), flag_text, "true");
    else
        flag("workload.linear_bias", "add_bias_linear", "disable_bias_linear");
    if (const auto* v = s.d.on("add_qkv_bias"))
        s.t.set("workload.qkv_bias", "true", v->at);
    else if (const auto* bias = s.t.find("workload.linear_bias"))
        s.t.set("workload.qkv_bias", bias->value, std::string(bias->at));
    if (const auto* v = s.d.on("attention_output_gate"))
        s.t.set("workload.attention_gate", "true", v->at);
    take_norm_of_queries(s);
    flag("workload.tied", "share_embeddings_and_output_weights",
         "untie_embeddings_and_output_weights");
    take_dropout(s);
    if (s.sized && !s.t.find("workload.vocab") && !s.d.states("pad_vocab_size_to"))
        s.t.open.push_back("vocab: from the tokenizer; set it with --set vocab=N");
}

// "127,0": numbers of tokens before and after that a token sees. window_attn_skip_freq = n lets
// every n-th layer see all tokens.
void take_window(MegatronSource& s) {
    const auto* v = s.d.find("window_size");
    if (!v || lower_case(v->value) == "none") return;
    const auto first = v->value.find_first_of("0123456789");
    const auto last = v->value.find_first_not_of("0123456789", first);
    if (first == std::string::npos || has(v->value, '-'))
        return s.t.problem(
            *v, "found " + v->value + "; the forecast has attention to all earlier tokens");
    s.t.set("workload.window",
            std::stol(v->value.substr(first, std::min<std::size_t>(last - first, 9))) + 1, v->at);
    if (const auto* skip = s.d.find("window_attn_skip_freq"); skip && integer_in(*skip) > 0)
        s.t.set("workload.window_share", fmt::format("{}", 1 - 1.0 / real(integer_in(*skip))),
                skip->at);
}

// Reports options that change the work of some layers and are not in the forecast.
void name_other_layers(MegatronSource& s) {
    if (const auto* v = s.d.find("spec"); v && has(v->value, "mamba"))
        s.t.problem(*v, "layers of Mamba; the forecast has attention in each");
    // In a model without decoder the encoder layers are its layers.
    if (const auto* v = s.d.find("encoder_num_layers");
        v && integer_in(*v) != s.t.count("workload.layers", 0))
        s.t.problem(*v, "the forecast has no encoder beside the layers");
    take_window(s);
    // T5's bias for each distance; the forecast's relative positions are Transformer-XL's, which
    // Megatron has not.
    if (const auto* v = s.d.find("position_embedding_type");
        v && lower_case(v->value) == "relative") {
        s.t.set("workload.positions", "none", v->at);
        s.t.problem(*v, "biases of relative positions are not modelled; taken as none");
    }
    if (const auto* v = s.d.find("mtp_num_layers"); v && integer_in(*v) > 0)
        s.t.set("workload.mtp_layers", integer_in(*v), v->at);
}

// Megatron pads the vocabulary so that each tensor-parallel rank holds a multiple of rows. A run's
// dump states the padded size.
void pad_vocabulary(MegatronSource& s) {
    const auto* stated = s.d.find("vocab_size");
    if (const auto* to = s.lm() ? s.d.find("pad_vocab_size_to") : nullptr)
        return s.t.set("workload.vocab", integer_in(*to), to->at);
    if (!stated || !s.lm() || s.d.states("padded_vocab_size")) return;
    const auto* divisor = s.d.find("make_vocab_size_divisible_by");
    const long rows = (divisor ? count_in(*divisor) : 128) *
                      std::clamp(s.t.count("parallelism.tp", 1), 1L, 1'000'000L);
    s.t.set("workload.vocab", (s.t.count("workload.vocab", 0) + rows - 1) / rows * rows,
            stated->at);
}

// "([0]*3+[1]*45)" -> 0 or 1 per layer. Sums and products of lists have the form of a layout
// without signs.
std::string pattern_in(const NamedValue& value) {
    NamedValue layout = value;
    std::erase_if(layout.value, [](char c) {
        return std::string_view("+, \"'").find(c) != std::string_view::npos;
    });
    std::ranges::replace(layout.value, '[', '(');
    std::ranges::replace(layout.value, ']', ')');
    return written_out(layout);
}

// A Python list, "([0]*3+[1]*58)": dense layers first, then experts in every layer or in the last
// of every interval.
void take_pattern_of_experts(MegatronSource& s, const NamedValue& value) {
    const std::string layers = pattern_in(value);
    const long all = s.t.count("workload.layers", 0);
    const auto first = layers.find('1'), next = layers.find('1', first + 1);
    const auto interval = next == std::string::npos ? 1 : next - first,
               dense = first == std::string::npos ? 0 : first / interval * interval;
    std::string modelled(layers.size(), '0');
    for (std::size_t layer = dense; layer < layers.size(); ++layer)
        if ((layer + 1) % interval == 0) modelled[layer] = '1';
    if (first == std::string::npos || modelled != layers)
        wrong(value,
              "an interval N, or ([0]*DENSE+[1]*REST) or one of every N layers behind dense ones, "
              "the patterns that are modelled");
    if (all > 0 && std::ssize(layers) != all)
        wrong(value, fmt::format("a pattern of num_layers = {} layers; this one is of {}", all,
                                 layers.size()));
    if (dense > 0 || interval == 1)
        s.t.set("workload.moe.dense_layers", static_cast<long>(dense), value.at);
    if (interval > 1) s.t.set("workload.moe.interval", static_cast<long>(interval), value.at);
}

// Gated delta nets in all layers but every N-th (N, or a list of 1 for each of them and 0 for
// attention).
void take_delta_nets(MegatronSource& s, const NamedValue& variant) {
    const auto* frequency = s.d.find("linear_attention_freq");
    if (!frequency)
        wrong(variant, "--linear-attention-freq beside it, without which Megatron-Core stops");
    long interval = 0;
    if (!has(frequency->value, '[')) {
        interval = count_in(*frequency);
    } else {
        const std::string layers = pattern_in(*frequency);
        const auto attends = layers.find('0');
        interval = attends == std::string::npos ? 0 : static_cast<long>(attends) + 1;
        for (long layer = 1; layer <= std::ssize(layers); ++layer)
            if ((layers[as_index(layer - 1)] == '0') != (interval > 0 && layer % interval == 0))
                wrong(*frequency,
                      "an interval N, or ([1]*(N-1)+[0]*1)*TIMES, the patterns that are modelled");
    }
    s.t.set("workload.delta.interval", interval, frequency->at);
    for (const auto& [key, name, usual] :
         {std::tuple("value_heads", "linear_num_value_heads", "32"),
          {"key_heads", "linear_num_key_heads", "16"},
          {"key_dim", "linear_key_head_dim", "128"},
          {"value_dim", "linear_value_head_dim", "128"},
          {"conv", "linear_conv_kernel_dim", "4"}})
        s.t.take(std::string("workload.delta.") + key, s.d.find(name), integer_text, usual);
}

// Latent attention to the keys that an indexer selects.
void take_indexer(MegatronSource& s, const NamedValue& variant) {
    for (const auto& [key, name] : {std::pair("heads", "dsa_indexer_n_heads"),
                                    {"head_dim", "dsa_indexer_head_dim"},
                                    {"top_k", "dsa_indexer_topk"}}) {
        const auto* stated = s.d.find(name);
        if (!stated) wrong(variant, fmt::format("{} beside it", name));
        s.t.set(std::string("workload.indexer.") + key, count_in(*stated), stated->at);
    }
    if (const auto* v = s.d.find("dsa_indexer_topk_freq"); v && integer_in(*v) > 1)
        s.t.problem(*v,
                    "layers that take the selection of the indexer before them; the forecast "
                    "has an indexer in every layer");
}

// What stands in place of attention (Megatron-Core 0.16.0, transformer/transformer_config.py and
// transformer/experimental_attention_variant).
void take_variant(MegatronSource& s) {
    const auto* variant = s.d.find_any({"experimental_attention_variant", "linear_attention_type"});
    if (!variant || changes_nothing(variant->value)) {
        if (const auto* v = s.d.find("linear_attention_freq"))
            s.t.problem(*v, v->value + "; the forecast has the usual attention");
        return;
    }
    if (variant->value == "gated_delta_net" || variant->value == "gdn")
        take_delta_nets(s, *variant);
    else if (variant->value == "dsa")
        take_indexer(s, *variant);
    else
        s.t.problem(*variant, variant->value + "; the forecast has the usual attention");
}

}  // namespace

void take_model(MegatronSource& s) {
    s.sized = s.t.find("workload.layers") && s.t.find("workload.hidden");
    s.t.take("workload.seq",
             s.d.find_any({"data.train_ds.max_seq_length", "seq_length", "encoder_seq_length",
                           "dataset.seq_length", "data.seq_length"}),
             integer_text);
    if (!s.sized)
        s.t.open.push_back(
            "layers and widths: the file leaves them to a recipe; name the model with --model");
    else
        s.t.set("workload.kind", "transformer", s.t.find("workload.layers")->at);
    take_feed_forward(s);
    take_attention(s);
    take_norms_and_positions(s);
    take_biases_and_ends(s);
    pad_vocabulary(s);
    s.t.take("runtime.vocab_multiple", s.d.find("make_vocab_size_divisible_by"), integer_text);
    name_other_layers(s);
    take_variant(s);
    if (const auto* v = s.d.find_any({"optimizer", "optimizer.optimizer", "optim.name"}))
        set_optimizer(s.t, *v);
    else if (s.sized)
        s.t.take_default("workload.optimizer", "adam");
}

namespace {

// Megatron begins with the first layer (i % N == 0), the forecast ends every interval with one.
void take_interval_of_experts(MegatronSource& s, const NamedValue& v) {
    const long every = count_in(v), all = s.t.count("workload.layers", 0);
    s.t.set("workload.moe.interval", every, v.at);
    if (all % every != 0)
        s.t.problem(
            v, fmt::format("experts in {} of {} layers, the first among them; the forecast has {}",
                           (all + every - 1) / every, all, all / every));
}

void take_expert_tensor_parallel(MegatronSource& s) {
    const long tp = s.t.count("parallelism.tp", 1);
    const auto* v = s.d.find("expert_tensor_parallel_size");
    if (!v) return;
    const long etp = integer_in(*v);
    if (etp != 1 && etp != tp)
        s.t.problem(*v, fmt::format("{} is neither 1 nor tp; taken as {}", etp, tp));
    s.t.set("runtime.experts.tensor_parallel", etp == 1 && tp > 1 ? "none" : "all", v->at);
}

}  // namespace

void take_experts(MegatronSource& s) {
    const auto* experts = s.t.find("workload.moe.experts");
    if (!experts && (s.sized || s.full)) return;  // a recipe may have some
    if (experts && !s.t.find("workload.moe.top_k")) s.t.take_default("workload.moe.top_k", "2");
    s.t.take("workload.moe.capacity_factor", s.d.find("moe_expert_capacity_factor"), stated_text);
    if (const auto* all = s.t.find("workload.moe.shared_ffn")) {
        const long each = s.t.count("workload.moe.ffn", s.t.count("workload.ffn", 1));
        s.t.set("workload.moe.shared_experts",
                std::max(1L, std::stol(all->value) / std::max(1L, each)), std::string(all->at));
    }
    s.t.take("workload.moe.router_bias", s.d.find("moe_router_enable_expert_bias"), flag_text);
    s.t.take("workload.moe.shared_gate", s.d.on("moe_shared_expert_gate"), flag_text);
    if (const auto* v = s.d.find("moe_layer_freq")) {
        if (!has(v->value, '['))
            take_interval_of_experts(s, *v);
        else
            take_pattern_of_experts(s, *v);
    }
    // "each" is read where Megatron-LM's default stands, SequentialMLP; recipes of others have it
    // on
    if (const auto* v = s.d.find("moe_grouped_gemm");
        s.lm() && !s.deepspeed && experts && !(v && flag_in(*v)))
        s.t.take(
            "runtime.experts.products", v, [](const NamedValue&) { return "each"; }, "each");
    s.t.take("runtime.experts.dispatch", s.d.find("moe_token_dispatcher_type"),
             [](const NamedValue& v) { return dispatch_by(v.value == "flex"); });
    if (const auto* v = s.d.find("moe_token_dispatcher_type"); v && v->value == "allgather")
        s.t.problem(*v, "allgather; the forecast exchanges tokens by all-to-all");
    s.t.take("runtime.experts.dispatch", s.d.on("moe_enable_deepep"),
             [](const NamedValue&) { return dispatch_by(true); });
    take_expert_tensor_parallel(s);
}

}  // namespace stepcast
