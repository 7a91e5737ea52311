// The ends of the model. First stage: embedding rows are gathered (of this rank's part of the vocabulary, summed over the
// tensor-parallel ranks), positions added, dropout. Last stage: softmax and loss; over a split vocabulary maximum, sum and
// target are all-reduced, one fp32 a token each.
// Passes over the N = tokens x vocabulary logits of two bytes. fused_loss: forward reads them for the maximum, reads them
// again for the sum (an fp32 exponential is written), backward reads and writes: 10 and 6 bytes. Otherwise as a
// framework does it step by step in fp32: cast (2 + 4 bytes), maximum (4), subtract (8), exponential (8), sum (4);
// backward: subtract and scale (8), cast (4 + 2). The dense gradient of the embedding is set to zero, written and added
// to the accumulated one.
#include "model/block/fused.h"

namespace stepcast {

namespace {
// Passes over logits or a whole table move hundreds of megabytes each, as the optimizer's do: no start or end of a kernel that
// counts. Measured: a last stage of nanotron that holds the logits alone (4096 x 131072) takes 18 ms a micro-batch, 11 of them products.
constexpr auto long_pass = MemoryPass::Access::optimizer;
}  // namespace

void Fused::forward(Planner& planner, const Embed&) const {
    const Bytes whole = c_.shape.inner(c_.shape.hidden), a = tensor(outer());
    planner.compute("embedding", MemoryPass{whole, whole});
    if (c_.experiment.parallelism.sequence_parallel)
        planner.collective("tp_reduce_scatter", ReduceScatter{whole}, c_.groups.tensor);
    else
        planner.collective("tp_all_reduce", AllReduce{whole}, c_.groups.tensor);
    if (workload().positions == Positions::learned) planner.compute("positions", MemoryPass{2.0 * a, a});
    if (drops()) planner.compute("dropout", MemoryPass{a, a + mask(outer())});
}

// Logits of slices of the table (adaptive softmax over one table: ranges of rarer and rarer symbols). Automatic differentiation makes
// of each slice's gradient one of the whole: set to zero, the slice's rows copied; and adds them up with the embedding's own.
void Fused::table_slices_backward(Planner& planner, Bytes table) const {
    const double slices = workload().table_slices;
    if (slices == 1) return;
    planner.compute("table_slices", MemoryPass{table, (slices + 1) * table, long_pass}, static_cast<float>(2 * slices));
    planner.compute("table_slices", MemoryPass{2 * slices * table, slices * table, long_pass}, static_cast<float>(slices));
}

void Fused::backward(BackwardPlanners b, const Embed&) const {
    const Parallelism& p = c_.experiment.parallelism;
    const Bytes whole = c_.shape.inner(c_.shape.hidden), a = tensor(outer());
    if (drops()) b.inputs.compute("dropout_backward", MemoryPass{a + mask(outer()), a});
    if (p.sequence_parallel) b.inputs.collective("tp_all_gather", AllGather{whole}, c_.groups.tensor);
    if (workload().adapter_rank > 0) return;
    const double weights = static_cast<double>(c_.shape.vocab) * static_cast<double>(c_.shape.hidden);
    const Bytes table = weights * (c_.shape.element() + size_of(p.gradient_dtype));
    b.inputs.compute("embedding_gradient", MemoryPass{2.0 * whole + table, whole + table, long_pass}, 4);
    table_slices_backward(b.inputs, weights * c_.shape.element());
}

double Fused::logits() const {
    return static_cast<double>(c_.shape.head_tokens) * static_cast<double>(c_.shape.vocab);
}

void Fused::loss(Planner& planner) const {
    const double n = logits();
    const Bytes element = c_.shape.element();
    if (workload().fused_loss)
        planner.compute("loss", MemoryPass{n * 3.0 * element, n * Bytes(4), long_pass}, 4);
    else
        planner.compute("loss", MemoryPass{n * (element + Bytes(4 + 4 + 4 + 4)), n * Bytes(4 + 4 + 4), long_pass}, 12);
    const AllReduce one{static_cast<double>(c_.shape.head_tokens) * Bytes(4)};
    for (int i = 0; i < 3; ++i) planner.collective("loss_all_reduce", one, c_.groups.tensor);
}

// A loss added up over slices of the logits: automatic differentiation makes of each slice's gradient one of the whole,
// zero elsewhere, and sums them.
void Fused::slices_backward(Planner& planner) const {
    const double slices = workload().loss_pieces;
    if (slices == 1) return;
    const Bytes whole = tensor(logits());
    planner.compute("loss_slices", MemoryPass{whole, (slices + 1) * whole, long_pass}, static_cast<float>(2 * slices));
    planner.compute("loss_slices", MemoryPass{2 * (slices - 1) * whole, (slices - 1) * whole, long_pass},
                    static_cast<float>(slices - 1));
}

void Fused::forward(Planner& planner, const Loss&) const {
    if (workload().loss_in_forward) loss(planner);
}

void Fused::backward(BackwardPlanners b, const Loss&) const {
    const double n = logits();
    const Bytes element = c_.shape.element();
    if (!workload().loss_in_forward) loss(b.inputs);
    if (workload().fused_loss)
        b.inputs.compute("loss_backward", MemoryPass{n * Bytes(4), n * element, long_pass}, 2);
    else
        b.inputs.compute("loss_backward", MemoryPass{n * Bytes(4 + 4), n * (Bytes(4) + element), long_pass}, 4);
    slices_backward(b.inputs);
}

}  // namespace stepcast
