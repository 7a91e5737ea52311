#include "exec/host_ops.h"

#include <cblas.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "exec/footprint.h"
#include "model/base/numbers.h"

namespace stepcast {

namespace {

// C[m,n] = A[m,k] B[k,n]; a transposed operand is stored the other way round.
struct SgemmShape {
    long m, n, k;
    bool transposed_a = false, transposed_b = false;
};

void sgemm(const SgemmShape& s, const float* a, const float* b, float* c) {
    const auto size = [](long x) { return static_cast<blasint>(x); };
    const auto order = [](bool transposed) { return transposed ? CblasTrans : CblasNoTrans; };
    cblas_sgemm(CblasRowMajor, order(s.transposed_a), order(s.transposed_b), size(s.m), size(s.n),
                size(s.k), 1.0f, a, size(s.transposed_a ? s.m : s.k), b,
                size(s.transposed_b ? s.k : s.n), 0.0f, c, size(s.n));
}

// scores = softmax(Q K^T / sqrt(d)) of one head.
void score(const Attention& shape, const float* q, const float* k, float* scores) {
    const float scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
    sgemm({shape.seq_q, shape.seq_k, shape.head_dim, false, true}, q, k, scores);
    for (long i = 0; i < shape.seq_q; ++i) {
        float* row = scores + i * shape.seq_k;
        const long seen = shape.causal
                              ? std::clamp(i + shape.seq_k - shape.seq_q + 1, 0L, shape.seq_k)
                              : shape.seq_k;
        const long first = shape.window > 0 ? std::max(0L, seen - shape.window) : 0;
        float largest = -std::numeric_limits<float>::infinity();
        for (long j = first; j < seen; ++j) largest = std::max(largest, row[j]);
        float sum = 0;
        for (long j = first; j < seen; ++j) sum += row[j] = std::exp(scale * (row[j] - largest));
        for (long j = first; j < seen; ++j) row[j] /= sum;
        std::fill(row, row + first, 0.0f);
        std::fill(row + seen, row + shape.seq_k, 0.0f);
    }
}

}  // namespace

void multiply(const MatrixShape& s, std::span<const float> a, std::span<const float> b,
              std::span<float> c) {
    for (long i = 0; i < s.batch; ++i)
        sgemm({s.m, s.n, s.k}, a.data() + i * s.m * s.k, b.data() + i * s.k * s.n,
              c.data() + i * s.m * s.n);
}

void multiply_groups(const GroupedGemm& op, std::span<const float> a, std::span<const float> b,
                     std::span<float> c) {
    const float* a_group = a.data();
    const float* b_group = b.data();
    float* c_group = c.data();
    for (const long rows : op.rows) {
        if (rows == 0) continue;
        if (op.weight_gradient)
            sgemm({op.k, op.n, rows, true}, a_group, b_group, c_group);
        else
            sgemm({rows, op.n, op.k}, a_group, b_group, c_group);
        a_group += rows * op.k;
        b_group += (op.weight_gradient ? rows : op.k) * op.n;
        c_group += (op.weight_gradient ? op.k : rows) * op.n;
    }
}

void attend(const Attention& shape, const AttentionInputs& in, std::span<float> out,
            std::span<float> scores) {
    const long q_size = shape.seq_q * shape.head_dim;
    const long k_size = shape.seq_k * shape.head_dim;
    for (long h = 0; h < shape.batch * shape.heads; ++h) {
        score(shape, in.q.data() + h * q_size, in.k.data() + h * k_size, scores.data());
        sgemm({shape.seq_q, shape.head_dim, shape.seq_k}, scores.data(), in.v.data() + h * k_size,
              out.data() + h * q_size);
    }
}

// P = softmax(S), O = P V: dV = P^T dO, dP = dO V^T, dS = P * (dP - rowsum(dP * P)) / sqrt(d), dQ =
// dS K, dK = dS^T Q.
void attend_backward(const Attention& shape, const AttentionInputs& in,
                     std::span<const float> d_out, AttentionGradients gradients,
                     std::span<float> scores) {
    const long q_size = shape.seq_q * shape.head_dim;
    const long k_size = shape.seq_k * shape.head_dim;
    const float scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
    float* p = scores.data();
    float* d_p = scores.data() + shape.seq_q * shape.seq_k;
    for (long h = 0; h < shape.batch * shape.heads; ++h) {
        const float* d_o = d_out.data() + h * q_size;
        score(shape, in.q.data() + h * q_size, in.k.data() + h * k_size, p);
        sgemm({shape.seq_k, shape.head_dim, shape.seq_q, true}, p, d_o,
              gradients.v.data() + h * k_size);
        sgemm({shape.seq_q, shape.seq_k, shape.head_dim, false, true}, d_o,
              in.v.data() + h * k_size, d_p);
        for (long i = 0; i < shape.seq_q; ++i) {
            const float* p_row = p + i * shape.seq_k;
            float* d_row = d_p + i * shape.seq_k;
            float dot = 0;
            for (long j = 0; j < shape.seq_k; ++j) dot += p_row[j] * d_row[j];
            for (long j = 0; j < shape.seq_k; ++j) d_row[j] = scale * p_row[j] * (d_row[j] - dot);
        }
        sgemm({shape.seq_q, shape.head_dim, shape.seq_k}, d_p, in.k.data() + h * k_size,
              gradients.q.data() + h * q_size);
        sgemm({shape.seq_k, shape.head_dim, shape.seq_q, true}, d_p, in.q.data() + h * q_size,
              gradients.k.data() + h * k_size);
    }
}

float stream(std::span<const float> source, std::span<float> target) {
    const std::size_t both = std::min(source.size(), target.size());
    for (std::size_t i = 0; i < both; ++i) target[i] = source[i] + 1.0f;
    // Sixteen partial sums, so that the additions keep up with the memory.
    float sums[16] = {};
    std::size_t i = both;
    for (; i + 16 <= source.size(); i += 16)
        for (std::size_t lane = 0; lane < 16; ++lane) sums[lane] += source[i + lane];
    for (; i < source.size(); ++i) sums[0] += source[i];
    std::fill(target.begin() + static_cast<std::ptrdiff_t>(both), target.end(), 1.0f);
    float sum = 0;
    for (const float part : sums) sum += part;
    return sum;
}

float stream_transposed(std::span<const float> source, std::span<float> target) {
    constexpr std::size_t columns = 64;
    const std::size_t rows = std::min(source.size(), target.size()) / columns;
    for (std::size_t column = 0; column < columns; ++column)
        for (std::size_t row = 0; row < rows; ++row)
            target[column * rows + row] = source[row * columns + column] + 1.0f;
    return stream(source.subspan(rows * columns), target.subspan(rows * columns));
}

void call_host(double calls) {
    for (double call = 0; call < calls; ++call) std::atomic_signal_fence(std::memory_order_seq_cst);
}

std::size_t scattered_floats(const TaskGraph& graph) {
    std::size_t most = 0;
    for (const Op& op : graph.ops())
        if (const auto* fused = std::get_if<FusedGemm>(&op);
            fused != nullptr && fused->transfer == FusedGemm::Transfer::scatter)
            most = std::max(most, float_count(fused->remote_bytes_per_block));
    return most;
}

void run_fused(const FusedGemm& op, int rank, int rank_count, const Operands& at,
               const RemoteRows& remote) {
    const bool gathers = op.transfer == FusedGemm::Transfer::gather;
    const std::size_t moved = float_count(op.remote_bytes_per_block);
    const auto a_block = as_index(op.rows_per_block * op.k),
               c_block = as_index(op.rows_per_block * op.n);
    const std::span<float> a = at.in[0], b = at.in[1], c = at.out[0], staged = at.out[1];
    const auto peer_of = [&](long block) {
        return as_int((rank + 1 + (rank_count > 1 ? block % (rank_count - 1) : 0)) % rank_count);
    };
    for (long first = 0; first < op.blocks; first += op.blocks_per_thread_block) {
        const long last = std::min(op.blocks, first + op.blocks_per_thread_block);
        const long remote_end = std::min(last, op.remote_blocks);
        for (long block = first; gathers && block < remote_end; ++block) {
            const std::size_t offset = as_index(block) * moved;
            remote.fetch(peer_of(block), offset, staged.subspan(offset, moved));
        }
        const auto at_block = as_index(first);
        multiply({(last - first) * op.rows_per_block, op.n, op.k}, a.subspan(at_block * a_block), b,
                 c.subspan(at_block * c_block));
        for (long block = first; !gathers && block < remote_end; ++block)
            remote.deliver(peer_of(block),
                           c.subspan(as_index(block) * c_block, std::min(moved, c_block)));
    }
}

}  // namespace stepcast
