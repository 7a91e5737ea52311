// The ends of the model. First stage: embedding rows are gathered (of this rank's part of the vocabulary, summed over the
// tensor-parallel ranks), positions added, dropout. Last stage: final norm, logits, softmax and loss; over a split
// vocabulary maximum, sum and target are all-reduced, one fp32 a token each.
// Passes over the N = tokens x vocabulary logits of two bytes. fused_loss: forward reads them for the maximum, reads them
// again for the sum (an fp32 exponential is written), backward reads and writes: 10 and 6 bytes. Otherwise as a
// framework does it step by step in fp32: cast (2 + 4 bytes), maximum (4), subtract (8), exponential (8), sum (4);
// backward: subtract and scale (8), cast (4 + 2). The dense gradient of the embedding is set to zero, written and added
// to the accumulated one.
#include "model/transformer/operations.h"
#include "model/transformer/passes.h"
#include "model/transformer/tensor_parallel.h"

namespace stepcast {
namespace {

Linear logits(const LayerContext& c) {
    return {"logits", c.shape.head_tokens, c.shape.vocab, c.shape.hidden, c.shape.storage};
}

void plan_loss_sums(Planner& planner, const LayerContext& c) {
    const AllReduce one{static_cast<double>(c.shape.head_tokens) * Bytes(4)};
    for (int i = 0; i < 3; ++i) planner.collective("loss_all_reduce", one, c.groups.tensor);
}

// Final norm, which Transformer-XL has not, and logits.
void plan_logits(Planner& planner, const LayerContext& c) {
    const bool has_norm = c.experiment.workload.positions != Positions::relative;
    if (!c.experiment.parallelism.unfused) {
        if (has_norm) plan_norm(planner, c, "final_norm");
        return plan_column_forward(planner, c, logits(c));
    }
    Operations ops(planner, c);
    if (has_norm) ops.norm("final_norm");
    ops.narrow(ops.outer());
    ops.linear(logits(c));
}

void plan_loss(Planner& planner, const LayerContext& c) {
    const double n = static_cast<double>(c.shape.head_tokens) * static_cast<double>(c.shape.vocab);
    const Bytes element = c.shape.element();
    if (c.experiment.workload.fused_loss)
        planner.compute("loss", MemoryPass{n * 3.0 * element, n * Bytes(4)}, 4);
    else
        planner.compute("loss", MemoryPass{n * (element + Bytes(4 + 4 + 4 + 4)), n * Bytes(4 + 4 + 4)}, 12);
    plan_loss_sums(planner, c);
}

// A loss added up over slices of the logits: automatic differentiation makes of each slice's gradient one of the whole,
// zero elsewhere, and sums them.
void plan_slices_backward(Planner& planner, const LayerContext& c) {
    const double pieces = c.experiment.workload.loss_pieces;
    if (pieces == 1) return;
    const Bytes whole =
        static_cast<double>(c.shape.head_tokens) * static_cast<double>(c.shape.vocab) * c.shape.element();
    planner.compute("loss_slices", MemoryPass{whole, (pieces + 1) * whole}, static_cast<float>(2 * pieces));
    planner.compute("loss_slices", MemoryPass{2 * (pieces - 1) * whole, (pieces - 1) * whole},
                    static_cast<float>(pieces - 1));
}

Linear span_scores(const LayerContext& c) { return {"span", c.shape.tokens, 2, c.shape.hidden, c.shape.matrix}; }

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
    if (c.experiment.workload.adapter_rank > 0) return;
    const double weights = static_cast<double>(c.shape.vocab) * static_cast<double>(c.shape.hidden);
    const Bytes table = weights * (c.shape.element() + size_of(p.gradient_dtype));
    b.inputs.compute("embedding_gradient", MemoryPass{2.0 * whole + table, whole + table}, 4);
}

void plan_head_forward(Planner& planner, const LayerContext& c) {
    plan_logits(planner, c);
    if (c.experiment.workload.loss_in_forward) plan_loss(planner, c);
}

void plan_head_backward(BackwardPlanners b, const LayerContext& c) {
    const double n = static_cast<double>(c.shape.head_tokens) * static_cast<double>(c.shape.vocab);
    const Bytes element = c.shape.element();
    if (!c.experiment.workload.loss_in_forward) plan_loss(b.inputs, c);
    if (c.experiment.workload.fused_loss)
        b.inputs.compute("loss_backward", MemoryPass{n * Bytes(4), n * element}, 2);
    else
        b.inputs.compute("loss_backward", MemoryPass{n * Bytes(4 + 4), n * (Bytes(4) + element)}, 4);
    plan_slices_backward(b.inputs, c);
    const bool has_norm = c.experiment.workload.positions != Positions::relative;
    if (!c.experiment.parallelism.unfused) {
        plan_column_backward(b, c, logits(c));
        if (has_norm) plan_norm_backward(b.inputs, c, "final_norm_backward");
        return;
    }
    plan_unfused_linear_backward(b, c, logits(c), !has_norm);
    Operations ops(b.inputs, c);
    ops.widen(ops.outer());
    if (has_norm) ops.norm_backward("final_norm_backward");
}

void plan_span_forward(Planner& planner, const LayerContext& c) {
    Operations ops(planner, c);
    ops.narrow(ops.outer());
    ops.linear(span_scores(c));
    const Bytes both = static_cast<double>(2 * c.shape.tokens) * ops.wide;
    planner.compute("loss", MemoryPass{both, both}, 12);
}

void plan_span_backward(BackwardPlanners b, const LayerContext& c) {
    Operations ops(b.inputs, c);
    const Bytes both = static_cast<double>(2 * c.shape.tokens) * ops.wide;
    b.inputs.compute("loss_backward", MemoryPass{2.0 * both, both}, 12);
    plan_unfused_linear_backward(b, c, span_scores(c), true);
    ops.widen(ops.outer());
}

}  // namespace stepcast
