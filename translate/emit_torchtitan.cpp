#include <fmt/format.h>

#include "translate/emit.h"
#include "translate/readers.h"

namespace stepcast {
namespace {

// Empty: it has no such schedule.
std::string_view schedule_name(const Parallelism& p) {
    if (p.schedule == Schedule::one_f_one_b && p.vp > 1) return "Interleaved1F1B";
    for (const auto& [name, schedule] : titan_schedules)
        if (schedule == p.schedule) return name;
    return "";
}

void check(const Experiment& e, Emitter& out) {
    const auto& p = e.parallelism;
    out.refuse_unless(p.zero != 1, "zero 1: it has replicas, or shards of parameters too");
    out.refuse_unless(p.zero > 0 || p.cp == 1, "zero 0 with context parallelism: its ranks share the shards");
    out.refuse_unless(!schedule_name(p).empty() || p.pp == 1,
                      fmt::format("parallelism.schedule {}", to_string(p.schedule)));
    out.refuse_unless(p.sequence_parallel == (p.tp > 1), "tensor parallel without sequence parallel");
    out.refuse_unless(e.workload.moe.capacity_factor == 0, "capacity factors of experts");
    out.refuse_unless(p.stage_layers.empty(), "layers of each stage");
    out.refuse_unless(p.cp == 1 || p.context_exchange == ContextExchange::all_gather, "keys round a ring");
    out.refuse_unless(p.gradient_dtype == Dtype::fp32 || p.gradient_dtype == Dtype::bf16, "gradients in this dtype");
    out.refuse_unless(e.workload.dtype == Dtype::bf16 || e.workload.dtype == Dtype::fp32 || e.workload.dtype == Dtype::fp8,
                      fmt::format("workload.dtype {}", to_string(e.workload.dtype)));
    out.note_unless(p.overlap, "parallelism.overlap = false: it always overlaps");
    out.note_unless(p.rank_order == "tp-cp-dp-pp", "parallelism.rank_order " + p.rank_order);
    out.without.push_back("sizes of the model: model.name and model.flavor choose them; seq " + std::to_string(e.workload.seq));
    const int each = (e.workload.layers + 2 + p.pp * p.vp - 1) / (p.pp * p.vp);
    out.refuse_unless(p.vp == 1 || (e.workload.layers + 2 + each - 1) / each == p.pp * p.vp,
                      fmt::format("{} chunks of {} layers", p.pp * p.vp, e.workload.layers));
}

// torchtitan has the first stage chunk and the last one hold a layer less.
std::string pipeline_text(const Experiment& e) {
    const auto& p = e.parallelism;
    if (p.pp == 1) return "";
    std::string text = fmt::format("pipeline_parallel_schedule = \"{}\"\npipeline_parallel_microbatch_size = {}\n", schedule_name(p),
                                   p.micro_batch);
    if (p.vp > 1)
        text += fmt::format("pipeline_parallel_layers_per_stage = {}\n", (e.workload.layers + 2 + p.pp * p.vp - 1) / (p.pp * p.vp));
    return text;
}

std::string recompute_text(const Experiment& e, Emitter& out) {
    const auto& p = e.parallelism;
    // Its attention keeps no scores that selective recompute could leave out.
    if (p.recompute == Recompute::none || p.recompute == Recompute::selective) return "mode = \"none\"\n";
    if (p.recompute == Recompute::alternate) return "mode = \"selective\"\nselective_ac_option = \"op\"\n";
    const int stage = e.workload.layers / p.pp;
    if (p.recompute_layers == 0 || p.recompute_layers >= stage) return "mode = \"full\"\n";
    out.refuse_unless(stage % p.recompute_layers == 0, fmt::format("{} of {} layers computed again: it takes every N-th", p.recompute_layers, stage));
    return fmt::format("mode = \"selective\"\nselective_ac_option = \"{}\"\n", stage / p.recompute_layers);
}

}  // namespace

std::string emit_torchtitan(const Experiment& e, Emitter& out) {
    check(e, out);
    const auto& p = e.parallelism;
    const int shard = p.zero == 0 ? 1 : p.shard > 0 ? p.shard / p.cp : p.dp;
    std::string text = fmt::format("[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\nseq_len = {}\n",
                                   p.pp > 1 ? p.micro_batch * micro_batches(p) : p.micro_batch, sequences_of_step(p), e.workload.seq);
    text += fmt::format("mixed_precision_param = \"{}\"\nmixed_precision_reduce = \"{}\"\n",
                        e.workload.dtype == Dtype::fp32 ? "float32" : "bfloat16",
                        p.gradient_dtype == Dtype::bf16 ? "bfloat16" : "float32");
    if (e.workload.dtype == Dtype::fp8) text = "[model]\nconverters = [\"float8\"]\n\n" + std::string(e.workload.row_scales ? "[float8]\nrecipe_name = \"rowwise\"\n\n" : "") + text;
    text += fmt::format(
        "\n[parallelism]\ndata_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n"
        "tensor_parallel_degree = {}\npipeline_parallel_degree = {}\ncontext_parallel_degree = {}\nexpert_parallel_degree = {}\n",
        p.dp / shard, shard, p.tp, p.pp, p.cp, p.ep);
    if (p.zero >= 2) text += fmt::format("fsdp_reshard_after_forward = \"{}\"\n", p.zero == 3 ? "always" : "never");
    if (p.tp > 1 && e.workload.moe.experts > 0)
        text += fmt::format("expert_tensor_parallel_degree = {}\n", p.expert_tensor_parallel ? p.tp : 1);
    if (p.dispatch_once) text += "expert_parallel_comm_backend = \"deepep\"\n";
    if (p.overlap_tp) text += "enable_async_tensor_parallel = true\n";
    text += pipeline_text(e);
    text += "\n[activation_checkpoint]\n" + recompute_text(e, out);
    text += fmt::format("\n[compile]\nenable = {}\ncomponents = [\"model\", \"loss\"]\n", p.eager ? "false" : "true");
    return text;
}

}  // namespace stepcast
