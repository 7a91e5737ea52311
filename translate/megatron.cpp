#include "translate/megatron_source.h"

#include <numeric>

#include <fmt/format.h>

namespace stepcast {
namespace {

bool of_experts(std::string_view key) { return key.starts_with("workload.moe."); }

struct Direct {
    const char *theirs, *ours;
};
// The same number in both.
constexpr Direct direct[] = {{"num_layers", "workload.layers"},
                             {"hidden_size", "workload.hidden"},
                             {"num_attention_heads", "workload.heads"},
                             {"kv_channels", "workload.head_dim"},
                             {"max_position_embeddings", "workload.max_positions"},
                             {"vocab_size", "workload.vocab"},
                             {"padded_vocab_size", "workload.vocab"},
                             {"q_lora_rank", "workload.mla.q_rank"},
                             {"num_experts", "workload.moe.experts"},
                             {"num_moe_experts", "workload.moe.experts"},
                             {"moe_router_topk", "workload.moe.top_k"},
                             {"moe_ffn_hidden_size", "workload.moe.ffn"},
                             {"moe_router_num_groups", "workload.moe.groups"},
                             {"moe_router_group_topk", "workload.moe.top_groups"},
                             {"moe_shared_expert_intermediate_size", "workload.moe.shared_ffn"},
                             {"tensor_model_parallel_size", "parallelism.tp"},
                             {"pipeline_model_parallel_size", "parallelism.pp"},
                             {"context_parallel_size", "parallelism.cp"},
                             {"expert_model_parallel_size", "parallelism.ep"},
                             {"micro_batch_size", "parallelism.micro_batch"},
                             {"global_batch_size", "parallelism.global_batch"}};

// Replicas, and what of the split cannot run on so many ranks.
void take_world(MegatronSource& s) {
    const long tp = s.t.count("parallelism.tp", 1), pp = s.t.count("parallelism.pp", 1),
               cp = s.t.count("parallelism.cp", 1), ep = s.t.count("parallelism.ep", 1);
    const long split = s.t.ranks_of_split();
    const auto* apart = s.t.find("parallelism.expert_tensor_parallel");
    const long etp = apart && apart->value == "false" ? 1 : tp;
    const long least = std::lcm(split, etp * ep * pp);
    if (s.ranks > 0 && s.ranks % least == 0) {
        s.t.set("parallelism.dp", s.ranks / split, s.t.find("cluster.nodes") ? s.t.find("cluster.nodes")->at : "launch");
    } else if (s.ranks > 0) {
        s.t.problems.push_back(fmt::format("{} ranks cannot run tp {} x pp {} x cp {} x ep {}: expected a multiple of {}; "
                                          "say how many with --gpus",
                                          s.ranks, tp, pp, cp, ep, least));
    } else {
        s.t.open.push_back(fmt::format("how many GPUs: a multiple of {}; say it with --gpus", least));
    }
    if (!s.t.find("parallelism.micro_batch") && s.sized) s.t.problems.push_back("micro_batch_size: missing; it is required");
}

}  // namespace

Translation translate_megatron(Document& document, MegatronDialect dialect, long ranks, bool full) {
    MegatronSource s{document, dialect, ranks};
    s.full = full;
    s.t.path = document.path;
    s.t.format = s.lm() ? "Megatron-LM" : dialect == MegatronDialect::nemo ? "NeMo" : "Megatron-Bridge";
    s.t.framework = s.lm() ? "megatron-lm" : dialect == MegatronDialect::nemo ? "nemo" : "megatron-bridge";
    const auto* deepspeed = s.d.find_any({"deepspeed", "zero_stage"});
    if (s.lm() && deepspeed && (deepspeed->name == "zero_stage" || flag_in(*deepspeed))) s.t.framework = "megatron-deepspeed";
    const bool with_experts = s.d.states("num_experts") || s.d.states("num_moe_experts") || !s.full;
    for (const auto& [theirs, ours] : direct)
        if (const auto* v = s.d.find(theirs); with_experts || !of_experts(ours)) s.t.take(ours, v, integer_text);
    take_model(s);
    take_experts(s);
    take_split(s);
    take_pipeline(s);
    take_data_parallel(s);
    take_precision(s);
    take_recompute(s);
    take_world(s);
    leave_rest(s.d, s.t);
    return std::move(s.t);
}

}  // namespace stepcast
