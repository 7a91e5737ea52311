// The ends of the model. First stage: embedding rows are gathered (of this rank's part of the vocabulary, summed over the
// tensor-parallel ranks), positions added, dropout. Last stage: final norm, logits, softmax and loss; over a split
// vocabulary maximum, sum and target are all-reduced, one fp32 a token each.
// Passes over the N = tokens x vocabulary logits. fused_loss: forward reads and writes them once, backward as well.
// Otherwise as a framework does it step by step in fp32: cast (2 + 4 bytes), maximum (4), subtract (8), exponential (8),
// sum (4); backward: subtract and scale (8), cast (4 + 2).
#include "model/transformer/passes.h"
#include "model/transformer/tensor_parallel.h"

namespace stepcast {
namespace {

Linear logits(const LayerContext& c) {
    return {"logits", c.shape.tokens, c.shape.vocab, c.shape.hidden, c.shape.storage};
}

void plan_loss_sums(Planner& planner, const LayerContext& c) {
    const AllReduce one{static_cast<double>(c.shape.tokens) * Bytes(4)};
    for (int i = 0; i < 3; ++i) planner.collective("loss_all_reduce", one, c.groups.tensor);
}

}  // namespace

void plan_embedding_forward(Planner& planner, const LayerContext& c) {
    const Parallelism& p = c.experiment.parallelism;
    const Bytes whole = c.shape.inner(c.shape.hidden), a = c.shape.outer();
    planner.compute("embedding", MemoryPass{whole, whole});
    if (p.sequence_parallel)
        planner.collective("tp_reduce_scatter", ReduceScatter{whole}, c.groups.tensor);
    else
        planner.collective("tp_all_reduce", AllReduce{whole}, c.groups.tensor);
    if (c.experiment.workload.positions == Positions::learned) planner.compute("positions", MemoryPass{2.0 * a, a});
    if (drops(c)) planner.compute("dropout", MemoryPass{a, a + mask_of(c, a)});
}

void plan_embedding_backward(BackwardPlanners b, const LayerContext& c) {
    const Parallelism& p = c.experiment.parallelism;
    const Bytes whole = c.shape.inner(c.shape.hidden), a = c.shape.outer();
    if (drops(c)) b.inputs.compute("dropout_backward", MemoryPass{a + mask_of(c, a), a});
    if (p.sequence_parallel) b.inputs.collective("tp_all_gather", AllGather{whole}, c.groups.tensor);
    b.inputs.compute("embedding_gradient", MemoryPass{2.0 * whole, whole}, 4);
}

void plan_head_forward(Planner& planner, const LayerContext& c) {
    const double n = static_cast<double>(c.shape.tokens) * static_cast<double>(c.shape.vocab);
    const Bytes element = c.shape.element();
    plan_norm(planner, c, "final_norm");
    plan_column_forward(planner, c, logits(c));
    if (c.experiment.workload.fused_loss)
        planner.compute("loss", MemoryPass{n * element, n * element}, 4);
    else
        planner.compute("loss", MemoryPass{n * (element + Bytes(4 + 4 + 4 + 4)), n * Bytes(4 + 4 + 4)}, 12);
    plan_loss_sums(planner, c);
}

void plan_head_backward(BackwardPlanners b, const LayerContext& c) {
    const double n = static_cast<double>(c.shape.tokens) * static_cast<double>(c.shape.vocab);
    const Bytes element = c.shape.element();
    if (c.experiment.workload.fused_loss)
        b.inputs.compute("loss_backward", MemoryPass{n * element, n * element}, 2);
    else
        b.inputs.compute("loss_backward", MemoryPass{n * Bytes(4 + 4), n * (Bytes(4) + element)}, 4);
    plan_column_backward(b, c, logits(c));
    plan_norm_backward(b.inputs, c, "final_norm_backward");
}

}  // namespace stepcast
