// The ends of the model, the same in every style. First stage: embedding rows are gathered (of this rank's part of the
// vocabulary, summed over the tensor-parallel ranks), positions added, dropout. Last stage: softmax and loss; over a split
// vocabulary maximum, sum and target are all-reduced, one fp32 a token each.
// Passes over the N = tokens x vocabulary logits of two bytes. fused_loss: forward reads them for the maximum, reads them
// again for the sum (an fp32 exponential is written), backward reads and writes: 10 and 6 bytes. Otherwise as a
// framework does it step by step in fp32: cast (2 + 4 bytes), maximum (4), subtract (8), exponential (8), sum (4);
// backward: subtract and scale (8), cast (4 + 2). The dense gradient of the embedding is set to zero, written and added
// to the accumulated one.
#pragma once

#include "model/block/block_pass.h"

namespace stepcast {

struct Ends : BlockPass {
    // Passes over logits or a whole table move hundreds of megabytes each, as the optimizer's do: no start or end of a kernel that
    // counts. Measured: a last stage of nanotron that holds the logits alone (4096 x 131072) takes 18 ms a micro-batch, 11 of them products.
    static constexpr auto long_pass = MemoryPass::Access::optimizer;

    void operator()(const Embed&) const {
        const Group& ranks = c.groups.tensor;
        const Bytes whole = s.inner(s.hidden), a = tensor(outer()), mask = mask_of(outer());
        forward("embedding", MemoryPass{whole, whole});
        if (ahead != nullptr && p.sequence_parallel) ahead->collective("tp_reduce_scatter", ReduceScatter{whole}, ranks);
        if (ahead != nullptr && !p.sequence_parallel) ahead->collective("tp_all_reduce", AllReduce{whole}, ranks);
        if (w.positions == Positions::learned) forward("positions", MemoryPass{2.0 * a, a});
        if (drops()) forward("dropout", MemoryPass{a, a + mask});

        if (drops()) backward("dropout_backward", MemoryPass{a + mask, a});
        if (back != nullptr && p.sequence_parallel) back->inputs.collective("tp_all_gather", AllGather{whole}, ranks);
        if (w.adapter_rank > 0) return;
        const double weights = static_cast<double>(s.vocab) * static_cast<double>(s.hidden);
        const Bytes table = weights * (s.element() + size_of(p.gradient_dtype));
        backward("embedding_gradient", MemoryPass{2.0 * whole + table, whole + table, long_pass}, 4);
        table_slices_backward(weights * s.element());
    }

    void operator()(const Loss&) const {
        const double n = static_cast<double>(s.head_tokens) * static_cast<double>(s.vocab);
        if (w.loss_in_forward == (ahead != nullptr)) loss(n);
        if (w.fused_loss)
            backward("loss_backward", MemoryPass{n * Bytes(4), n * s.element(), long_pass}, 2);
        else
            backward("loss_backward", MemoryPass{n * Bytes(4 + 4), n * (Bytes(4) + s.element()), long_pass}, 4);
        loss_slices_backward(tensor(n));
    }

private:
    // Logits of slices of the table (adaptive softmax over one table: ranges of rarer and rarer symbols). Automatic differentiation makes
    // of each slice's gradient one of the whole: set to zero, the slice's rows copied; and adds them up with the embedding's own.
    void table_slices_backward(Bytes table) const {
        const double slices = w.table_slices;
        if (slices == 1) return;
        backward("table_slices", MemoryPass{table, (slices + 1) * table, long_pass}, static_cast<float>(2 * slices));
        backward("table_slices", MemoryPass{2 * slices * table, slices * table, long_pass}, static_cast<float>(slices));
    }

    // A loss added up over slices of the logits: automatic differentiation makes of each slice's gradient one of the whole,
    // zero elsewhere, and sums them.
    void loss_slices_backward(Bytes whole) const {
        const double slices = w.loss_pieces;
        if (slices == 1) return;
        backward("loss_slices", MemoryPass{whole, (slices + 1) * whole, long_pass}, static_cast<float>(2 * slices));
        backward("loss_slices", MemoryPass{2 * (slices - 1) * whole, (slices - 1) * whole, long_pass}, static_cast<float>(slices - 1));
    }

    void loss(double n) const {
        const Bytes element = s.element();
        if (w.fused_loss)
            planner().compute("loss", MemoryPass{n * 3.0 * element, n * Bytes(4), long_pass}, 4);
        else
            planner().compute("loss", MemoryPass{n * (element + Bytes(4 + 4 + 4 + 4)), n * Bytes(4 + 4 + 4), long_pass}, 12);
        const AllReduce one{static_cast<double>(s.head_tokens) * Bytes(4)};
        for (int i = 0; i < 3; ++i) planner().collective("loss_all_reduce", one, c.groups.tensor);
    }
};

}  // namespace stepcast
