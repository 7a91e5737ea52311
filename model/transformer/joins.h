// What stages do together after the last backward: copies of weights on two stages sum their gradients, the norm is taken
// over all.
#pragma once

#include "model/transformer/stages.h"

namespace stepcast {

// dualpipe: the two copies of a layer live on mirrored stages.
void join_copies(TaskGraph& graph, const LayerContext& context, const Stages& stages);

// Tied embeddings live on the first and the last stage; without join_tied each copy goes its own way.
void join_embeddings(TaskGraph& graph, const LayerContext& context, const Stages& stages, const Path& path);

// Gradient norm, over all stages unless clip_per_rank; optimizer.
void update_weights(TaskGraph& graph, const LayerContext& context, const Stages& stages);

}  // namespace stepcast
