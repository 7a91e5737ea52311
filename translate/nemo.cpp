// NeMo's YAML: Megatron's names in sections, the machine in trainer.
#include <fmt/format.h>

#include "translate/readers.h"

namespace stepcast {
namespace {

void set_machine(Translation& t, Document& d, std::initializer_list<std::string_view> nodes,
                 std::initializer_list<std::string_view> devices) {
    const auto *n = d.find_any(nodes), *g = d.find_any(devices);
    if (!g) return;
    t.set("cluster.nodes", n ? integer_in(*n) : 1, n ? n->at : g->at);
    t.set("cluster.gpus_per_node", integer_in(*g), g->at);
}

// LoRA of NeMo's fine-tuning files. Other schemes train other weights.
void take_adapters(Document& d, Translation& t) {
    const auto* scheme = d.find("peft.peft_scheme");
    if (!scheme || scheme->value.empty() || scheme->value == "none" || scheme->value == "null") return;
    if (scheme->value != "lora") wrong(*scheme, "lora or null: other schemes are not modelled");
    const auto* rank = d.find("peft.lora_tuning.adapter_dim");
    t.set("workload.adapter_rank", rank ? count_in(*rank) : 32, rank ? rank->at : "default of NeMo");
    const auto modules = d.text("peft.lora_tuning.target_modules", "[attention_qkv]");
    if (modules != "[attention]" && modules != "[attention_qkv, attention_dense]")
        t.problems.push_back(fmt::format("adapters of {}: the forecast has them at the projections of queries, keys and values and of "
                                         "attention's results", modules));
    std::erase_if(t.ignored, [](const std::string& name) {
        return name == "peft.peft_scheme" || name == "peft.lora_tuning.adapter_dim" || name == "peft.lora_tuning.target_modules";
    });
}

}  // namespace

Translation translate_nemo(Document d) {
    interpolate(d);
    const auto *nodes = d.find("trainer.num_nodes"), *devices = d.find("trainer.devices");
    const long ranks = nodes && devices ? count_in(*nodes) * count_in(*devices) : 0;
    drop_sections(d, {"model.", "trainer."});
    Translation t = translate_megatron(d, MegatronDialect::nemo, ranks);
    set_machine(t, d, {"num_nodes"}, {"devices"});
    take_adapters(d, t);
    return t;
}

}  // namespace stepcast
