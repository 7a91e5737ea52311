// Attention through memory: batched products and a softmax, operation by operation, as an eager framework runs it and as
// sim/costs/op_costs.cpp prices it: two products and four passes over the scores forward, four and five backward.
#pragma once

#include "exec/cuda/gemm.h"

namespace stepcast {

void prepare_attention(Products& products, const Attention& op);

// Every sequence and head has Q[seq_q,head_dim], K[seq_k,head_dim], V[seq_k,value_dim] and O[seq_q,value_dim], packed, in
// score_element(dtype). In: Q, K, V; out: the softmax over batch * heads * seq_q * seq_k scores, and O. Backward, in: Q, K, V, the
// softmax that the forward left and the gradient of O; out: room for scores, and the gradients of Q, K and V.
void attend(Products& products, const Attention& op, const CudaOperands& at, void* workspace, cudaStream_t stream);

}  // namespace stepcast
