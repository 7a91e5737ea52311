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
#include "model/block/linear.h"

namespace stepcast {
namespace {

Linear adapter_in(const Linear& l) {
    return {.name = "adapter_in", .tokens = l.tokens, .out = l.adapter_rank, .in = l.in, .dtype = between_products(l.dtype)};
}
Linear adapter_out(const Linear& l) {
    return {.name = "adapter_out", .tokens = l.tokens, .out = l.out, .in = l.adapter_rank,
            .dtype = between_products(l.dtype)};
}
Bytes tensor(const Linear& l, Width width) {
    return static_cast<double>(l.tokens * width.rank) * size_of(between_products(l.dtype));
}

// A scale a row: the cast by columns finds the maxima first, so that it reads its tensor once more, and the weights are cast too,
// for one product by rows and for one by columns. Several products of one input cast it once.
void plan_row_scales(Planner& planner, const LayerContext& c, const Linear& l, Width width, bool is_cast) {
    if (!c.experiment.workload.row_scales || !is_narrow(l.dtype)) return;
    const double activations = is_cast ? 0 : static_cast<double>(l.tokens * width.rank);
    const double weights = static_cast<double>(l.in.rank * l.out.rank);
    const Bytes read = size_of(between_products(l.dtype));
    planner.compute("row_scales", MemoryPass{2.0 * activations * read + 1.5 * weights * read, weights * size_of(l.dtype)});
}

void plan_product(Planner& planner, const LayerContext& c, const Linear& l) {
    plan_row_scales(planner, c, l, l.in, l.after_norm);
    plan_linear(planner, l);
}

void plan_product_backward(Planner& planner, const LayerContext& c, const Linear& l) {
    plan_row_scales(planner, c, l, l.out, false);
    plan_input_gradient(planner, l);
}

void plan_adapter(Planner& planner, const Linear& l) {
    if (l.adapter_rank == 0) return;
    plan_linear(planner, adapter_in(l));
    plan_linear(planner, adapter_out(l));
    planner.compute("adapter_sum", MemoryPass{2.0 * tensor(l, l.out), tensor(l, l.out)});
}

// Trained, where the layer itself is frozen: its weight gradients come first.
void plan_adapter_backward(BackwardPlanners b, const Linear& l) {
    if (l.adapter_rank == 0) return;
    for (const Linear& of : {adapter_out(l), adapter_in(l)}) {
        b.weights.compute(of.name, Gemm{.m = of.out.rank, .n = of.in.rank, .k = of.tokens, .dtype = of.dtype,
                                        .unaligned = of.in.rank % 8 != 0 || of.out.rank % 8 != 0});
        plan_input_gradient(b.inputs, of);
    }
    b.inputs.compute("adapter_sum_backward", MemoryPass{2.0 * tensor(l, l.in), tensor(l, l.in)});
}

// What a split layer's collectives move, and which they are.
struct Collectives {
    Collectives(const LayerContext& c, long width)
        : p(c.experiment.parallelism), group(c.groups.tensor), bytes(c.shape.inner(width)) {}

    const Parallelism& p;
    const Group& group;
    Bytes bytes;
    [[nodiscard]] Op sum() const { return p.sequence_parallel ? Op(ReduceScatter{bytes}) : Op(AllReduce{bytes}); }
    [[nodiscard]] std::string_view sum_name() const { return p.sequence_parallel ? "tp_reduce_scatter" : "tp_all_reduce"; }

    // Parts of the sequence of several samples do not lie one after another in [batch, sequence, hidden].
    void lay_out(Planner& planner) const {
        if (p.gather_copies && p.sequence_parallel && p.tp > 1 && !p.overlap_tp)
            planner.compute("tp_copy", MemoryPass{bytes, bytes});
    }

    // The whole tensor, where sequence parallelism holds a part; during `work` or before it.
    template <typename Work>
    void gather(Planner& planner, bool overlapped, Work work) const {
        if (p.sequence_parallel && !overlapped) planner.collective("tp_all_gather", AllGather{bytes}, group);
        overlap(planner, p.sequence_parallel && overlapped, "tp_all_gather", AllGather{bytes}, group, work);
        lay_out(planner);
    }
};

void plan_column_backward(BackwardPlanners b, const LayerContext& c, const Linear& l) {
    const Collectives collectives(c, l.in.rank);
    const bool overlapped = collectives.p.overlap_weight_gradient, split = &b.inputs != &b.weights;
    collectives.gather(b.inputs, overlapped, [&] { plan_product_backward(b.inputs, c, l); });
    collectives.lay_out(b.inputs);
    if (!overlapped || split) b.inputs.collective(collectives.sum_name(), collectives.sum(), collectives.group);
    overlap(b.weights, overlapped && !split, collectives.sum_name(), collectives.sum(), collectives.group,
            [&] { plan_weight_gradient(b.weights, l, c.experiment); });
    plan_adapter_backward(b, l);
}

void plan_row(Planner& planner, const LayerContext& c, const Linear& l) {
    const Collectives collectives(c, l.out.rank);
    const bool overlapped = collectives.p.overlap_tp;
    plan_adapter(planner, l);
    overlap(planner, overlapped, collectives.sum_name(), collectives.sum(), collectives.group,
            [&] { plan_product(planner, c, l); });
    if (overlapped) return;
    collectives.lay_out(planner);
    planner.collective(collectives.sum_name(), collectives.sum(), collectives.group);
}

}  // namespace

void plan_split_linear(Planner& planner, const LayerContext& c, const Linear& l) {
    if (l.split == Split::row) return plan_row(planner, c, l);
    if (l.split == Split::none) return plan_product(planner, c, l);
    Collectives(c, l.in.rank).gather(planner, c.experiment.parallelism.overlap_tp, [&] { plan_product(planner, c, l); });
    plan_adapter(planner, l);
}

void plan_split_linear_backward(BackwardPlanners b, const LayerContext& c, const Linear& l) {
    if (l.split == Split::column) return plan_column_backward(b, c, l);
    if (l.split == Split::row)
        Collectives(c, l.out.rank).gather(b.inputs, c.experiment.parallelism.overlap_tp,
                                          [&] { plan_product_backward(b.inputs, c, l); });
    else
        plan_product_backward(b.inputs, c, l);
    plan_weight_gradient(b.weights, l, c.experiment);
    plan_adapter_backward(b, l);
}

}  // namespace stepcast
