#include "import/launch/megatron_yaml.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "import/launch/adapter_targets.h"
#include "import/launch/interpolation.h"
#include "import/launch/megatron.h"
#include "import/launch/megatron_source.h"
#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/base/lists.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/base/text_search.h"

namespace stepcast {
namespace {

// The rows in a table of configurations, such as "h100,64,fp8".
std::vector<std::string> variants_in(const Document& d) {
    std::vector<std::string> known;
    for (const auto& value : d.values) {
        const std::vector<std::string> steps = words_of(value.name, ".");
        if (steps.size() < 4 || steps[0] != "perf_matrix" || steps[3] == "common") continue;
        const auto label =
            steps[1] + "," + steps[2].substr(steps[2].find_last_of('_') + 1) + "," + steps[3];
        add_once(known, label);
    }
    return known;
}

// Replaces the table perf_matrix by one of its rows (GPU, number of GPUs, precision), with the long
// names of the keys. Values of the row's precision override those common to the row.
void take_rows(Document& d, const std::vector<std::string>& parts) {
    static const std::map<std::string, std::string> longer{
        {"mbs", "micro_batch_size"},          {"gbs", "global_batch_size"},
        {"tp", "tensor_model_parallel_size"}, {"pp", "pipeline_model_parallel_size"},
        {"cp", "context_parallel_size"},      {"vp", "virtual_pipeline_model_parallel_size"},
        {"ep", "expert_model_parallel_size"}, {"etp", "expert_tensor_parallel_size"},
        {"fsdp", "use_megatron_fsdp"}};
    const auto row = "perf_matrix." + parts[0] + ".num_gpus_" + parts[1] + ".";
    std::vector<NamedValue> chosen;
    for (const auto& value : d.values)
        if (!value.name.starts_with("perf_matrix.")) chosen.push_back(value);
    for (const auto& section : {row + "common.", row + parts[2] + "."})
        for (const auto& value : d.values) {
            if (!value.name.starts_with(section)) continue;
            auto name = value.name.substr(section.size());
            if (const auto found = value_in(longer, name)) name = *found;
            chosen.push_back({name, value.value, value.at, value.null});
        }
    d.values = std::move(chosen);
}

void choose_variant(Document& d, const std::string& variant, std::string& gpu, long& ranks) {
    const std::vector<std::string> parts = words_of(variant), known = variants_in(d);
    if (parts.size() != 3 || !contains(known, variant))
        refuse("{}: a table of {} configurations; expected --variant and one of {}{}", d.path,
               known.size(), joined(known, " "), did_you_mean(variant, known));
    gpu = parts[0];
    if (parts[1].size() > 9 || parts[1].find_first_not_of("0123456789") != std::string::npos)
        refuse("{}: --variant {}: {} is no number of GPUs", d.path, variant, parts[1]);
    ranks = std::stol(parts[1]);
    take_rows(d, parts);
    d.add("mixed_precision.name",
          parts[2].starts_with("fp8") ? "bf16_with_fp8_mixed" : parts[2] + "_mixed", d.path);
}

// "_target_: ...Llama3ModelProvider8B": adds what the class sets if the file does not. For other
// classes Megatron's own defaults apply, which the report lists.
void add_class_of_model(Document& d) {
    const auto* target = d.find_any({"model._target_", "ConfigContainer.model._target_"});
    if (!target) return;
    const NamedValue of = *target;
    const auto name = of.value.substr(of.value.find_last_of('.') + 1);
    if (!name.starts_with("Llama") && !name.starts_with("Mistral") &&
        !name.starts_with("Mixtral") && !name.starts_with("Qwen"))
        return;
    for (const auto& [key, value] : {std::pair{"gated_linear_unit", "true"},
                                     {"normalization", "RMSNorm"},
                                     {"position_embedding_type", "rope"},
                                     {"add_bias_linear", "false"},
                                     {"share_embeddings_and_output_weights", "false"},
                                     {"hidden_dropout", "0"},
                                     {"attention_dropout", "0"}})
        if (!d.states(std::string("model.") + key))
            d.add(std::string("model.") + key, value, of.at);
    if (name.starts_with("Qwen2") && !d.states("model.add_qkv_bias"))
        d.add("model.add_qkv_bias", "true", of.at);
}

}  // namespace

void drop_bridge_sections(Document& d) {
    drop_sections(d, {"ConfigContainer."});
    drop_sections(d, {"model.", "train.", "ddp.", "dist."});
    for (auto& value : d.values)
        if (value.name == "mixed_precision.grad_reduce_in_fp32") value.name = "grad_reduce_in_fp32";
}

Translation translate_bridge(Document d, const std::string& variant) {
    std::string gpu;
    long ranks = 0;
    const bool table = std::ranges::any_of(
        d.values, [](const NamedValue& v) { return v.name.starts_with("perf_matrix."); });
    if (table) choose_variant(d, variant, gpu, ranks);
    add_class_of_model(d);
    drop_sections(d, {"ConfigContainer."});
    std::vector<NamedValue> overruled;
    if (const auto* own = d.find("ddp.grad_reduce_in_fp32");
        own && !flag_in(*own) && !d.states("mixed_precision.grad_reduce_in_fp32"))
        overruled.push_back(*own);
    drop_bridge_sections(d);
    const auto* each = ranks > 0 ? d.find("num_gpus_per_node") : nullptr;
    Translation t = translate_megatron(d, MegatronDialect::bridge, ranks);
    for (const NamedValue& own : overruled)
        if (const auto* type = t.find("runtime.gradients.type"); type && type->value == "bf16")
            t.open.push_back(fmt::format(
                "{} ({}): false, which a recipe of mixed_precision sets to true as the run begins "
                "(training/mixed_precision.py: setup); where the program leaves it so: --set "
                "runtime.gradients.type=fp32",
                own.name, own.at));
    if (ranks > 0) {
        const long per_node = each ? count_in(*each) : 8;
        t.set("cluster.preset", gpu, d.path);
        t.set("cluster.nodes", std::max(1L, ranks / per_node), d.path);
        t.set("cluster.gpus_per_node", std::min(ranks, per_node), d.path);
    }
    return t;
}

// ---- NeMo: sections, the machine in trainer

namespace {

// LoRA in NeMo's fine-tuning files. Other schemes are refused, because they train other weights.
void take_adapters(Document& d, Translation& t) {
    static const std::set<std::string> none{"", "none", "null"},
        all{"[all]", "[attention_qkv, attention_dense, mlp_fc1, mlp_fc2]", "[attention, mlp]"},
        of_attention{"[attention]", "[attention_qkv, attention_dense]"};
    const auto* scheme = d.find("peft.peft_scheme");
    if (!scheme || none.contains(scheme->value)) return;
    if (scheme->value != "lora") wrong(*scheme, "lora or null: other schemes are not modelled");
    const auto* rank = d.find("peft.lora_tuning.adapter_dim");
    t.set("workload.adapter_rank", rank ? count_in(*rank) : 32,
          rank ? rank->at : "default of NeMo");
    const auto* modules = d.find("peft.lora_tuning.target_modules");
    AdapterTargets targets;
    if (!modules)
        targets.add("query key value");  // [attention_qkv]
    else if (all.contains(modules->value))
        targets = {.all = true, .at = modules->at};
    else if (of_attention.contains(modules->value))
        targets = {.modules = {"query", "key", "value", "output"}, .at = modules->at};
    else
        targets.add_named(*modules, t);
    conclude(std::move(targets), t);
    std::erase_if(t.ignored, [](const std::string& name) {
        return name == "peft.peft_scheme" || name == "peft.lora_tuning.adapter_dim" ||
               name == "peft.lora_tuning.target_modules";
    });
}

}  // namespace

Translation translate_nemo(Document d) {
    resolve_references(d);
    const auto *nodes = d.find("trainer.num_nodes"), *devices = d.find("trainer.devices");
    const long ranks = nodes && devices ? count_in(*nodes) * count_in(*devices) : 0;
    drop_sections(d, {"model.", "trainer."});
    // fine-tuning counts by these (2.0.0, megatron_gpt_sft_model.py: on_train_epoch_start)
    for (const char* name : {"global_batch_size", "micro_batch_size"})
        if (const auto* own = d.find(std::string("data.train_ds.") + name))
            d.add(name, own->value, std::string(own->at));
    Translation t = translate_megatron(d, MegatronDialect::nemo, ranks);
    // megatron_bert_model.py
    if (const auto* bert = d.find("bert_binary_head")) t.set("workload.causal", "false", bert->at);
    if (const auto* n = d.find("num_nodes"), *g = d.find("devices"); g) {
        t.set("cluster.nodes", n ? integer_in(*n) : 1, n ? n->at : g->at);
        t.set("cluster.gpus_per_node", integer_in(*g), g->at);
    }
    take_adapters(d, t);
    // Without one of these, NeMo 1's attention is PyTorch's operators (1.23.0,
    // megatron_gpt_model.py).
    bool fused = false;
    for (const char* name : {"transformer_engine", "mcore_gpt", "use_flash_attention"})
        fused = d.on(name) || fused;
    if (std::ranges::any_of(t.defaulted, [](const std::string& line) {
            return line.starts_with("runtime.attention");
        })) {
        std::erase_if(t.defaulted, [](const std::string& line) {
            return line.starts_with("runtime.attention");
        });
        t.take_default("runtime.attention", fused ? "flash" : "plain");
    }
    return t;
}

}  // namespace stepcast
