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

}  // namespace stepcast
