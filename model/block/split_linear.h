// Tensor-parallel linear layers (Megatron-LM, arXiv 1909.08053; with sequence parallelism arXiv 2205.05198). One that is split
// by columns is entered with the whole input and leaves its output split; by rows, it leaves partial sums.
//                       no sequence parallelism     sequence parallelism
//   column forward      -                           all-gather x
//   row forward         all-reduce y                reduce-scatter y
//   row backward        -                           all-gather dy
//   column backward     all-reduce dx               all-gather x (for the weight gradient), reduce-scatter dx
// Each moves tokens x width elements. With overlap_tp the collective runs during the product that it feeds or follows; with
// overlap_weight_gradient the backward's run during the other product of the same layer.
// Adapters of rank r: y += (x A) B, with A [in, r] and B [r, out], in 16 bit; backward: both gradients, and x's.
#pragma once

#include "model/block/block_pass.h"

namespace stepcast {

struct SplitLinear : BlockPass {
    const Linear& l;
    const Group& group = c.groups.tensor;
    using PassWriter::backward, PassWriter::forward;

    void forward() const {
        if (l.split == Split::none) return product();
        if (l.split == Split::column) {
            gather(l.in, p.overlap_tp);
            return adapter();
        }
        adapter();
        overlap(*ahead, p.overlap_tp, sum_name(), sum(l.out), group, [&] { product(); });
        if (p.overlap_tp) return;
        lay_out(l.out);
        ahead->collective(sum_name(), sum(l.out), group);
    }

    void backward() const {
        const auto& [inputs, weights] = *back;
        const auto weight_gradient = [&] { plan_weight_gradient(back->weights, l, c.experiment); };
        const bool column = l.split == Split::column, apart = &inputs != &weights;
        if (l.split == Split::none) product();
        if (l.split == Split::row) gather(l.out, p.overlap_tp);
        if (column) {
            gather(l.in, p.overlap_weight_gradient);
            lay_out(l.in);
            if (!p.overlap_weight_gradient || apart) inputs.collective(sum_name(), sum(l.in), group);
        }
        overlap(weights, column && p.overlap_weight_gradient && !apart, sum_name(), sum(l.in), group, weight_gradient);
        adapter();
    }

private:
    // What collectives of a tensor of so many columns move, and which they are.
    [[nodiscard]] Bytes whole(Width width) const { return s.inner(width.rank); }
    [[nodiscard]] Op sum(Width width) const {
        return p.sequence_parallel ? Op(ReduceScatter{whole(width)}) : Op(AllReduce{whole(width)});
    }
    [[nodiscard]] std::string_view sum_name() const { return p.sequence_parallel ? "tp_reduce_scatter" : "tp_all_reduce"; }

    // Parts of the sequence of several samples do not lie one after another in [batch, sequence, hidden].
    void lay_out(Width width) const {
        if (p.gather_copies && p.sequence_parallel && p.tp > 1 && !p.overlap_tp)
            planner().compute("tp_copy", MemoryPass{whole(width), whole(width)});
    }

    // The whole tensor, where sequence parallelism holds a part; during the product or before it.
    void gather(Width width, bool overlapped) const {
        const AllGather all{whole(width)};
        if (p.sequence_parallel && !overlapped) planner().collective("tp_all_gather", all, group);
        overlap(planner(), p.sequence_parallel && overlapped, "tp_all_gather", all, group, [&] { product(); });
        lay_out(width);
    }

    void product() const {
        row_scales();
        ahead != nullptr ? plan_linear(*ahead, l) : plan_input_gradient(back->inputs, l);
    }

    // A scale a row: the cast by columns finds the maxima first, so that it reads its tensor once more, and the weights are cast too,
    // for one product by rows and for one by columns. Several products of one input cast it once.
    void row_scales() const {
        if (!w.row_scales || !is_narrow(l.dtype)) return;
        const bool is_cast = ahead != nullptr && l.after_norm;
        const double activations = is_cast ? 0 : static_cast<double>(l.tokens * (ahead != nullptr ? l.in : l.out).rank);
        const double weights = static_cast<double>(l.in.rank * l.out.rank);
        const Bytes read = size_of(between_products(l.dtype));
        planner().compute("row_scales", MemoryPass{2.0 * activations * read + 1.5 * weights * read, weights * size_of(l.dtype)});
    }

    // Trained, where the layer itself is frozen: its weight gradients come first.
    void adapter() const {
        if (l.adapter_rank == 0) return;
        const Dtype dtype = between_products(l.dtype);
        const Linear in{.name = "adapter_in", .tokens = l.tokens, .out = l.adapter_rank, .in = l.in, .dtype = dtype};
        const Linear out{.name = "adapter_out", .tokens = l.tokens, .out = l.out, .in = l.adapter_rank, .dtype = dtype};
        const auto moved = [&](Width width) { return static_cast<double>(l.tokens * width.rank) * size_of(dtype); };
        for (const Linear& of : {in, out})
            if (ahead != nullptr) plan_linear(*ahead, of);
        for (const Linear& of : {out, in})
            if (back != nullptr) {
                back->weights.compute(of.name, product_of(of, of.out.rank, of.in.rank, of.tokens));
                plan_input_gradient(back->inputs, of);
            }
        forward("adapter_sum", MemoryPass{2.0 * moved(l.out), moved(l.out)});
        backward("adapter_sum_backward", MemoryPass{2.0 * moved(l.in), moved(l.in)});
    }
};

}  // namespace stepcast
