// alltoall operation by operation (runtime.kernels), as Tutel's first releases run it (arXiv
// 2206.03382; its tutel/impls of November 2021). Every expert takes a fixed capacity of top_k
// ceil(T / E) slots from each rank, whatever the routing. Encode fills a buffer with zeros and
// writes the tokens into it, with one kernel for each of the top_k choices. After one all-to-all
// the local experts run as batched products, with separate passes for bias and ReLU. Decode reads
// one choice after the other and sums them. The backward mirrors each step, and for every choice
// computes the gates' gradients by a product of gradient and result.
#pragma once

#include "model/recorded/moe/known_systems.h"
#include "model/recorded/moe/layer.h"
#include "model/recorded/moe/program.h"

namespace stepcast {

// Defined in alltoall_unfused.cpp. Ignores the routing, because slots beyond an expert's capacity
// are dropped.
void add_unfused_alltoall(Program& program, const MoeLayer& layer, Phase phase);

}  // namespace stepcast
