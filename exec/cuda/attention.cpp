#include <cmath>

#include "exec/cuda/check.h"
#include "exec/cuda/gemm.h"

namespace stepcast {

namespace {

// The products of one attention. P: seq_q x seq_k.
struct Shapes {
    Product scores;              // S = Q K^T
    Product out;                 // O = P V
    Product d_v, d_p, d_q, d_k;  // dV = P^T dO, dP = dO V^T, dQ = dS K, dK = dS^T Q
    Scores matrix;
    float scale;
};

Shapes shapes_of(const Attention& op) {
    const long heads = op.batch * op.heads, values = op.value_dim > 0 ? op.value_dim : op.head_dim;
    const Dtype dtype = op.dtype == Dtype::fp8 ? Dtype::bf16 : op.dtype;
    const auto product = [&](long m, long n, long k, bool a_transposed, bool b_transposed) {
        return Product{m, n, k, heads, dtype, a_transposed, b_transposed, false};
    };
    return {product(op.seq_q, op.seq_k, op.head_dim, false, true),
            product(op.seq_q, values, op.seq_k, false, false),
            product(op.seq_k, values, op.seq_q, true, false),
            product(op.seq_q, op.seq_k, values, false, true),
            product(op.seq_q, op.head_dim, op.seq_k, false, false),
            product(op.seq_k, op.head_dim, op.seq_q, true, false),
            {score_element(op.dtype), heads, op.seq_q, op.seq_k, op.causal},
            1.0f / std::sqrt(static_cast<float>(op.head_dim))};
}

}  // namespace

void prepare_attention(Products& products, const Attention& op) {
    const Shapes shapes = shapes_of(op);
    if (!op.backward) {
        products.prepare(shapes.scores);
        products.prepare(shapes.out);
        return;
    }
    for (const Product& product : {shapes.d_v, shapes.d_p, shapes.d_q, shapes.d_k})
        products.prepare(product);
}

// P = softmax(S), O = P V: dV = P^T dO, dP = dO V^T, dS = P * (dP - rowsum(dP * P)) / sqrt(d), dQ =
// dS K, dK = dS^T Q.
void attend(Products& products, const Attention& op, const CudaOperands& at, void* workspace,
            cudaStream_t stream) {
    const Shapes shapes = shapes_of(op);
    const auto& [q, k, v, softmax, d_out] = at.in;
    const auto multiply = [&](const Product& product, const char* a, const char* b, char* c) {
        products.run(product, a, b, c, workspace, stream);
    };
    char* const scores = at.out[0];
    if (!op.backward) {
        multiply(shapes.scores, q, k, scores);
        check(mask(scores, shapes.matrix, shapes.scale, -INFINITY, stream));
        check(softmax_rows(scores, shapes.matrix, stream));
        multiply(shapes.out, scores, v, at.out[1]);
        return;
    }
    multiply(shapes.d_v, softmax, d_out, at.out[3]);
    multiply(shapes.d_p, d_out, v, scores);
    check(softmax_backward(softmax, scores, shapes.matrix, stream));
    check(mask(scores, shapes.matrix, shapes.scale, 0, stream));
    multiply(shapes.d_q, scores, k, at.out[1]);
    multiply(shapes.d_k, scores, q, at.out[2]);
}

}  // namespace stepcast
