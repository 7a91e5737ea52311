#include "exec/cuda/attention.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "exec/cuda/check.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"

namespace stepcast {

namespace {

long values_of(const Attention& op) { return op.value_dim > 0 ? op.value_dim : op.head_dim; }
float scale_of(const Attention& op) { return 1.0f / std::sqrt(static_cast<float>(op.head_dim)); }

// The products of one attention. P: seq_q x seq_k.
struct Shapes {
    Product scores;              // S = Q K^T
    Product out;                 // O = P V
    Product d_v, d_p, d_q, d_k;  // dV = P^T dO, dP = dO V^T, dQ = dS K, dK = dS^T Q
    Scores matrix;
    float scale;
};

Shapes shapes_of(const Attention& op) {
    const long heads = op.batch * op.heads, values = values_of(op);
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
            scale_of(op)};
}

}  // namespace

// Where only a share of the layers have windows, each task stands for the mean of both: that share
// of its heads have one.
FusedShape fused_shape(const Attention& op) {
    FusedShape shape{score_element(op.dtype),
                     op.batch,
                     op.heads,
                     op.kv_heads > 0 ? op.kv_heads : op.heads,
                     op.seq_q,
                     op.seq_k,
                     as_int(op.head_dim),
                     as_int(values_of(op)),
                     op.causal,
                     op.window,
                     0,
                     scale_of(op)};
    if (op.window > 0)
        shape.windowed = std::lround(op.window_share * real(op.batch) * real(op.heads));
    return shape;
}

std::string unfused_because(const Attention& op) {
    const FusedShape shape = fused_shape(op);
    if (!op.flash || fits_fused(shape)) return {};
    if (shape.heads % shape.kv_heads != 0)
        return fmt::format("{} heads of queries cannot share {} of keys", shape.heads,
                           shape.kv_heads);
    return fmt::format("heads of {} elements are wider than the {} that the kernel takes{}",
                       std::max(shape.width, shape.value_width), widest_fused(shape.element),
                       shape.element == Element::fp32 ? " in fp32" : "");
}

bool runs_fused(const Attention& op) { return op.flash && fits_fused(fused_shape(op)); }

void attend_fused(const Attention& op, const CudaOperands& at, cudaStream_t stream) {
    const auto floats = [](char* place) { return reinterpret_cast<float*>(place); };
    const FusedShape shape = fused_shape(op);
    if (!op.backward)
        return check(fused_attention(shape,
                                     {.q = at.in[0],
                                      .k = at.in[1],
                                      .v = at.in[2],
                                      .out = at.out[0],
                                      .log_sums = floats(at.out[1])},
                                     stream));
    check(fused_attention_backward(shape,
                                   {.q = at.in[0],
                                    .k = at.in[1],
                                    .v = at.in[2],
                                    .out = at.in[3],
                                    .log_sums = floats(at.in[5]),
                                    .d_out = at.in[4],
                                    .d_q = at.out[1],
                                    .d_k = at.out[2],
                                    .d_v = at.out[3],
                                    .dots = floats(at.out[0])},
                                   stream));
}

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
    const char *q = at.in[0], *k = at.in[1], *v = at.in[2], *softmax = at.in[3], *d_out = at.in[4];
    const auto multiply = [&](const Product& product, const char* a, const char* b, char* c) {
        products.run(product, {a, b, c, workspace}, stream);
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

namespace {

bool has(const std::vector<Attention>& ops, const Attention& op) { return contains(ops, op); }

}  // namespace

void Attentions::prepare(const Attention& op, cudaStream_t stream) {
    if (!runs_fused(op)) return prepare_attention(products_, op);
    const std::string why = cudnn_.prepare(op, stream);
    if (why.empty()) {
        if (!has(by_cudnn_, op)) by_cudnn_.push_back(op);
        return;
    }
    std::string doubt = fmt::format(
        "flash attention ran by stepcast's own kernel, which uses no tensor cores: right, but many "
        "times slower than the kernels of the forecast (cuDNN: {})",
        why);
    add_once(doubts_, std::move(doubt));
}

void Attentions::run(const Attention& op, const CudaOperands& at, void* workspace,
                     cudaStream_t stream) {
    if (!runs_fused(op)) return attend(products_, op, at, workspace, stream);
    if (has(by_cudnn_, op)) return cudnn_.run(op, at, stream);
    attend_fused(op, at, stream);
}

std::string Attentions::ran(const Attention& op) const {
    if (!runs_fused(op)) return "through memory: products by cuBLASLt, own softmax";
    return has(by_cudnn_, op) ? cudnn_.version() : "own fused kernel, without tensor cores";
}

}  // namespace stepcast
