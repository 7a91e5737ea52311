#include "translate/megatron_source.h"

#include <numeric>

#include <fmt/format.h>

namespace stepcast {
namespace {

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
    for (const auto& [ours, of_lm, of_others] : megatron_numbers)
        for (const auto theirs : {of_lm, of_others})
            if (const auto* v = s.d.find(theirs); with_experts || !ours.starts_with("workload.moe.")) s.t.take(std::string(ours), v, integer_text);
    s.t.take("workload.vocab", s.d.find("padded_vocab_size"), integer_text);
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
