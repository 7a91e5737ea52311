#include "import/launch/emit.h"

#include <fmt/format.h>

#include "import/launch/emit_megatron.h"
#include "import/launch/emit_torchtitan.h"
#include "import/launch/lost_keys.h"
#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/base/refuse.h"
#include "model/runtime_rules.h"

namespace stepcast {
namespace {

// Refuses what no framework can express.
void check_common(const Experiment& e, EmitFormat format, Emission& emitter) {
    const auto& p = e.parallelism;
    emitter.refuse_unless(
        e.workload.kind == Workload::Kind::transformer,
        fmt::format("workload.kind {} is no model that it trains", to_string(e.workload.kind)));
    emitter.refuse_unless(p.cut == StageCut::layers,
                          "parallelism.cut modules: stages are cut between layers");
    emitter.refuse_unless(e.workload.moe.experts == 0 || p.moe_system == MoeSystem::alltoall,
                          fmt::format("parallelism.moe_system {}", to_string(p.moe_system)));
    emitter.refuse_unless(p.overlap_chunks == 1, "parallelism.overlap_chunks above 1");
    emitter.refuse_unless(!e.run.paged_optimizer, "run.paged_optimizer");
    emitter.refuse_unless(e.workload.mamba.heads == 0,
                          "workload.mamba.heads: patterns of Mamba blocks are not written");
    emitter.refuse_unless(e.workload.delta.value_heads == 0,
                          "workload.delta.value_heads: gated delta nets are not written");
    emitter.refuse_unless(e.workload.indexer.heads == 0,
                          "workload.indexer.heads: sparse attention is not written");
    // DeepSpeed's file leaves the model to code
    emitter.refuse_unless(e.workload.adapter_rank == 0 ||
                              e.workload.frozen == FrozenWeights::stored ||
                              format == EmitFormat::deepspeed,
                          fmt::format("workload.frozen {}: it keeps frozen weights in 16 bits",
                                      to_string(e.workload.frozen)));
}

void check_deepspeed(const Experiment& e, Emission& out) {
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
    // runtime/config.py:121 of 0.19.8: MiCS has been removed
    out.refuse_unless(p.zero < 3 || !shards_over_some(p),
                      "parallelism.shard: shards of part of the replicas (MiCS) are gone");
    out.refuse_unless(!splits_sequence(p), "sequence_parallel with tensor parallelism (tp)");
    out.refuse_unless(p.vp == 1, "chunks of stages (vp)");
    out.refuse_unless(
        e.workload.optimizer != Optimizer::adam8bit && e.workload.optimizer != Optimizer::adafactor,
        "workload.optimizer adam8bit and adafactor: made in the script");
    out.refuse_unless(!e.run.offload_optimizer || p.zero > 0,
                      "run.offload_optimizer without zero 1, 2 or 3");
}

std::string emit_deepspeed(const Experiment& e) {
    const auto& p = e.parallelism;
    const auto dtype = e.workload.dtype;
    std::string text = fmt::format(
        "{{\n  \"train_batch_size\": {},\n  \"train_micro_batch_size_per_gpu\": {},\n  "
        "\"gradient_accumulation_steps\": {},\n",
        sequences_of_step(p), p.micro_batch, micro_batches(p));
    if (p.tp > 1) text += fmt::format("  \"tensor_parallel\": {{\"autotp_size\": {}}},\n", p.tp);
    if (p.cp > 1) text += fmt::format("  \"sequence_parallel_size\": {},\n", p.cp);
    if (dtype != Dtype::fp32)
        text += fmt::format("  \"{}\": {{\"enabled\": true}},\n", to_string(dtype));
    text += fmt::format("  \"communication_data_type\": \"{}\",\n", to_string(gradient_type(e)));
    if (e.workload.optimizer != Optimizer::none)
        text += fmt::format("  \"optimizer\": {{\"type\": \"{}\"}},\n",
                            e.workload.optimizer == Optimizer::lamb   ? "Lamb"
                            : e.workload.optimizer == Optimizer::sgd  ? "SGD"
                            : e.workload.optimizer == Optimizer::muon ? "Muon"
                                                                      : "AdamW");
    const auto offloaded = [](bool is, const char* what) {
        return is ? fmt::format("    \"{}\": {{\"device\": \"cpu\", \"pin_memory\": true}},\n",
                                what)
                  : std::string();
    };
    text += fmt::format(
        "  \"zero_optimization\": {{\n    \"stage\": {},\n    \"overlap_comm\": {},\n{}{}    "
        "\"reduce_bucket_size\": {:.0f}\n  }}\n}}\n",
        p.zero, overlaps_gradients(e) ? "true" : "false",
        offloaded(e.run.offload_optimizer, "offload_optimizer"),
        offloaded(e.run.offload_parameters, "offload_param"),
        bucket_bytes(e) / size_of(gradient_type(e)));
    return text;
}

}  // namespace

void keep_unwritten(Experiment& e, EmitFormat format) {
    if (format == EmitFormat::torchtitan_flags)  // no context_parallel_rotate_method from 0.3 on
        std::erase_if(e.framework.can.switches, [](const std::string& line) {
            return line.starts_with("runtime.context_exchange=");
        });
}

Emission script_of(const Experiment& experiment, EmitFormat format) {
    Emission emission;
    check_common(experiment, format, emission);
    std::string& text = emission.text;
    switch (format) {
        case EmitFormat::torchtitan:
        case EmitFormat::torchtitan_flags:
            text = emit_torchtitan(experiment, format, emission);
            break;
        case EmitFormat::deepspeed:
            check_deepspeed(experiment, emission);
            text = emit_deepspeed(experiment);
            break;
        default: text = emit_megatron(experiment, format, emission);
    }
    if (!emission.refused.empty())
        refuse("--emit {}: {}{}", to_string(format), cannot_run, joined(emission.refused, "; "));
    return emission;
}

Emission emit(const Experiment& experiment, EmitFormat format) {
    Emission emission = script_of(experiment, format);
    name_lost_keys(experiment, format, emission);
    return emission;
}

}  // namespace stepcast
