// Tensor-parallel linear layers (Megatron-LM, arXiv 1909.08053; with sequence parallelism arXiv
// 2205.05198). A layer split by columns reads the whole input and produces split output; one split
// by rows produces partial sums. Collectives:
//                       no sequence parallelism     sequence parallelism
//   column forward      -                           all-gather x
//   row forward         all-reduce y                reduce-scatter y
//   row backward        -                           all-gather dy
//   column backward     all-reduce dx               all-gather x (for the weight gradient),
//                                                   reduce-scatter dx
// Each collective moves tokens x width elements. Products in 8 and 4 bits cast what they read
// before it is gathered, so that the gathers move that type: Transformer Engine
// (gather_along_first_dim with a quantizer) and torchao (Float8ColwiseParallel,
// Float8RowwiseParallel); sums stay in 16 bits. Scales of rows (torchao's other recipe) are of
// casts behind the gather. With overlap_tp it runs during the product that it feeds or follows;
// with overlap_weight_gradient the backward's collectives run during the other backward product of
// the same layer. Adapters beside it: adapters.h.
#pragma once

#include "model/base/numbers.h"
#include "model/block/adapters.h"

namespace stepcast {

struct SplitLinear : BlockPass {
    const Linear& l;
    const Group& group = c.groups.tensor;
    using PassWriter::backward, PassWriter::forward;

    void forward() const {
        if (l.split != Split::row) {
            l.split == Split::none ? product() : gather(l.in, overlapped());
            return adapter();
        }
        adapter();
        ahead->overlap(overlapped(), sum_name(), sum(l.out), group, [&] { product(); });
        if (overlapped()) return;
        lay_out(l.out);
        ahead->collective(sum_name(), sum(l.out), group);
    }

    void backward() const {
        const auto& [inputs, weights] = *back;
        const auto weight_gradient = [&] { plan_weight_gradient(back->weights, l, c.experiment); };
        const bool column = l.split == Split::column, apart = &inputs != &weights;
        if (l.split == Split::none && !l.detached) product();
        if (l.split == Split::row) gather(l.out, overlapped());
        if (column) {
            gather(l.in, r.exchanges.weight_gradient);
            lay_out(l.in);
            if (!r.exchanges.weight_gradient || apart)
                inputs.collective(sum_name(), sum(l.in), group);
        }
        weights.overlap(column && r.exchanges.weight_gradient && !apart, sum_name(), sum(l.in),
                        group, weight_gradient);
        adapter();
    }

private:
    [[nodiscard]] bool overlapped() const { return overlaps_tensor(c.experiment); }
    // Bytes and kind of the collectives over a tensor with that many columns.
    [[nodiscard]] Bytes whole(Width width) const { return s.inner(width.rank); }
    [[nodiscard]] Bytes gathered(Width width) const {
        const bool cast = is_narrow(l.dtype) && !r.row_scales;
        return cast ? whole(width) * (size_of(l.dtype) / size_of(between_products(l.dtype)))
                    : whole(width);
    }
    [[nodiscard]] Op sum(Width width) const {
        return p.sequence_parallel ? Op(ReduceScatter{whole(width)}) : Op(AllReduce{whole(width)});
    }
    [[nodiscard]] std::string_view sum_name() const {
        return p.sequence_parallel ? "tp_reduce_scatter" : "tp_all_reduce";
    }

    // With several samples, the sequence part of one rank is not contiguous in [batch, sequence,
    // hidden], so it must be copied.
    void lay_out(Width width) const {
        if (r.gather_copies && p.sequence_parallel && p.tp > 1 && !overlapped())
            planner().compute("tp_copy", MemoryPass{whole(width), whole(width)});
    }

    // All-gathers a tensor that sequence parallelism splits, during the product (`overlapped`) or
    // before it, and runs the product.
    void gather(Width width, bool overlapped) const {
        const AllGather all{gathered(width)};
        if (p.sequence_parallel && !overlapped) planner().collective("tp_all_gather", all, group);
        planner().overlap(p.sequence_parallel && overlapped, "tp_all_gather", all, group,
                          [&] { product(); });
        lay_out(width);
    }

    void adapter() const { Adapters(*this, l).plan(); }

    void product() const {
        row_scales();
        ahead != nullptr ? plan_linear(*ahead, l) : plan_input_gradient(back->inputs, l);
    }

    // fp8 with one scale per row: the cast by columns reads its tensor once more, to find the
    // maxima. The weights are cast too, once for a product by rows and once for one by columns.
    // Products of the same input share one cast.
    void row_scales() const {
        if (!r.row_scales || !is_narrow(l.dtype)) return;
        const bool is_cast = ahead != nullptr && l.after_norm;
        const double activations =
            is_cast ? 0 : real(l.tokens * (ahead != nullptr ? l.in : l.out).rank);
        const double weights = real(l.in.rank * l.out.rank);
        const Bytes read = size_of(between_products(l.dtype));
        planner().compute("row_scales", MemoryPass{2.0 * activations * read + 1.5 * weights * read,
                                                   weights * size_of(l.dtype)});
    }
};

}  // namespace stepcast
