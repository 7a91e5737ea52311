#include "import/launch/emit.h"

#include <fmt/format.h>

#include "import/launch/lost_keys.h"
#include "import/launch/readers.h"
#include "model/base/errors.h"
#include "model/runtime_rules.h"

namespace stepcast {
namespace {

// Refuses what no framework can express.
void check_common(const Experiment& e, Emission& emitter) {
    const auto& p = e.parallelism;
    emitter.refuse_unless(
        e.workload.kind == Workload::Kind::transformer,
        fmt::format("workload.kind {} is no model that it trains", to_string(e.workload.kind)));
    emitter.refuse_unless(p.cut == StageCut::layers,
                          "parallelism.cut modules: stages are cut between layers");
    emitter.refuse_unless(e.workload.moe.experts == 0 || p.moe_system == MoeSystem::alltoall,
                          fmt::format("parallelism.moe_system {}", to_string(p.moe_system)));
    emitter.refuse_unless(p.overlap_chunks == 1, "parallelism.overlap_chunks above 1");
    emitter.refuse_unless(e.workload.mamba.heads == 0,
                          "workload.mamba.heads: patterns of Mamba blocks are not written");
    emitter.refuse_unless(e.workload.delta.value_heads == 0,
                          "workload.delta.value_heads: gated delta nets are not written");
    emitter.refuse_unless(e.workload.indexer.heads == 0,
                          "workload.indexer.heads: sparse attention is not written");
}

std::string emit_deepspeed(const Experiment& e, Emission& out) {
    const auto& p = e.parallelism;
    const auto dtype = e.workload.dtype;
    out.refuse_unless(p.schedule == Schedule::one_f_one_b || p.pp == 1,
                      fmt::format("parallelism.schedule {}", to_string(p.schedule)));
    out.refuse_unless(dtype == Dtype::bf16 || dtype == Dtype::fp16 || dtype == Dtype::fp32,
                      fmt::format("workload.dtype {}", to_string(dtype)));
    out.refuse_unless(p.zero < 2 || p.pp == 1, "zero 2 and 3 with a pipeline (pp)");
    out.refuse_unless(e.runtime.optimizer.master_weights,
                      "runtime.optimizer.master_weights = false");
    out.refuse_unless(gradient_type(e) == Dtype::fp32 || gradient_type(e) == Dtype::fp16 ||
                          gradient_type(e) == Dtype::bf16,
                      fmt::format("runtime.gradients.type {}", to_string(gradient_type(e))));
    out.refuse_unless(!p.sequence_parallel || p.tp == 1,
                      "sequence_parallel with tensor parallelism (tp)");
    out.refuse_unless(p.vp == 1, "chunks of stages (vp)");
    std::string text = fmt::format(
        "{{\n  \"train_batch_size\": {},\n  \"train_micro_batch_size_per_gpu\": {},\n  "
        "\"gradient_accumulation_steps\": {},\n",
        sequences_of_step(p), p.micro_batch, micro_batches(p));
    if (p.tp > 1) text += fmt::format("  \"tensor_parallel\": {{\"autotp_size\": {}}},\n", p.tp);
    if (p.cp > 1) text += fmt::format("  \"sequence_parallel_size\": {},\n", p.cp);
    if (dtype != Dtype::fp32)
        text += fmt::format("  \"{}\": {{\"enabled\": true}},\n", to_string(dtype));
    text += fmt::format("  \"communication_data_type\": \"{}\",\n", to_string(gradient_type(e)));
    out.refuse_unless(
        e.workload.optimizer != Optimizer::adam8bit && e.workload.optimizer != Optimizer::adafactor,
        "workload.optimizer adam8bit and adafactor: made in the script");
    if (e.workload.optimizer != Optimizer::none)
        text += fmt::format("  \"optimizer\": {{\"type\": \"{}\"}},\n",
                            e.workload.optimizer == Optimizer::lamb  ? "Lamb"
                            : e.workload.optimizer == Optimizer::sgd ? "SGD"
                                                                     : "AdamW");
    text += fmt::format(
        "  \"zero_optimization\": {{\n    \"stage\": {},\n    \"overlap_comm\": {},\n    "
        "\"reduce_bucket_size\": {:.0f}{}\n  }}\n}}\n",
        p.zero, overlaps_gradients(e) ? "true" : "false", bucket_bytes(e).si() / 2,
        p.zero == 3 && p.shard > 0 ? fmt::format(",\n    \"mics_shard_size\": {}", p.shard) : "");
    return text;
}

// ---- torchtitan

// Empty if torchtitan has no such schedule.
std::string_view schedule_name(const Parallelism& p) {
    if (p.schedule == Schedule::one_f_one_b && p.vp > 1) return "Interleaved1F1B";
    for (const auto& [name, schedule] : titan_schedules)
        if (schedule == p.schedule) return name;
    return "";
}

void check_torchtitan(const Experiment& e, Emission& out) {
    const auto& p = e.parallelism;
    out.refuse_unless(p.zero != 1, "zero 1: it has replicas, or shards of parameters too");
    out.refuse_unless(p.zero > 0 || p.cp == 1,
                      "zero 0 with context parallelism (cp): its ranks share the shards");
    out.refuse_unless(!schedule_name(p).empty() || p.pp == 1,
                      fmt::format("parallelism.schedule {}", to_string(p.schedule)));
    out.refuse_unless(p.sequence_parallel || p.tp == 1,
                      "tensor parallelism (tp) without sequence_parallel");
    out.refuse_unless(e.workload.moe.capacity_factor == 0,
                      "workload.moe.capacity_factor: its experts drop no tokens");
    out.refuse_unless(
        p.stage_layers.empty(),
        "parallelism.stage_layers: it takes layers off the first and last stage only");
    out.refuse_unless(p.pp * p.vp == 1 || p.layout == StageLayout::even ||
                          (p.vp == 1 && p.layout != StageLayout::balanced),
                      fmt::format("parallelism.layout {} with vp = {}", to_string(p.layout), p.vp));
    out.refuse_unless(p.cp == 1 || e.runtime.context_exchange == ContextExchange::all_gather,
                      "runtime.context_exchange ring (cp)");
    out.refuse_unless(gradient_type(e) == Dtype::fp32 || gradient_type(e) == Dtype::bf16,
                      fmt::format("runtime.gradients.type {}", to_string(gradient_type(e))));
    out.refuse_unless(e.workload.dtype == Dtype::bf16 || e.workload.dtype == Dtype::fp32 ||
                          e.workload.dtype == Dtype::fp8,
                      fmt::format("workload.dtype {}", to_string(e.workload.dtype)));
    out.refuse_unless(
        p.vp == 1 || e.workload.layers % (p.pp * p.vp) == 0,
        fmt::format("{} chunks (pp x vp) of {} layers", p.pp * p.vp, e.workload.layers));
    // torchtitan/components/optimizer.py of v0.2.2 knows Adam and AdamW.
    const auto optimizer = e.workload.optimizer;
    out.refuse_unless(optimizer == Optimizer::adam || optimizer == Optimizer::none,
                      fmt::format("workload.optimizer {}", to_string(optimizer)));
}

// torchtitan's first and last stage chunk have one layer less than others unless that is switched
// off.
std::string pipeline_text(const Experiment& e) {
    const auto& p = e.parallelism;
    if (p.pp == 1) return "";
    std::string text =
        fmt::format("pipeline_parallel_schedule = \"{}\"\npipeline_parallel_microbatch_size = {}\n",
                    schedule_name(p), p.micro_batch);
    const auto less = [&](StageLayout one_end) {
        return p.layout == one_end || p.layout == StageLayout::light_ends ? 1 : 0;
    };
    text += fmt::format(
        "pipeline_parallel_first_stage_less_layers = {}\n"
        "pipeline_parallel_last_stage_less_layers = {}\n",
        less(StageLayout::light_first), less(StageLayout::light_last));
    if (p.vp > 1)
        text += fmt::format("pipeline_parallel_layers_per_stage = {}\n",
                            e.workload.layers / (p.pp * p.vp));
    return text;
}

std::string recompute_text(const Experiment& e, Emission& out) {
    const auto& p = e.parallelism;
    // torchtitan's attention keeps no scores, so selective recompute has nothing to leave out.
    if (p.recompute == Recompute::none || p.recompute == Recompute::selective)
        return "mode = \"none\"\n";
    if (p.recompute == Recompute::alternate)
        return "mode = \"selective\"\nselective_ac_option = \"op\"\n";
    const int stage = e.workload.layers / p.pp;
    if (p.recompute_layers == 0 || p.recompute_layers >= stage) return "mode = \"full\"\n";
    out.refuse_unless(stage % p.recompute_layers == 0,
                      fmt::format("{} of {} layers computed again: it takes every N-th",
                                  p.recompute_layers, stage));
    return fmt::format("mode = \"selective\"\nselective_ac_option = \"{}\"\n",
                       stage / p.recompute_layers);
}

// Layers and the loss are compiled each by itself.
std::string compile_text(const Experiment& e) {
    const bool model = !is_eager(e), loss = e.runtime.loss.fused;
    const std::string parts = model && !loss   ? "\"model\""
                              : loss && !model ? "\"loss\""
                                               : "\"model\", \"loss\"";
    return fmt::format("\n[compile]\nenable = {}\ncomponents = [{}]\n", truth(model || loss),
                       parts);
}

std::string emit_torchtitan(const Experiment& e, Emission& out) {
    check_torchtitan(e, out);
    const auto& p = e.parallelism;
    const int shard = p.zero == 0 ? 1 : p.shard > 0 ? p.shard / p.cp : p.dp;
    std::string text =
        fmt::format("[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\nseq_len = {}\n",
                    p.pp > 1 ? p.micro_batch * micro_batches(p) : p.micro_batch,
                    sequences_of_step(p), e.workload.seq);
    text += fmt::format("mixed_precision_param = \"{}\"\nmixed_precision_reduce = \"{}\"\n",
                        e.workload.dtype == Dtype::fp32 ? "float32" : "bfloat16",
                        gradient_type(e) == Dtype::bf16 ? "bfloat16" : "float32");
    if (!e.runtime.optimizer.master_weights) text += "dtype = \"bfloat16\"\n";
    if (e.workload.dtype == Dtype::fp8)
        text = "[model]\nconverters = [\"float8\"]\n\n" +
               std::string(e.runtime.row_scales ? "[float8]\nrecipe_name = \"rowwise\"\n\n" : "") +
               text;
    text += fmt::format(
        "\n[parallelism]\ndata_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n"
        "tensor_parallel_degree = {}\npipeline_parallel_degree = {}\ncontext_parallel_degree = "
        "{}\nexpert_parallel_degree = {}\n",
        p.dp / shard, shard, p.tp, p.pp, p.cp, p.ep);
    if (p.zero >= 2)
        text +=
            fmt::format("fsdp_reshard_after_forward = \"{}\"\n", p.zero == 3 ? "always" : "never");
    if (p.tp > 1 && e.workload.moe.experts > 0)
        text += fmt::format("expert_tensor_parallel_degree = {}\n", splits_experts(e) ? p.tp : 1);
    if (sends_once(e)) text += "expert_parallel_comm_backend = \"deepep\"\n";
    if (overlaps_tensor(e)) text += "enable_async_tensor_parallel = true\n";
    text += pipeline_text(e);
    text += "\n[activation_checkpoint]\n" + recompute_text(e, out);
    text += compile_text(e);
    if (e.workload.optimizer == Optimizer::adam) text += "\n[optimizer]\nname = \"AdamW\"\n";
    return text;
}

}  // namespace

Emission emit(const Experiment& experiment, EmitFormat format) {
    Emission emission;
    check_common(experiment, emission);
    std::string& text = emission.text;
    switch (format) {
        case EmitFormat::torchtitan: text = emit_torchtitan(experiment, emission); break;
        case EmitFormat::deepspeed: text = emit_deepspeed(experiment, emission); break;
        default: text = emit_megatron(experiment, format, emission);
    }
    if (!emission.refused.empty())
        throw ConfigError(fmt::format("--emit {}: it cannot run this split: {}", to_string(format),
                                      fmt::join(emission.refused, "; ")));
    name_lost_keys(experiment, format, emission);
    return emission;
}

}  // namespace stepcast
