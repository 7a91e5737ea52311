#include "translate/emit.h"

#include <fmt/format.h>

#include "model/errors.h"

namespace stepcast {
namespace {

// What none of them can be told.
void check_common(const Experiment& e, Emitter& emitter) {
    const auto& p = e.parallelism;
    emitter.refuse_unless(e.workload.kind == Workload::Kind::transformer,
                          fmt::format("workload.kind {} is no model that it trains", to_string(e.workload.kind)));
    emitter.refuse_unless(p.cut == StageCut::layers, "parallelism.cut modules: stages are cut between layers");
    emitter.refuse_unless(e.workload.moe.experts == 0 || p.moe_system == MoeSystem::alltoall,
                          fmt::format("parallelism.moe_system {}", to_string(p.moe_system)));
    emitter.refuse_unless(p.overlap_chunks == 1, "parallelism.overlap_chunks above 1");
    emitter.note_unless(!p.overlap_experts, "parallelism.overlap_experts = true");
    emitter.refuse_unless(e.workload.mamba.heads == 0, "Mamba blocks: their patterns are not written");
    emitter.note_unless(e.workload.adapter_rank == 0, fmt::format("workload.adapter_rank = {}", e.workload.adapter_rank));
    emitter.note_unless(!p.unfused && !p.eager_script, "element-wise operations each by itself: in the model's code");
}

}  // namespace

Emission emit(const Experiment& experiment, EmitFormat format) {
    Emitter emitter;
    check_common(experiment, emitter);
    std::string text;
    switch (format) {
        case EmitFormat::torchtitan: text = emit_torchtitan(experiment, emitter); break;
        case EmitFormat::deepspeed: text = emit_deepspeed(experiment, emitter); break;
        default: text = emit_megatron(experiment, format, emitter);
    }
    if (!emitter.refused.empty())
        throw ConfigError(fmt::format("--emit {}: it cannot run this split: {}", to_string(format),
                                      fmt::join(emitter.refused, "; ")));
    return {text, emitter.without};
}

std::string emit_deepspeed(const Experiment& e, Emitter& out) {
    const auto& p = e.parallelism;
    const auto dtype = e.workload.dtype;
    out.refuse_unless(p.schedule == Schedule::one_f_one_b || p.pp == 1,
                      fmt::format("parallelism.schedule {}", to_string(p.schedule)));
    out.refuse_unless(dtype == Dtype::bf16 || dtype == Dtype::fp16 || dtype == Dtype::fp32,
                      fmt::format("workload.dtype {}", to_string(dtype)));
    out.refuse_unless(p.zero < 2 || p.pp == 1, "zero 2 and 3 with a pipeline");
    out.refuse_unless(!p.sequence_parallel, "sequence parallel with tensor parallel");
    out.refuse_unless(p.vp == 1, "chunks of stages (vp)");
    out.note_unless(p.pp == 1, fmt::format("pp = {}: stages are given in code, PipelineModule(num_stages={})", p.pp, p.pp));
    out.note_unless(p.ep == 1, fmt::format("ep = {}: experts are spread in code, MoE(ep_size={})", p.ep, p.ep));
    out.note_unless(p.recompute == Recompute::none,
                    fmt::format("recompute = {}: the switch is in the model's code", to_string(p.recompute)));
    out.note_unless(p.zero == 3 || !p.overlap_params, "overlap_params: parameters are gathered after the optimizer");
    out.without.push_back("sizes of the model, seq: in the model's code");
    std::string text = fmt::format(
        "{{\n  \"train_batch_size\": {},\n  \"train_micro_batch_size_per_gpu\": {},\n  \"gradient_accumulation_steps\": {},\n",
        sequences_of_step(p), p.micro_batch, micro_batches(p));
    if (p.tp > 1) text += fmt::format("  \"tensor_parallel\": {{\"autotp_size\": {}}},\n", p.tp);
    if (p.cp > 1) text += fmt::format("  \"sequence_parallel_size\": {},\n", p.cp);
    if (dtype != Dtype::fp32) text += fmt::format("  \"{}\": {{\"enabled\": true}},\n", to_string(dtype));
    text += fmt::format("  \"communication_data_type\": \"{}\",\n", to_string(p.gradient_dtype));
    if (e.workload.optimizer != Optimizer::none)
        text += fmt::format("  \"optimizer\": {{\"type\": \"{}\"}},\n",
                            e.workload.optimizer == Optimizer::lamb  ? "Lamb"
                            : e.workload.optimizer == Optimizer::sgd ? "SGD"
                                                                     : "AdamW");
    text += fmt::format("  \"zero_optimization\": {{\n    \"stage\": {},\n    \"overlap_comm\": {},\n    \"reduce_bucket_size\": {:.0f}{}\n  }}\n}}\n",
                        p.zero, p.overlap ? "true" : "false", p.bucket.si() / 2,
                        p.zero == 3 && p.shard > 0 ? fmt::format(",\n    \"mics_shard_size\": {}", p.shard) : "");
    return text;
}

}  // namespace stepcast
