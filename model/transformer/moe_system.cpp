#include "model/transformer/moe_system.h"

#include "model/moe/layer.h"
#include "model/transformer/counts.h"

namespace stepcast {
namespace {

MoeLayer layer_of(const LayerContext& c) {
    const Experiment& e = c.experiment;
    return {.ranks = e.parallelism.ep,
            .experts = e.workload.moe.experts,
            .tokens = e.parallelism.micro_batch * e.workload.seq,
            .top_k = e.workload.moe.top_k,
            .hidden = e.workload.hidden,
            .ffn = expert_ffn(e.workload),
            .dtype = e.workload.dtype,
            .overlap_chunks = 1,
            .weight_dtype = e.workload.autocast ? Dtype::fp32 : e.workload.dtype,
            .behind_attention = true};
}

// Under automatic casting the weights of a rank's experts are cast once a step, and their gradients back.
void add_weight_casts(Program& program, const LayerContext& c, Phase phase) {
    const Workload& w = c.experiment.workload;
    if (!w.autocast) return;
    const double weights = expert_parameters(w) * (static_cast<double>(w.moe.experts) / c.experiment.parallelism.ep);
    const Bytes narrow = weights * size_of(w.dtype), wide = weights * size_of(Dtype::fp32);
    program.on_each("cast", phase, phase == Phase::forward ? MemoryPass{wide, narrow} : MemoryPass{narrow, wide});
}

}  // namespace

void add_system_experts(TaskGraph& graph, Stage& stage, const LayerContext& c, int index, Phase phase) {
    std::vector<std::optional<TaskId>> before;
    for (const TaskId t : stage.last()) before.push_back(t == no_task ? std::nullopt : std::optional(t));
    Program program(graph, std::move(before));
    add_weight_casts(program, c, phase);
    const Routing routing = routing_of_layer(c.routing, static_cast<std::size_t>(index));
    const MoeSystemTraits& system = traits(c.experiment.parallelism.moe_system);
    if (phase == Phase::forward)
        system.forward(program, layer_of(c), routing);
    else
        system.backward(program, layer_of(c), routing);
    TasksByRank last;
    for (const auto& t : program.last()) last.push_back(t.value_or(no_task));
    stage.resume(std::move(last));
}

}  // namespace stepcast
