// Megatron-LM's arguments while they are translated; NeMo and Megatron-Bridge share them.
#pragma once

#include "import/launch/document.h"
#include "import/launch/translate.h"
#include "sim/as_run.h"

namespace stepcast {

// Megatron-LM's arguments, which NeMo and Megatron-Bridge share: the names are the same, but the
// notations and defaults differ.
enum class MegatronDialect : std::uint8_t { lm, nemo, bridge };

// Keys with the same number in all dialects: our name, Megatron-LM's, and that of NeMo and
// Megatron-Bridge if different.
struct MegatronNumber {
    std::string_view ours, of_lm, of_others = "";
};
inline constexpr MegatronNumber megatron_numbers[] = {
    {"workload.layers", "num_layers"},
    {"workload.hidden", "hidden_size"},
    {"workload.heads", "num_attention_heads"},
    {"workload.head_dim", "kv_channels"},
    {"workload.max_positions", "max_position_embeddings"},
    {"workload.vocab", "vocab_size"},
    {"workload.mla.q_rank", "q_lora_rank"},
    {"workload.moe.experts", "num_experts", "num_moe_experts"},
    {"workload.moe.top_k", "moe_router_topk"},
    {"workload.moe.ffn", "moe_ffn_hidden_size"},
    {"workload.moe.groups", "moe_router_num_groups"},
    {"workload.moe.top_groups", "moe_router_group_topk"},
    {"workload.moe.shared_ffn", "moe_shared_expert_intermediate_size"},
    {"parallelism.tp", "tensor_model_parallel_size"},
    {"parallelism.pp", "pipeline_model_parallel_size"},
    {"parallelism.cp", "context_parallel_size"},
    {"parallelism.ep", "expert_model_parallel_size"},
    {"parallelism.micro_batch", "micro_batch_size"},
    {"parallelism.global_batch", "global_batch_size"}};

// State of the translation of Megatron's arguments, and its parts. Defaults and names come from
// megatron/training/arguments.py and megatron/core/transformer/transformer_config.py of Megatron-LM
// d98e8a64, the launcher's YAML of NeMo 1 (26e42fa9), and the configuration classes of
// Megatron-Bridge (067f987d).
struct MegatronSource {
    Document& d;
    MegatronDialect dialect;
    long ranks = 0;  // of the launch; 0 = unknown
    Translation t = {};
    bool sized = true;       // the file describes the model, so defaults of its sizes apply
    bool full = false;       // the dump of a run: every argument is stated, defaults included
    bool deepspeed = false;  // Megatron-DeepSpeed's script

    [[nodiscard]] bool lm() const { return dialect == MegatronDialect::lm; }
    // Takes the file's value. The default applies only if the file describes the model.
    void take(const std::string& ours, const NamedValue* value, const KeyText& read,
              const std::string& otherwise = "") {
        t.take(ours, value, read, sized ? otherwise : "");
    }
};

}  // namespace stepcast
