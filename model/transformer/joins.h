// What stages do together: copies and embeddings are summed, the norm, the update.
#pragma once

#include "model/transformer/stages.h"

namespace stepcast {

// Adds the experts of the index-th layer with experts as a MoE system writes them, forward or
// backward, after the stage's last tasks.
void add_system_experts(TaskGraph& graph, Stage& stage, const LayerContext& context, int index,
                        Phase phase);

// dualpipe: sums the gradients of the two copies of each layer, which are on mirrored stages.
void join_copies(TaskGraph& graph, const LayerContext& context, const Stages& stages);

// Sums the gradients of tied embeddings, which are on the first and last stage; without join_tied
// the copies diverge.
void join_embeddings(TaskGraph& graph, const LayerContext& context, const Stages& stages,
                     const Path& path);

// The gradient norm (over all stages unless clip_per_rank), then the optimizer.
void update_weights(TaskGraph& graph, const LayerContext& context, const Stages& stages);

}  // namespace stepcast
