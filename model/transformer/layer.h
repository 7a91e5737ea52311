// The blocks of a transformer layer as plans. Sizes are per micro-batch and rank; A = outer tokens x hidden elements,
// a score is one element of the seq x seq matrices of plain attention. Element-wise passes are counted tensor by tensor,
// as frameworks run them without fusing across layers (Korthikanti et al., arXiv 2205.05198, section 4 lists them).
#pragma once

#include "model/rank_groups.h"
#include "model/routing.h"
#include "model/transformer/plan.h"
#include "model/transformer/rank_shape.h"

namespace stepcast {

struct LayerContext {
    const Experiment& experiment;
    RankShape shape;
    RankGroups groups;
    const Routing& routing;  // of one expert-parallel group; empty = balanced
};

// Where the backward of a block writes: one planner where weight gradients follow at once, two where the schedule
// splits them off (zero bubble).
struct BackwardPlanners {
    Planner& inputs;
    Planner& weights;
};

void plan_attention_forward(Planner& planner, const LayerContext& context);
void plan_attention_backward(BackwardPlanners planners, const LayerContext& context);
// The part of attention that selective recompute runs again: scores, softmax, dropout, values of plain attention.
void plan_scores_forward(Planner& planner, const LayerContext& context);

// A Mamba-2 block, and a share of an attention block.
void plan_hybrid_forward(Planner& planner, const LayerContext& context);
void plan_hybrid_backward(BackwardPlanners planners, const LayerContext& context);

void plan_feed_forward(Planner& planner, const LayerContext& context);
// As full recompute runs it: with recompute_stops_early only as far as the backward needs tensors.
void plan_feed_forward_again(Planner& planner, const LayerContext& context);
void plan_feed_forward_backward(BackwardPlanners planners, const LayerContext& context);

// The same in two: up to the inner width, and from there (the down projection) on.
void plan_feed_forward_start(Planner& planner, const LayerContext& context);
void plan_feed_forward_rest(Planner& planner, const LayerContext& context);
void plan_feed_forward_start_backward(BackwardPlanners planners, const LayerContext& context);
void plan_feed_forward_rest_backward(BackwardPlanners planners, const LayerContext& context);

void plan_experts_forward(Planner& planner, const LayerContext& context);
void plan_experts_backward(BackwardPlanners planners, const LayerContext& context);

void plan_embedding_forward(Planner& planner, const LayerContext& context);
void plan_embedding_backward(BackwardPlanners planners, const LayerContext& context);
void plan_head_forward(Planner& planner, const LayerContext& context);  // final norm, logits, loss
void plan_head_backward(BackwardPlanners planners, const LayerContext& context);
void plan_span_forward(Planner& planner, const LayerContext& context);  // two scores a token, loss over positions
void plan_span_backward(BackwardPlanners planners, const LayerContext& context);

// One linear layer of the rank, [tokens, in] x [in, out].
struct Linear {
    std::string_view name;
    long tokens, out, in;
    Dtype dtype;
};
void plan_linear(Planner& planner, const Linear& linear);
// Operands of narrow products: read in 16 bits, written twice, by rows and by columns. Nothing for wider ones.
void plan_cast(Planner& planner, double elements, Dtype dtype);
void plan_input_gradient(Planner& planner, const Linear& linear);
// The GEMM, and without fused accumulation the pass that adds its result to those of the micro-batches before (zero 3
// accumulates shards, which is little).
// Nothing where the weights are frozen.
void plan_weight_gradient(Planner& planner, const Linear& linear, const Experiment& experiment);

// workload.adapter_rank r: y += (x A) B, with A [in, r] and B [r, out]; backward: both gradients, and x's.
void plan_adapter(Planner& planner, const LayerContext& context, const Linear& linear);
void plan_adapter_backward(BackwardPlanners planners, const LayerContext& context, const Linear& linear);

}  // namespace stepcast
