// Attention through memory: batched products and a softmax, operation by operation, as an eager framework runs it and as
// sim/costs/op_costs.cpp prices it: two products and four passes over the scores forward, four and five backward.
#pragma once

#include "exec/cuda/gemm.h"

namespace stepcast {

void prepare_attention(Products& products, const Attention& op);

// Every sequence and head has Q[seq_q,head_dim], K[seq_k,head_dim], V[seq_k,value_dim] and O[seq_q,value_dim], packed, in
// score_element(dtype); `scores` holds batch * heads * seq_q * seq_k and is left as the softmax.
struct AttentionOperands {
    const void *q, *k, *v;
    void *out, *scores;
};
void attend(Products& products, const Attention& op, const AttentionOperands& operands, void* workspace,
            cudaStream_t stream);

// Gradients for the gradient `d_out` of the result, from the softmax that the forward left; `scores` as above, in use.
struct AttentionGradientOperands {
    const void *q, *k, *v, *softmax, *d_out;
    void *d_q, *d_k, *d_v, *scores;
};
void attend_backward(Products& products, const Attention& op, const AttentionGradientOperands& operands,
                     void* workspace, cudaStream_t stream);

}  // namespace stepcast
