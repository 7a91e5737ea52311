// Tensor-parallel exchanges (Megatron-LM, arXiv 1909.08053; with sequence parallelism arXiv 2205.05198). A column-parallel
// linear is entered with the whole input and leaves its output split; a row-parallel one leaves partial sums.
//                       no sequence parallelism     sequence parallelism
//   column forward      -                           all-gather x
//   row forward         all-reduce y                reduce-scatter y
//   row backward        -                           all-gather dy
//   column backward     all-reduce dx               all-gather x (for the weight gradient), reduce-scatter dx
// Each moves tokens x width elements. With overlap_tp the exchange runs beside the GEMM it feeds or follows; with
// overlap_weight_gradient the backward's run beside the other GEMM of the same linear.
#pragma once

#include "model/transformer/layer.h"

namespace stepcast {

inline Bytes exchanged(const LayerContext& c, long width) { return c.shape.inner(width); }

template <typename Work>
void beside(Planner& planner, bool overlapped, std::string_view name, const Op& op, const Group& group, Work work) {
    if (overlapped) planner.fork(name, op, group);
    work();
    if (overlapped) planner.join();
}

inline void plan_column_forward(Planner& planner, const LayerContext& c, const Linear& linear) {
    const Parallelism& p = c.experiment.parallelism;
    const AllGather gather{exchanged(c, linear.in)};
    if (p.sequence_parallel && !p.overlap_tp) planner.collective("tp_all_gather", gather, c.groups.tensor);
    beside(planner, p.sequence_parallel && p.overlap_tp, "tp_all_gather", gather, c.groups.tensor,
           [&] { plan_linear(planner, linear); });
    plan_adapter(planner, c, linear);
}

inline void plan_row_forward(Planner& planner, const LayerContext& c, const Linear& linear) {
    const Parallelism& p = c.experiment.parallelism;
    const Bytes bytes = exchanged(c, linear.out);
    const Op op = p.sequence_parallel ? Op(ReduceScatter{bytes}) : Op(AllReduce{bytes});
    const std::string_view name = p.sequence_parallel ? "tp_reduce_scatter" : "tp_all_reduce";
    plan_adapter(planner, c, linear);
    beside(planner, p.overlap_tp, name, op, c.groups.tensor, [&] { plan_linear(planner, linear); });
    if (!p.overlap_tp) planner.collective(name, op, c.groups.tensor);
}

inline void plan_row_backward(BackwardPlanners b, const LayerContext& c, const Linear& linear) {
    const Parallelism& p = c.experiment.parallelism;
    const AllGather gather{exchanged(c, linear.out)};
    if (p.sequence_parallel && !p.overlap_tp) b.inputs.collective("tp_all_gather", gather, c.groups.tensor);
    beside(b.inputs, p.sequence_parallel && p.overlap_tp, "tp_all_gather", gather, c.groups.tensor,
           [&] { plan_input_gradient(b.inputs, linear); });
    plan_weight_gradient(b.weights, linear, c.experiment);
    plan_adapter_backward(b, c, linear);
}

inline void plan_column_backward(BackwardPlanners b, const LayerContext& c, const Linear& linear) {
    const Parallelism& p = c.experiment.parallelism;
    const Bytes bytes = exchanged(c, linear.in);
    const Op op = p.sequence_parallel ? Op(ReduceScatter{bytes}) : Op(AllReduce{bytes});
    const std::string_view name = p.sequence_parallel ? "tp_reduce_scatter" : "tp_all_reduce";
    if (p.sequence_parallel && !p.overlap_weight_gradient)
        b.inputs.collective("tp_all_gather", AllGather{bytes}, c.groups.tensor);
    beside(b.inputs, p.sequence_parallel && p.overlap_weight_gradient, "tp_all_gather", AllGather{bytes},
           c.groups.tensor, [&] { plan_input_gradient(b.inputs, linear); });
    const bool split = &b.inputs != &b.weights;
    if (!p.overlap_weight_gradient || split) b.inputs.collective(name, op, c.groups.tensor);
    beside(b.weights, p.overlap_weight_gradient && !split, name, op, c.groups.tensor,
           [&] { plan_weight_gradient(b.weights, linear, c.experiment); });
    plan_adapter_backward(b, c, linear);
}

}  // namespace stepcast
