// Attention on a GPU. Where the graph asks for one kernel, one that keeps the scores on chip:
// cuDNN's where it is and serves the shape, else the own one (kernels.h). Else, and where the own
// kernel cannot run the shape, through memory.
#pragma once

#include <string>

#include "exec/cuda/cuda_memory.h"
#include "exec/cuda/cudnn_attention.h"
#include "exec/cuda/gemm.h"
#include "model/graph/op.h"

namespace stepcast {

FusedShape fused_shape(const Attention& op);
// Why one kernel cannot run it, though the graph asks for it; empty if one can. Asks no GPU.
std::string unfused_because(const Attention& op);
bool runs_fused(const Attention& op);  // the graph asks for one kernel, and one can

// In: Q, K, V; out: O and the logarithms of the softmax's sums. Backward, in: Q, K, V, O, the
// gradient of O, and those logarithms; out: room for sums over rows, and the gradients of Q, K, V.
void attend_fused(const Attention& op, const CudaOperands& at, cudaStream_t stream);

// Through memory: batched products and a softmax, operation by operation, as an eager framework
// runs it and as sim/costs/op_costs.cpp prices it: two products and four passes over the scores
// forward, four and five backward. Over all keys, and with keys and values for every head.
void prepare_attention(Products& products, const Attention& op);
// Every sequence and head has Q[seq_q,head_dim], K[seq_k,head_dim], V[seq_k,value_dim] and
// O[seq_q,value_dim], packed, in score_element(dtype). In: Q, K, V; out: the softmax over batch *
// heads * seq_q * seq_k scores, and O. Backward, in: Q, K, V, the softmax that the forward left and
// the gradient of O; out: room for scores, and the gradients of Q, K and V.
void attend(Products& products, const Attention& op, const CudaOperands& at, void* workspace,
            cudaStream_t stream);

// The attentions of a graph on one GPU.
class Attentions {
public:
    explicit Attentions(Products& products) : products_(products) {}

    // Decides what will run `op` on `stream`, and has plans made.
    void prepare(const Attention& op, cudaStream_t stream);
    void run(const Attention& op, const CudaOperands& at, void* workspace, cudaStream_t stream);
    [[nodiscard]] std::string ran(const Attention& op) const;  // what runs it, in words
    // What a reader of times must know: the own kernel ran, and why.
    [[nodiscard]] const std::vector<std::string>& doubts() const { return doubts_; }

private:
    Products& products_;
    CudnnAttention cudnn_;
    std::vector<Attention> by_cudnn_;
    std::vector<std::string> doubts_;
};

}  // namespace stepcast
