// The passes over memory that training libraries fuse, in plain C++17, because nvcc compiles this
// header. Tensors are row-major, packed and aligned to 16 bytes; sums are in fp32. Each function
// launches on `stream` and returns CUDA's status; a shape that no kernel takes is
// cudaErrorInvalidValue. The `moved` of a shape are the bytes that the kernel reads and writes,
// without what stays in the L2 between its own blocks (weights of a row, partial sums).
#pragma once

#include "exec/cuda/kernels.h"

namespace stepcast {

// bytes
struct Moved {
    double read = 0, written = 0;
    friend constexpr bool operator==(const Moved& a, const Moved& b) {
        return a.read == b.read && a.written == b.written;
    }
};
constexpr double bytes_of(Element element) {
    return element == Element::fp32 ? 4 : element == Element::fp8 ? 1 : 2;
}

// LayerNorm, y = (x - mean) * scale * weight + bias with scale = 1 / sqrt(mean of (x - mean)^2 +
// epsilon), or RMSNorm, which has neither mean nor bias. Not fp8.
struct NormShape {
    Element element = Element::bf16;
    std::int64_t rows = 0;
    int width = 0;
    bool rms = false;
    float epsilon = 1e-5f;
};
struct NormTensors {
    const void *x = nullptr, *weight = nullptr, *bias = nullptr;
    void* y = nullptr;
    float *means = nullptr, *scales = nullptr;  // by row: the forward leaves them to the backward
    const void* d_y = nullptr;
    void *d_x = nullptr, *d_weight = nullptr, *d_bias = nullptr;
    float* partial = nullptr;  // norm_partials(): sums of d_weight and d_bias, by thread block
};
constexpr int widest_norm = 16384;  // what the threads of a block keep in registers
constexpr bool fits(const NormShape& s) {
    return s.element != Element::fp8 && s.width > 0 && s.width <= widest_norm;
}
// floats
std::size_t norm_partials(const NormShape& shape);
constexpr Moved moved(const NormShape& s, bool backward) {
    const double rows = static_cast<double>(s.rows), x = rows * s.width * bytes_of(s.element),
                 kept = rows * (s.rms ? 4 : 8);
    return backward ? Moved{2 * x + kept, x} : Moved{x, x + kept};
}
cudaError_t norm(const NormShape& shape, const NormTensors& at, cudaStream_t stream);
// The gradient of x, and of weight and bias where d_weight is not null.
cudaError_t norm_backward(const NormShape& shape, const NormTensors& at, cudaStream_t stream);

// y = act(gate) * up, both halves of a row of x [rows][2 * width], or y = act(x) for x
// [rows][width]. gelu is its approximation by a hyperbolic tangent; linear leaves a product of both
// halves. Not fp8.
struct ActivationShape {
    enum class Function : std::uint8_t { silu, gelu, linear };
    Element element = Element::bf16;
    std::int64_t rows = 0, width = 0;  // of y
    Function function = Function::silu;
    bool gated = true;
};
constexpr Moved moved(const ActivationShape& s, bool backward) {
    const double y = static_cast<double>(s.rows) * static_cast<double>(s.width) *
                     bytes_of(s.element),
                 x = (s.gated ? 2 : 1) * y;
    return backward ? Moved{x + y, x} : Moved{x, y};
}
cudaError_t activate(const ActivationShape& shape, const void* x, void* y, cudaStream_t stream);
cudaError_t activate_backward(const ActivationShape& shape, const void* x, const void* d_y,
                              void* d_x, cudaStream_t stream);

// Turns pairs (x[j], x[j + width / 2]) of each head by the angle of its token's position and of j,
// whose cosines and sines are tables [length][width / 2] of fp32; backward, by the negative angle.
// x and y: [tokens][heads][width]. The heads from `turned` on (values) are copied. Not fp8.
struct RotaryShape {
    Element element = Element::bf16;
    std::int64_t tokens = 0, length = 0;  // token t has position t % length
    int heads = 0, turned = 0, width = 0;
    bool backward = false;
};
constexpr bool fits(const RotaryShape& s) {
    return s.element != Element::fp8 && s.width > 0 && s.width % 2 == 0 && s.length > 0;
}
constexpr Moved moved(const RotaryShape& s) {
    const double x = static_cast<double>(s.tokens) * s.heads * s.width * bytes_of(s.element);
    return {x, x};
}
cudaError_t rotary(const RotaryShape& shape, const void* x, const float* cosines,
                   const float* sines, void* y, cudaStream_t stream);

// y = residual + x / (1 - p) where kept, residual elsewhere; without a residual 0. Which are kept
// follows from `seed`, `offset` and the element's number alone (philox.h), so that a backward needs
// no mask; libraries that store one byte per element give `mask`. p = 0 is a sum. Not fp8.
struct DropoutShape {
    Element element = Element::bf16;
    std::size_t count = 0;
    float p = 0;
    std::uint64_t seed = 0, offset = 0;
};
struct DropoutTensors {
    const void *x = nullptr, *residual = nullptr;
    void* y = nullptr;
    std::uint8_t* mask = nullptr;  // 1 where kept
};
constexpr Moved moved(const DropoutShape& s, bool residual, bool mask, bool backward) {
    const double n = static_cast<double>(s.count), x = n * bytes_of(s.element);
    const double kept = mask ? n : 0;
    return backward ? Moved{x + kept, x} : Moved{(residual ? 2 : 1) * x, x + kept};
}
cudaError_t dropout(const DropoutShape& shape, const DropoutTensors& at, cudaStream_t stream);
// d_x from d_y, by `mask` or, where that is null, by the numbers of the forward.
cudaError_t dropout_backward(const DropoutShape& shape, const void* d_y, const std::uint8_t* mask,
                             void* d_x, cudaStream_t stream);

// Softmax and cross entropy of rows of logits: loss = log(sum of exp) - logit of the target; a
// negative target has none. Not fp8.
struct LossShape {
    Element element = Element::fp32;
    std::int64_t rows = 0, columns = 0;
    float scale = 1;  // of the gradient: 1 / rows for a mean
};
struct LossTensors {
    const void* logits = nullptr;
    const std::int32_t* targets = nullptr;
    float *losses = nullptr, *log_sums = nullptr;  // by row
    float* probabilities = nullptr;                // [rows][columns]
    void* d_logits = nullptr;                      // may be the logits
};
constexpr double area(const LossShape& s) {
    return static_cast<double>(s.rows) * static_cast<double>(s.columns);
}
// In one read, which leaves losses and log_sums; the backward reads the logits again.
constexpr Moved moved(const LossShape& s, bool backward) {
    const double x = area(s) * bytes_of(s.element), rows = static_cast<double>(s.rows);
    return backward ? Moved{x + 8 * rows, x} : Moved{x + 4 * rows, 8 * rows};
}
cudaError_t cross_entropy(const LossShape& shape, const LossTensors& at, cudaStream_t stream);
cudaError_t cross_entropy_backward(const LossShape& shape, const LossTensors& at,
                                   cudaStream_t stream);
// As libraries do that split the vocabulary over ranks: one read for the maxima, one for the sums,
// one that writes the probabilities in fp32; the backward reads these alone. log_sums hold the
// maxima in between.
constexpr Moved moved_in_steps(const LossShape& s, bool backward) {
    const double x = area(s) * bytes_of(s.element), rows = static_cast<double>(s.rows);
    return backward ? Moved{4 * area(s) + 4 * rows, x}
                    : Moved{3 * x + 12 * rows, 4 * area(s) + 12 * rows};
}
cudaError_t cross_entropy_in_steps(const LossShape& shape, const LossTensors& at,
                                   cudaStream_t stream);
cudaError_t cross_entropy_in_steps_backward(const LossShape& shape, const LossTensors& at,
                                            cudaStream_t stream);

// AdamW (Loshchilov, Hutter 2019, arXiv 1711.05101) over a flat buffer of many tensors. g =
// gradient
// * gradient_scale; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; w -= rate * (m' /
// (sqrt(v') + epsilon) + decay * w), where m' and v' are divided by 1 - beta^step.
struct AdamwShape {
    Element gradient = Element::fp32, copy = Element::bf16;
    std::size_t count = 0;
    bool copies = false;  // writes the new weights once more, in `copy`; not fp8
    float rate = 1e-3f, beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f, decay = 0.1f;
    float gradient_scale = 1;
    int step = 1;
};
// A part of the buffer with its own decay, of at most `adamw_piece` elements: one thread block's.
struct AdamwPiece {
    std::uint64_t begin = 0;
    std::uint32_t count = 0;
    float decay = 0;
};
constexpr std::uint32_t adamw_piece = 1 << 16;
struct AdamwTensors {
    const float *weights = nullptr, *m = nullptr, *v = nullptr;
    const void* gradients = nullptr;
    float *new_weights = nullptr, *new_m = nullptr, *new_v = nullptr;  // may be the old ones
    void* copies = nullptr;
    // on the device; null: the whole buffer is one tensor
    const AdamwPiece* pieces = nullptr;
    std::uint32_t piece_count = 0;
};
constexpr Moved moved(const AdamwShape& s) {
    const double n = static_cast<double>(s.count);
    return {n * (12 + bytes_of(s.gradient)), n * (12 + (s.copies ? bytes_of(s.copy) : 0))};
}
cudaError_t adamw(const AdamwShape& shape, const AdamwTensors& at, cudaStream_t stream);

// fp32 to a 16-bit type or back, and between these.
struct CastShape {
    Element from = Element::fp32, to = Element::bf16;
    std::size_t count = 0;
};
constexpr Moved moved(const CastShape& s) {
    const double n = static_cast<double>(s.count);
    return {n * bytes_of(s.from), n * bytes_of(s.to)};
}
cudaError_t cast(const CastShape& shape, const void* from, void* to, cudaStream_t stream);

// To fp8 (E4M3), y = x * scale, at most 448 either way. `tensor`: by one scale that is given, as
// from earlier steps; the largest absolute value is left for the next one; y is written by columns
// too where a product sums over rows. `block`: by a scale for each `fp8_block` elements of a row
// (the last may be shorter), 448 over their largest; its inverse is written, [rows][blocks].
constexpr int fp8_block = 128;
struct QuantizeShape {
    enum class Scaling : std::uint8_t { tensor, block };
    Element element = Element::bf16;
    std::int64_t rows = 0, columns = 0;
    Scaling scaling = Scaling::tensor;
    bool by_columns = false;  // tensor
};
struct QuantizeTensors {
    const void* x = nullptr;
    void* y = nullptr;
    const float* scale = nullptr;     // tensor
    float* largest = nullptr;         // tensor: the greater of what it held and of |x|
    float* inverse_scales = nullptr;  // block
    void* transposed = nullptr;       // by_columns: [columns][rows]
};
constexpr std::int64_t blocks_of_row(const QuantizeShape& s) {
    return (s.columns + fp8_block - 1) / fp8_block;
}
constexpr Moved moved(const QuantizeShape& s) {
    const double n = static_cast<double>(s.rows) * static_cast<double>(s.columns);
    const double scales = s.scaling == QuantizeShape::Scaling::tensor
                              ? 0
                              : 4 * static_cast<double>(s.rows * blocks_of_row(s));
    return {n * bytes_of(s.element), (s.by_columns ? 2 : 1) * n + scales};
}
cudaError_t quantize(const QuantizeShape& shape, const QuantizeTensors& at, cudaStream_t stream);

}  // namespace stepcast
