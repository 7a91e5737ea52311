// The ends of the model, equal in every style.
//
// First stage: gathers embedding rows (of this rank's part of the vocabulary, summed over the
// tensor-parallel ranks), adds positions, applies dropout. The dense gradient of the embedding is
// set to zero, written, and added to the accumulated one.
//
// Last stage: softmax and loss. With a split vocabulary, the maximum, the sum and the target are
// all-reduced, one fp32 each per token. The logits have N = tokens x vocabulary elements; bytes per
// element, if they have two bytes:
//   runtime.loss.fused:
//     forward: 10 (three reads, among them for maximum and sum, and an fp32 exponential written)
//     backward: 6
//   not fused, the framework's fp32 steps:
//     forward: cast (2 + 4), maximum (4), subtract (8), exponential (8), sum (4)
//     backward: subtract and scale (8), cast (4 + 2)
//   composed, PyTorch's cross entropy:
//     forward: cast (2 + 4), log_softmax, which reads long rows three times, for maximum, sum and
//       result (12 + 4)
//     backward: zeros for the chosen ones (4), log_softmax's, which reads the gradient twice and
//       the result (12 + 4), cast (4 + 2)
//   in chunks of rows (Triton's kernel turns logits into their gradient in place):
//     forward: two reads (4), a write (2); each chunk's three products, of which the weight's
//       gradient adds to that of the chunks before
//     backward: both gradients times that of the loss, which the Trainer divides by tokens
//   recomputed: no traffic; forward and backward multiply the logits, each in its kernels
// On one H100 the composed softmax's 16 bytes take 4.9 to 5.6 ps either way, for 32,000 to 262,144
// words (calibrate/measurements/h100).
#pragma once

#include "model/base/numbers.h"
#include "model/block/block_pass.h"

namespace stepcast {

struct Ends : BlockPass {
    // Passes over logits or a whole table move hundreds of megabytes, like the optimizer's: a
    // kernel's start and end do not count. Measured: nanotron's last stage with only the logits
    // (4096 x 131072) takes 18 ms per micro-batch, 11 ms of it products.
    static constexpr auto long_pass = MemoryPass::Access::optimizer;

    void operator()(const Embed&) const {
        const Group& ranks = c.groups.tensor;
        const Bytes whole = s.inner(s.hidden), a = tensor(outer()), mask = mask_of(outer());
        forward("embedding", MemoryPass{whole, whole});
        if (ahead != nullptr && p.sequence_parallel)
            ahead->collective("tp_reduce_scatter", ReduceScatter{whole}, ranks);
        if (ahead != nullptr && !p.sequence_parallel)
            ahead->collective("tp_all_reduce", AllReduce{whole}, ranks);
        if (w.positions == Positions::learned) forward("positions", MemoryPass{2.0 * a, a});
        if (drops()) forward("dropout", MemoryPass{a, a + mask});

        if (drops()) backward("dropout_backward", MemoryPass{a + mask, a});
        if (back != nullptr && p.sequence_parallel)
            back->inputs.collective("tp_all_gather", AllGather{whole}, ranks);
        if (w.adapter_rank > 0) return;
        const double weights = real(s.vocab) * real(s.hidden);
        const Bytes table = weights * (s.element() + size_of(gradient_type(c.experiment)));
        backward("embedding_gradient", MemoryPass{2.0 * whole + table, whole + table, long_pass},
                 4);
        slices_backward("table_slices", w.table_slices, weights * s.element(), w.table_slices);
    }

    void operator()(const Loss&) const {
        if (r.loss.logits == LogitsKept::chunks) return in_chunks();
        if (r.loss.logits == LogitsKept::recomputed) {
            if (back == nullptr) return;
            return plan_linear(back->inputs, logits());
        }
        const double n = real(s.head_tokens) * real(s.vocab);
        if (r.loss.in_forward == (ahead != nullptr)) loss(n);
        if (composes(*this, Composed::loss))
            backward("loss_backward",
                     composed_loss(n, 3.0 * wide(), 2.0 * wide(), wide(), s.element()), 4);
        else if (r.loss.fused)
            backward("loss_backward", MemoryPass{n * Bytes(4), n * s.element(), long_pass}, 2);
        else
            backward("loss_backward",
                     MemoryPass{n * Bytes(4 + 4), n * (Bytes(4) + s.element()), long_pass}, 4);
        slices_backward("loss_slices", r.loss.pieces, tensor(n), r.loss.pieces - 1);
    }

private:
    [[nodiscard]] Bytes wide() const { return w.fp32_loss ? size_of(Dtype::fp32) : s.element(); }

    // With the cast beside its softmax, unless that takes the logits as they are.
    [[nodiscard]] MemoryPass composed_loss(double n, Bytes read, Bytes written, Bytes cast_from,
                                           Bytes cast_to) const {
        const double casts = w.fp32_loss ? 1 : 0;
        return {n * (read + casts * cast_from), n * (written + casts * cast_to), long_pass};
    }

    // Logits of slices of the table (adaptive softmax over one table: ranges of ever rarer
    // symbols), or a loss that is summed over slices of the logits. Automatic differentiation
    // expands each slice's gradient to the whole tensor, with zeros elsewhere, and sums these:
    // those of the table to the embedding's gradient.
    void slices_backward(std::string_view name, double slices, Bytes whole, double sums) const {
        if (slices == 1) return;
        backward(name, MemoryPass{whole, (slices + 1) * whole, long_pass},
                 static_cast<float>(2 * slices));
        backward(name, MemoryPass{2 * sums * whole, sums * whole, long_pass},
                 static_cast<float>(sums));
    }

    [[nodiscard]] Linear logits() const {
        return {.name = "logits",
                .tokens = s.head_tokens,
                .out = {w.vocab, s.vocab},
                .in = w.hidden,
                .dtype = s.storage};
    }

    // Whole chunks and the last one count as equal ones.
    void in_chunks() const {
        const long rows = loss_rows(s), chunks = (s.head_tokens + rows - 1) / rows;
        const double weights = w.adapter_rank > 0 ? 0 : real(s.vocab) * real(s.hidden);
        if (ahead != nullptr)
            for (long i = 0; i < chunks; ++i) chunk((s.head_tokens + chunks - 1) / chunks, weights);
        const Bytes made = tensor(real(s.head_tokens) * real(s.hidden) + weights);
        backward("loss_backward", MemoryPass{made, made, long_pass}, weights > 0 ? 2 : 1);
        if (back != nullptr && weights > 0)
            plan_accumulation(back->weights, logits(), c.experiment);
    }

    void chunk(long rows, double weights) const {
        Linear l = logits();
        l.tokens = rows;
        const Bytes element = s.element();
        const double n = real(rows) * real(s.vocab);
        plan_linear(*ahead, l);
        ahead->compute("loss", MemoryPass{n * 2.0 * element, n * element, long_pass});
        plan_input_gradient(*ahead, l);
        if (weights == 0) return;
        ahead->compute(l.name, product_of(l, l.out.rank, l.in.rank, rows));
        // with the result that the product states, the sum so far is read and written
        ahead->compute("loss_sum", MemoryPass{weights * element, Bytes(0), long_pass}, 0);
    }

    void loss(double n) const {
        const Bytes element = s.element();
        if (composes(*this, Composed::loss))
            planner().compute("loss", composed_loss(n, 3.0 * wide(), wide(), element, wide()), 3);
        else if (r.loss.fused)
            planner().compute("loss", MemoryPass{n * 3.0 * element, n * Bytes(4), long_pass}, 4);
        else
            planner().compute(
                "loss",
                MemoryPass{n * (element + Bytes(4 + 4 + 4 + 4)), n * Bytes(4 + 4 + 4), long_pass},
                12);
        const AllReduce one{real(s.head_tokens) * Bytes(4)};
        for (int i = 0; i < 3; ++i) planner().collective("loss_all_reduce", one, c.groups.tensor);
    }
};

}  // namespace stepcast
