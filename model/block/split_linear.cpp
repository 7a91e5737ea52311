// Tensor-parallel linear layers (Megatron-LM, arXiv 1909.08053; with sequence parallelism arXiv 2205.05198). One that is split
// by columns is entered with the whole input and leaves its output split; by rows, it leaves partial sums.
//                       no sequence parallelism     sequence parallelism
//   column forward      -                           all-gather x
//   row forward         all-reduce y                reduce-scatter y
//   row backward        -                           all-gather dy
//   column backward     all-reduce dx               all-gather x (for the weight gradient), reduce-scatter dx
// Each moves tokens x width elements. With overlap_tp the collective runs beside the product that it feeds or follows; with
// overlap_weight_gradient the backward's run beside the other product of the same layer.
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

    // The whole tensor, where sequence parallelism holds a part; beside `work` or before it.
    template <typename Work>
    void gather(Planner& planner, bool overlapped, Work work) const {
        if (p.sequence_parallel && !overlapped) planner.collective("tp_all_gather", AllGather{bytes}, group);
        overlap(planner, p.sequence_parallel && overlapped, "tp_all_gather", AllGather{bytes}, group, work);
    }
};

void plan_column_backward(BackwardPlanners b, const LayerContext& c, const Linear& l) {
    const Collectives collectives(c, l.in.rank);
    const bool overlapped = collectives.p.overlap_weight_gradient, split = &b.inputs != &b.weights;
    collectives.gather(b.inputs, overlapped, [&] { plan_input_gradient(b.inputs, l); });
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
            [&] { plan_linear(planner, l); });
    if (!overlapped) planner.collective(collectives.sum_name(), collectives.sum(), collectives.group);
}

}  // namespace

void plan_split_linear(Planner& planner, const LayerContext& c, const Linear& l) {
    if (l.split == Split::row) return plan_row(planner, c, l);
    if (l.split == Split::none) return plan_linear(planner, l);
    Collectives(c, l.in.rank).gather(planner, c.experiment.parallelism.overlap_tp, [&] { plan_linear(planner, l); });
    plan_adapter(planner, l);
}

void plan_split_linear_backward(BackwardPlanners b, const LayerContext& c, const Linear& l) {
    if (l.split == Split::column) return plan_column_backward(b, c, l);
    if (l.split == Split::row)
        Collectives(c, l.out.rank).gather(b.inputs, c.experiment.parallelism.overlap_tp,
                                          [&] { plan_input_gradient(b.inputs, l); });
    else
        plan_input_gradient(b.inputs, l);
    plan_weight_gradient(b.weights, l, c.experiment);
    plan_adapter_backward(b, l);
}

}  // namespace stepcast
