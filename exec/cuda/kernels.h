// The kernels that no library has, declared in plain C++17, because nvcc compiles this header and
// no other. Each function launches on `stream` and returns CUDA's status of the launch. Sizes are
// bytes unless named otherwise; buffers are aligned to 16 bytes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace stepcast {

enum class Element : std::uint8_t { fp32, fp16, bf16, fp8 };  // fp8 is E4M3

// Random values, uniform in [-1, 1), the same for the same seed.
cudaError_t fill_random(void* target, Element element, std::size_t count, std::uint64_t seed,
                        cudaStream_t stream);

struct Traffic {
    const void* source;
    std::size_t read;
    void* target;
    std::size_t written;
    void* sink;  // 4 bytes
};
// Reads all of `source` and writes all of `target`: target = source ^ 1, word by word, up to the
// shorter of both. The rest of the source is folded into `sink`, the rest of the target is set.
cudaError_t stream_memory(const Traffic& traffic, cudaStream_t stream);
// The same, but transposes the common part: 1024 x 1024 matrices of 4-byte elements, one after
// another. The rest is streamed.
cudaError_t transpose_memory(const Traffic& traffic, cudaStream_t stream);
// One thread block for each piece of `source` and `target`, as an optimizer launches over a list of
// tensors.
cudaError_t optimizer_memory(const Traffic& traffic, cudaStream_t stream);

// Scores of `matrices` heads, rows x columns each, row-major. Not fp8.
struct Scores {
    Element element = Element::bf16;
    std::int64_t matrices = 0, rows = 0, columns = 0;
    bool causal = false;  // row i sees columns up to i + columns - rows
};
// values = values * scale, `masked` where masked: -infinity for scores, 0 for their gradient.
cudaError_t mask(void* values, const Scores& shape, float scale, float masked, cudaStream_t stream);
// Sets each row to exp(x - max) / sum. A row that sees nothing becomes 0.
cudaError_t softmax_rows(void* scores, const Scores& shape, cudaStream_t stream);
// gradient = p * (gradient - sum over the row of gradient * p).
cudaError_t softmax_backward(const void* p, void* gradient, const Scores& shape,
                             cudaStream_t stream);

// Attention that keeps its scores on chip. Every sequence has `heads` heads of queries, of which
// heads / kv_heads each share keys and values.
struct FusedShape {
    Element element = Element::bf16;
    std::int64_t batch = 0, heads = 0, kv_heads = 0, seq_q = 0, seq_k = 0;
    int width = 0, value_width = 0;
    bool causal = false;  // query i sees keys up to i + seq_k - seq_q
    // the first `windowed` of batch * heads see only `window` keys, with a causal mask the last
    // ones
    std::int64_t window = 0, windowed = 0;
    float scale = 1;
};
// How wide heads may be: what fits a thread block's shared memory.
constexpr int widest_fused(Element element) { return element == Element::fp32 ? 128 : 256; }
constexpr bool fits_fused(const FusedShape& shape) {
    return shape.element != Element::fp8 && shape.width <= widest_fused(shape.element) &&
           shape.value_width <= widest_fused(shape.element) && shape.kv_heads > 0 &&
           shape.heads % shape.kv_heads == 0;
}
// Row-major and packed: q and d_q [batch * heads][seq_q][width], k and d_k [batch *
// kv_heads][seq_k][width], v and d_v the same with value_width, out and d_out [batch *
// heads][seq_q][value_width]; fp32: log_sums, of the softmax's exponentials, and room for dots,
// [batch * heads][seq_q] both.
struct FusedTensors {
    const void *q = nullptr, *k = nullptr, *v = nullptr;
    void* out = nullptr;
    float* log_sums = nullptr;
    const void* d_out = nullptr;
    void *d_q = nullptr, *d_k = nullptr, *d_v = nullptr;
    float* dots = nullptr;
};
// out and log_sums from q, k and v. A row that sees nothing becomes 0.
cudaError_t fused_attention(const FusedShape& shape, const FusedTensors& at, cudaStream_t stream);
// d_q, d_k and d_v from q, k, v, out, log_sums and d_out.
cudaError_t fused_attention_backward(const FusedShape& shape, const FusedTensors& at,
                                     cudaStream_t stream);

}  // namespace stepcast
