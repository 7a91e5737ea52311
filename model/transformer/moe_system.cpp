// The junction of a transformer's step and the MoE systems of model/moe: plans end where a system's layer begins, the
// system writes its tasks on all ranks, and the plans go on behind them. All ranks are there: one stage, expert
// parallel over the data-parallel ranks, nothing folded.
#include "model/moe/layer.h"
#include "model/transformer/counts.h"
#include "model/transformer/stages.h"

namespace stepcast {
namespace {

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
    Program program(graph, stage.last());
    add_weight_casts(program, c, phase);
    const Routing routing = routing_of_layer(c.routing, static_cast<std::size_t>(index));
    traits(c.experiment.parallelism.moe_system).add(program, moe_layer_of(c.experiment), routing, phase);
    stage.resume(program.last());
}

}  // namespace stepcast
