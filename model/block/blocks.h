// The blocks of a transformer's layers, and the ends of the model.
#pragma once

#include <span>
#include <vector>

#include "model/block/operators.h"
#include "model/graph/op.h"
#include "model/transformer/layer.h"

namespace stepcast {

// Which kernel runs attention in one.
FlashGeneration flash_generation(AttentionKind kind);

// Norm, projections, attention, output projection, residual; of relative positions the norm comes last.
Block attention_block(const Workload& workload, const RankShape& shape);
// A Mamba-2 block.
Block mamba_block(const Workload& workload, const RankShape& shape);
// What a layer has before its feed-forward: attention; of a hybrid (Nemotron-H, arXiv 2504.03624) a Mamba block, and that
// share of an attention block which falls to each layer where those are few, spread evenly.
struct SharedBlock {
    double share = 1;
    Block block;
};
std::vector<SharedBlock> mixing_blocks(const Workload& workload, const RankShape& shape);
// The same as one block to run: of the share, as many heads.
Block mixing_block(const Workload& workload, const RankShape& shape);

Block feed_forward_block(const Workload& workload, const RankShape& shape);
Block expert_block(const Workload& workload, const RankShape& shape);
// What a MoE system leaves of that: the norm before, the residual after.
Block before_experts(const Workload& workload, const RankShape& shape);
Block after_experts(const Workload& workload);

// By operator, whether an alternate recompute runs it again: every second product in the order of the forward, unless tensor
// parallelism sums its result, and the passes; not attention, nor what goes to experts.
std::vector<bool> alternate_runs(std::span<const Operator> operators, int tp);

// Before the layer of a module that predicts a further token.
Block prediction_block(const Workload& workload, const RankShape& shape);

Block embedding_block();
Block head_block(const Workload& workload, const RankShape& shape);  // final norm, logits, loss; or span scores

}  // namespace stepcast
