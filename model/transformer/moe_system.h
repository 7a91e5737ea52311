// The junction of a transformer's step and the MoE systems of model/moe: plans end where a system's layer begins, the
// system writes its tasks on all ranks, and the plans go on behind them. All ranks are there: one stage, expert
// parallel over the data-parallel ranks, nothing folded.
#pragma once

#include "model/transformer/layer.h"
#include "model/transformer/stage.h"

namespace stepcast {

// Experts of the index-th layer that has any, forward or backward, behind what the stage wrote last.
void add_system_experts(TaskGraph& graph, Stage& stage, const LayerContext& context, int index, Phase phase);

}  // namespace stepcast
