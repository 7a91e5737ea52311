// The blocks of a transformer's layers, and the embedding and head of the model.
#pragma once

#include <span>
#include <vector>

#include "model/block/operators.h"
#include "model/graph/op.h"
#include "model/transformer/layer.h"

namespace stepcast {

// The FlashAttention generation of this kernel.
FlashGeneration flash_generation(AttentionKind kind);

// In order: norm, projections, attention, output projection, residual. With relative positions the
// norm comes last.
Block attention_block(const Workload& workload, const RankShape& shape);
Block mamba_block(const Workload& workload, const RankShape& shape);
Block delta_block(const Workload& workload, const RankShape& shape);
// What a layer has before its feed-forward: an attention block, a gated delta net, or in a hybrid
// (Nemotron-H, arXiv 2504.03624) a Mamba block and the share of an attention block per layer,
// because the few attention blocks are spread evenly.
struct SharedBlock {
    double share = 1;
    Block block;
};
std::vector<SharedBlock> mixing_blocks(const Workload& workload, const RankShape& shape,
                                       bool attends = true);
// The same as one block to execute: instead of the share, it has that share of the heads.
Block mixing_block(const Workload& workload, const RankShape& shape, bool attends = true);

// Bytes of a frozen weight of a block's linear layers in few bits (workload.frozen), scales
// included; 0 = as other weights.
double packed_bytes(const Workload& workload);

Block feed_forward_block(const Workload& workload, const RankShape& shape);
Block expert_block(const Workload& workload, const RankShape& shape);

// All blocks of a layer; the last is the feed-forward block or that of the experts.
std::vector<SharedBlock> layer_blocks(const Workload& workload, const RankShape& shape, int layer);

// For each operator, whether an alternate recompute runs it again. It reruns memory passes and
// every second product in forward order, unless tensor parallelism sums that product's result. It
// never reruns attention. Experts run again, because their grouped products are not on torchtitan's
// list of operators whose results are kept (0.2.2, models/*/infra/parallelize.py:
// _op_sac_save_list), and so does the router, which is not counted among the products
// (per_op_sac_force_recompute_mm_shapes_by_fqns). What their exchanges brought is kept.
std::vector<bool> alternate_runs(std::span<const Operator> operators, int tp);

// For each operator, whether selective recompute runs it again before the block's backward.
// Attention between its projections does so in its own backward (fused_attention.h).
std::vector<bool> selective_runs(std::span<const Operator> operators, const Experiment& experiment);

// The block in front of the layer in a module that predicts a further token.
Block prediction_block(const Workload& workload, const RankShape& shape);

Block embedding_block();
// final norm, logits, loss; or span scores
Block head_block(const Workload& workload, const RankShape& shape);

}  // namespace stepcast
