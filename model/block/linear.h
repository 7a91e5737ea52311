// The products of one linear layer of a rank: y[tokens, out] = x[tokens, in] W[in, out]; dx = dy W^T; dW[out, in] = dy^T x.
#pragma once

#include "model/block/operators.h"
#include "model/transformer/layer.h"

namespace stepcast {

void plan_linear(Planner& planner, const Linear& linear);
void plan_input_gradient(Planner& planner, const Linear& linear);
// The GEMM, and without fused accumulation the pass that adds its result to those of the micro-batches before (zero 3
// accumulates shards, which is little). Nothing where the weights are frozen.
void plan_weight_gradient(Planner& planner, const Linear& linear, const Experiment& experiment);
// Operands of narrow products: read in 16 bits, written twice, by rows and by columns. Nothing for wider ones.
void plan_cast(Planner& planner, double elements, Dtype dtype);

// With `overlapped`, what `work` writes runs during the collective.
template <typename Work>
void overlap(Planner& planner, bool overlapped, std::string_view name, const Op& op, const Group& group, Work work) {
    if (overlapped) planner.fork(name, op, group);
    work();
    if (overlapped) planner.join();
}

}  // namespace stepcast
