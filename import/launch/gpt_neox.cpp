#include "import/launch/gpt_neox.h"

#include <algorithm>

#include <fmt/format.h>

#include "import/launch/deepspeed.h"
#include "import/launch/megatron_training.h"
#include "import/launch/tool_files.h"
#include "import/launch/trainer.h"
#include "import/launch/translation.h"
#include "model/base/lists.h"
#include "model/base/plain_text.h"

namespace stepcast {
namespace {

void take_widths(Document& d, Translation& t) {
    const auto* activation = d.find("activation");
    const std::string named = activation ? lower_case(activation->value) : "gelu";
    const auto* kind = d.find("mlp_type");
    const bool gated = named == "swiglu" || named == "geglu" || (kind && kind->value == "llama");
    t.set("workload.gated", truth(gated),
          activation ? activation->at
          : kind     ? kind->at
                     : "default of GPT-NeoX");
    const long hidden = t.count("workload.hidden", 0);
    if (!t.find("workload.ffn") && hidden > 0)
        t.take_default("workload.ffn",
                       std::to_string(gated ? hidden * 4 * 2 / 3 / 256 * 256 : 4 * hidden));
}

// [[["flash"], 12]], or several kinds in turn
void take_attention(Document& d, Translation& t) {
    if (const auto* v = d.find("attention_config")) {
        for (const std::string& kind : words_of(v->value, " ,[]'\"0123456789"))
            if (kind == "flash") {
                t.set("runtime.attention", "flash", v->at);
            } else if (kind != "global") {
                t.problem(*v, kind +
                                  ": attention other than global and flash is not modelled; "
                                  "taken as global");
                break;
            }
    }
    if (const auto* v = d.on("use_flash_attn")) t.set("runtime.attention", "flash", v->at);
}

void take_experts(Document& d, Translation& t) {
    const auto* v = d.find("moe_num_experts");
    if (!v || integer_in(*v) <= 1) return;
    t.set("workload.moe.experts", integer_in(*v), v->at);
    t.take("workload.moe.top_k", d.find("moe_top_k"), integer_text, "1");
    t.take("workload.moe.interval", d.find_any({"moe_expert_interval", "expert_interval"}),
           integer_text, "2");
    t.take("parallelism.ep", d.find("moe_expert_parallel_size"), integer_text, "1");
}

// Attention and feed-forward that stand side by side are summed over the ranks together
// (megatron/model/transformer.py: ParallelTransformerLayer).
void name_residuals(Document& d, Translation& t) {
    if (const auto* v = d.on("gpt_j_residual"); v && t.count("parallelism.tp", 1) > 1)
        t.problem(*v,
                  "one sum over the tensor-parallel ranks a layer; the forecast has one behind the "
                  "attention and one behind the feed-forward");
}

// The tokenizer's words are padded to a multiple of 128 rows a rank, which the framework's
// vocab_multiple does.
void take_vocabulary(Document& d, Translation& t) {
    if (const auto* v = d.find("padded_vocab_size"))
        return t.set("workload.vocab", integer_in(*v), v->at);
    const auto* tokenizer = d.find("tokenizer_type");
    const auto* words = d.find("vocab_size");
    if (words)
        t.set("workload.vocab", integer_in(*words), words->at);
    else if (!tokenizer || tokenizer->value == "GPT2BPETokenizer")
        t.take_default("workload.vocab", "50257");
    else
        t.open.push_back("vocab: from the tokenizer; set it with --set vocab=N");
    if (const auto* v = d.find("make_vocab_size_divisible_by"); v && t.find("workload.vocab"))
        t.set("runtime.vocab_multiple", integer_in(*v), v->at);
}

void take_dropout(Document& d, Translation& t) {
    const auto *hidden = d.find("hidden_dropout"), *scores = d.find("attention_dropout");
    const double rate = hidden ? number_in(*hidden) : 0,
                 of_scores = scores ? number_in(*scores) : 0;
    t.set("workload.dropout", fmt::format("{}", std::max(rate, of_scores)),
          hidden   ? hidden->at
          : scores ? scores->at
                   : "default of GPT-NeoX");
    if (rate > 0 && of_scores == 0)
        t.set("workload.score_dropout", "false", scores ? scores->at : "default of GPT-NeoX");
    if (rate == 0 && of_scores > 0)
        t.problem(*scores, "dropout of scores alone is not modelled; taken as dropout everywhere");
}

void take_recompute(Document& d, Translation& t) {
    const auto* on = d.find("checkpoint_activations");
    t.take(
        "parallelism.recompute", on,
        [](const NamedValue& v) { return std::string(flag_in(v) ? "full" : "none"); }, "none");
    if (const auto* each = d.find("checkpoint_num_layers");
        each && on && flag_in(*on) && integer_in(*each) > 1)
        t.problem(
            *each,
            fmt::format(
                "{} layers are computed again together; the forecast of memory has one at a time",
                each->value));
    if (const auto* v = d.on("partition_activations"); v && t.count("parallelism.tp", 1) > 1)
        t.problem(
            *v,
            "kept inputs are split over the tensor-parallel ranks; the forecast keeps them whole");
}

}  // namespace

// By names that no other tool has, beside sizes or a batch.
bool is_gpt_neox(const Document& d) {
    const auto has = [&](std::initializer_list<std::string_view> names) {
        return std::ranges::any_of(d.values, [&](const NamedValue& value) {
            std::string name = value.name;
            std::ranges::replace(name, '-', '_');
            return contains(names, name);
        });
    };
    return has({"pipe_parallel_size", "model_parallel_size", "pos_emb", "no_weight_tying",
                "gpt_j_residual", "output_layer_parallelism", "attention_config",
                "checkpoint_activations", "mlp_multiple_of", "rotary_pct"}) &&
           has({"num_layers", "hidden_size", "train_batch_size", "train_micro_batch_size_per_gpu",
                "zero_optimization.stage"});
}

namespace {

// A file without the model's sizes: what follows from other files is no default.
void leave_model(Translation& t) {
    t.open.push_back(
        "layers and widths: not in this file (NeoX joins several; join them into one here), or "
        "name the model with --model");
    const auto of_model = [](const std::string& key) {
        return key.starts_with("workload.") && !key.starts_with("workload.dtype") &&
               !key.starts_with("workload.optimizer");
    };
    std::erase_if(t.settings, [&](const Setting& s) {
        return of_model(s.key) && s.at.starts_with("default of ");
    });
    std::erase_if(t.defaulted, of_model);
}

}  // namespace

Translation translate_gpt_neox(Document d, long replicas) {
    for (NamedValue& value : d.values) std::ranges::replace(value.name, '-', '_');
    const Tool& tool = tool_named("gpt-neox");
    Translation t{.path = d.path, .format = tool.name, .framework = tool.framework};
    // 0 is a model without pipeline
    for (const char* name : {"pipe_parallel_size", "model_parallel_size"})
        for (NamedValue& value : d.values)
            if (value.name == name && value.value == "0") value.value = "1";
    take_listed(tool, d, t, replicas);
    const auto* dp = t.find("parallelism.dp");
    const auto* precision = d.find("precision");
    take_deepspeed_training(d, t, dp ? t.count("parallelism.dp", 1) : replicas);
    if (t.find("parallelism.micro_batch"))  // by DeepSpeed's name
        std::erase_if(t.open, [](const std::string& line) {
            return line.starts_with("sequences of a micro-batch: not stated");
        });
    if (const auto* dtype = t.find("workload.dtype");
        precision && dtype && dtype->at.starts_with("default of ")) {
        t.set("workload.dtype",
              precision->value.starts_with("bf") ? "bf16"
              : precision->value == "fp16"       ? "fp16"
                                                 : "fp32",
              precision->at);
        std::erase_if(t.defaulted,
                      [](const std::string& line) { return line.starts_with("workload.dtype"); });
    }
    take_widths(d, t);
    take_attention(d, t);
    take_experts(d, t);
    take_vocabulary(d, t);
    take_dropout(d, t);
    take_recompute(d, t);
    name_residuals(d, t);
    if (!t.find("workload.layers") || !t.find("workload.hidden")) leave_model(t);
    set_aside(tool, d, t);
    leave_rest(d, t);
    return t;
}

}  // namespace stepcast
