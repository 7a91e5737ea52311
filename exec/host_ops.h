// What each op does on the host, on buffers that the caller owns. Matrices are row-major;
// everything is fp32.
#pragma once

#include <functional>
#include <span>

#include "exec/host_memory.h"
#include "model/graph/op.h"

namespace stepcast {

struct MatrixShape {
    long m, n, k, batch = 1;
};

// `batch` times C[m,n] = A[m,k] B[k,n]; the batches are stored one after another.
void multiply(const MatrixShape& shape, std::span<const float> a, std::span<const float> b,
              std::span<float> c);

// C[rows[g],n] = A[rows[g],k] B_g[k,n], one product for each group; groups without rows have no B.
// A weight gradient is C_g[k,n] = A[rows[g],k]^T B[rows[g],n], where groups without rows have no C.
void multiply_groups(const GroupedGemm& op, std::span<const float> a, std::span<const float> b,
                     std::span<float> c);

struct AttentionInputs {
    std::span<const float> q, k, v;
};

// out[h,seq_q,head_dim] = softmax(Q K^T / sqrt(head_dim)) V for every sequence and head h; with
// `causal`, query i sees the keys up to i + seq_k - seq_q. `scores` holds seq_q * seq_k.
void attend(const Attention& shape, const AttentionInputs& in, std::span<float> out,
            std::span<float> scores);

struct AttentionGradients {
    std::span<float> q, k, v;
};

// Gradients of attend() for the gradient `d_out` of its result. `scores` holds 2 * seq_q * seq_k.
void attend_backward(const Attention& shape, const AttentionInputs& in,
                     std::span<const float> d_out, AttentionGradients gradients,
                     std::span<float> scores);

// Reads all of `source` and writes all of `target`: target[i] = source[i] + 1 up to the shorter of
// both. The rest of the source is summed into the result, the rest of the target is set to 1.
float stream(std::span<const float> source, std::span<float> target);

// The same traffic with the source read as a matrix of rows of 64 floats, column by column.
float stream_transposed(std::span<const float> source, std::span<float> target);

// `calls` empty calls: the work of a host without a framework.
void call_host(double calls);

// A fused kernel on the host: products of blocks of rows, of which some are on other ranks.

// How a rank reaches the memory of others, which threads share and processes do not.
struct RemoteRows {
    // Fills `rows` from rank `peer`'s input, beginning at float `offset` (modulo the size of that
    // input).
    std::function<void(int peer, std::size_t offset, std::span<float> rows)> fetch;
    // Writes `rows` to where rank `peer` keeps what this rank scatters to it. No two ranks write to
    // one place.
    std::function<void(int peer, std::span<const float> rows)> deliver;
};

// Remote blocks come first, with their peers in turn. A gather fetches a block's rows before its
// product, a scatter delivers them after.
void run_fused(const FusedGemm& op, int rank, int rank_count, const Operands& at,
               const RemoteRows& remote);

// Floats that one block scatters to another rank; the largest value of the graph's fused kernels.
std::size_t scattered_floats(const TaskGraph& graph);

}  // namespace stepcast
