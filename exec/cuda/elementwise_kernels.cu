// Passes whose elements need no others of their row: gated activations, rotary positions, dropout,
// casts.
#include "exec/cuda/library_kernels.h"
#include "exec/cuda/philox.h"
#include "exec/cuda/rows.h"

namespace stepcast {

namespace {

// An activation and its derivative at x. A logistic function is 1 / (1 + exp(-z)); gelu's
// 1/2 (1 + tanh u) is that of z = 2 u.
struct Activated {
    float value, slope;
};
__device__ Activated activated(ActivationShape::Function function, float x) {
    if (function == ActivationShape::Function::linear) return {x, 1};
    constexpr float a = 1.5957691216f, b = 0.044715f;  // 2 sqrt(2 / pi)
    const bool silu = function == ActivationShape::Function::silu;
    const float z = silu ? x : a * (x + b * x * x * x), dz = silu ? 1.0f : a * (1 + 3 * b * x * x);
    const float logistic = __fdividef(1.0f, 1.0f + __expf(-z));
    return {x * logistic, logistic + x * logistic * (1 - logistic) * dz};
}

// Divisions by 32 bits take a third of those by 64, so items are counted in 32.
constexpr std::size_t most_items = ~std::uint32_t{0};
__device__ std::size_t whole_rows(std::size_t i, std::uint32_t packs) {
    return static_cast<std::uint32_t>(i) / packs * static_cast<std::size_t>(packs);
}

template <typename T, int size>
__global__ void activation_kernel(Size<size> pack, ActivationShape shape, const T* x, T* y) {
    const auto packs = static_cast<std::uint32_t>(shape.width / size);
    const std::size_t all = shape.rows * packs;
    for (std::size_t i = first_item(); i < all; i += stride()) {
        const std::size_t from = (shape.gated ? i + whole_rows(i, packs) : i) * size;
        auto gate = pack_at(x + from, pack);
        const auto up = shape.gated ? pack_at(x + from + shape.width, pack) : gate;
        for (int j = 0; j < size; ++j)
            gate.values[j] =
                from_float<T>(activated(shape.function, to_float(gate.values[j])).value *
                              (shape.gated ? to_float(up.values[j]) : 1.0f));
        put(y + i * size, gate);
    }
}

template <typename T, int size>
__global__ void activation_backward_kernel(Size<size> pack, ActivationShape shape, const T* x,
                                           const T* d_y, T* d_x) {
    const auto packs = static_cast<std::uint32_t>(shape.width / size);
    const std::size_t all = shape.rows * packs;
    for (std::size_t i = first_item(); i < all; i += stride()) {
        const std::size_t from = (shape.gated ? i + whole_rows(i, packs) : i) * size;
        auto gate = pack_at(x + from, pack), up = gate;
        if (shape.gated) up = pack_at(x + from + shape.width, pack);
        const auto gradient = pack_at(d_y + i * size, pack);
        for (int j = 0; j < size; ++j) {
            const Activated at = activated(shape.function, to_float(gate.values[j]));
            const float d = to_float(gradient.values[j]),
                        by = shape.gated ? to_float(up.values[j]) : 1.0f;
            gate.values[j] = from_float<T>(d * by * at.slope);
            up.values[j] = from_float<T>(d * at.value);
        }
        put(d_x + from, gate);
        if (shape.gated) put(d_x + from + shape.width, up);
    }
}

// Of the heads that are turned, an item is a pack of each half; of the others both lie in a row.
template <typename T, int size>
__global__ void rotary_kernel(Size<size> pack, RotaryShape shape, const T* x, const float* cosines,
                              const float* sines, T* y) {
    constexpr int part = size < 4 ? size : 4;
    const auto half = static_cast<std::uint32_t>(shape.width / 2), packs = half / size,
               heads = static_cast<std::uint32_t>(shape.heads),
               length = static_cast<std::uint32_t>(shape.length);
    const std::size_t all = static_cast<std::size_t>(shape.tokens) * heads * packs;
    const float sign = shape.backward ? -1.0f : 1.0f;
    for (std::size_t i = first_item(); i < all; i += stride()) {
        const auto item = static_cast<std::uint32_t>(i);
        const std::uint32_t head = item / packs, column = (item - head * packs) * size,
                            token = head / heads;
        const std::size_t at = static_cast<std::size_t>(head) * shape.width + column,
                          angle = static_cast<std::size_t>(token % length) * half + column;
        auto first = pack_at(x + at, pack), second = pack_at(x + at + half, pack);
        if (head - token * heads < static_cast<std::uint32_t>(shape.turned)) {
#pragma unroll
            for (int begin = 0; begin < size; begin += part) {
                const auto cosine = pack_at(cosines + angle + begin, Size<part>{}),
                           sine = pack_at(sines + angle + begin, Size<part>{});
                for (int j = 0; j < part; ++j) {
                    const float a = to_float(first.values[begin + j]),
                                b = to_float(second.values[begin + j]), s = sign * sine.values[j];
                    first.values[begin + j] = from_float<T>(a * cosine.values[j] - b * s);
                    second.values[begin + j] = from_float<T>(b * cosine.values[j] + a * s);
                }
            }
        }
        put(y + at, first);
        put(y + at + half, second);
    }
}

// Eight elements share a counter: an item are those eight, in packs.
constexpr unsigned drawn = 8;
template <typename T>
constexpr int drawn_packs = drawn / Pack<T>::size;

template <typename T>
struct Dropped {
    const T *x, *residual;
    T* y;
    std::uint8_t* mask;
    const std::uint8_t* given;  // a mask that is read
};

template <typename T>
__device__ void drop_eight(const DropoutShape& shape, const Dropped<T>& at, std::size_t eight,
                           std::uint32_t threshold, float factor) {
    constexpr int size = Pack<T>::size;
    const std::size_t begin = eight * drawn;
    Pack<std::uint8_t, drawn> mask;
    if (at.given != nullptr) {
        mask = pack_at(at.given + begin, Size<drawn>{});
    } else if (threshold == 0) {
        for (unsigned j = 0; j < drawn; ++j) mask.values[j] = 1;
    } else {
        const PhiloxWords bits = dropout_bits(eight, shape.offset, shape.seed);
        for (unsigned j = 0; j < drawn; ++j) mask.values[j] = is_kept(bits, j, threshold);
    }
#pragma unroll
    for (int p = 0; p < drawn_packs<T>; ++p) {
        auto values = pack_at(at.x + begin + p * size, Size<size>{});
        auto residual = values;
        if (at.residual != nullptr)
            residual = pack_at(at.residual + begin + p * size, Size<size>{});
        for (int j = 0; j < size; ++j) {
            const float kept =
                mask.values[p * size + j] != 0 ? to_float(values.values[j]) * factor : 0.0f;
            values.values[j] = from_float<T>(
                kept + (at.residual == nullptr ? 0.0f : to_float(residual.values[j])));
        }
        put(at.y + begin + p * size, values);
    }
    if (at.mask != nullptr) put(at.mask + begin, mask);
}

template <typename T>
__global__ void dropout_kernel(DropoutShape shape, Dropped<T> at, std::uint32_t threshold,
                               float factor) {
    const std::size_t eights = shape.count / drawn;
    for (std::size_t i = first_item(); i < eights; i += stride())
        drop_eight(shape, at, i, threshold, factor);
    // fewer than eight are left: one thread each
    const std::size_t last = eights * drawn + first_item();
    if (last >= shape.count) return;
    const PhiloxWords bits = dropout_bits(eights, shape.offset, shape.seed);
    const bool keeps = at.given != nullptr
                           ? at.given[last] != 0
                           : is_kept(bits, static_cast<unsigned>(last % drawn), threshold);
    at.y[last] = from_float<T>((keeps ? to_float(at.x[last]) * factor : 0.0f) +
                               (at.residual == nullptr ? 0.0f : to_float(at.residual[last])));
    if (at.mask != nullptr) at.mask[last] = keeps;
}

template <typename T>
void drop(const DropoutShape& shape, const Dropped<T>& at, cudaStream_t stream) {
    const std::uint32_t threshold = dropout_threshold(shape.p);
    const float factor =
        threshold < 65536 ? 65536.0f / static_cast<float>(65536 - threshold) : 0.0f;
    dropout_kernel<<<blocks_for((shape.count + drawn - 1) / drawn), block_size, 0, stream>>>(
        shape, at, threshold, factor);
}

// The wider of both types has whole packs; of the narrower, as many elements are read or written.
template <typename From, typename To>
__global__ void cast_kernel(const From* from, To* to, std::size_t count) {
    constexpr int size = Pack<From>::size < Pack<To>::size ? Pack<From>::size : Pack<To>::size;
    for (std::size_t i = first_item(); i < count / size; i += stride()) {
        const auto values = pack_at(from + i * size, Size<size>{});
        Pack<To, size> result;
        for (int j = 0; j < size; ++j)
            result.values[j] = from_float<To>(to_float(values.values[j]));
        put(to + i * size, result);
    }
    if (const std::size_t last = count / size * size + first_item(); last < count)
        to[last] = from_float<To>(to_float(from[last]));
}

// 137 GB in packs; rows that are no whole packs are counted by the element.
bool few_items(Element element, std::int64_t length, std::int64_t elements) {
    const int pack = 16 / static_cast<int>(bytes_of(element));
    return static_cast<std::size_t>(length % pack == 0 ? elements / pack : elements) <= most_items;
}

// Calls `launch(type, pack, blocks)` for an activation of any values.
template <class Launch>
cudaError_t over_packs(const ActivationShape& shape, const Launch& launch) {
    const std::int64_t values = shape.rows * shape.width;
    if (values == 0) return cudaSuccess;
    if (!few_items(shape.element, shape.width, values)) return cudaErrorInvalidValue;
    return with_type(shape.element, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        with_packs<T>(shape.width, [&](auto pack) {
            launch(type, pack, blocks_for(static_cast<std::size_t>(values / pack.value)));
        });
    });
}

}  // namespace

cudaError_t activate(const ActivationShape& shape, const void* x, void* y, cudaStream_t stream) {
    return over_packs(shape, [&](auto* type, auto pack, unsigned int blocks) {
        using T = std::remove_pointer_t<decltype(type)>;
        activation_kernel<<<blocks, block_size, 0, stream>>>(pack, shape, static_cast<const T*>(x),
                                                             static_cast<T*>(y));
    });
}

cudaError_t activate_backward(const ActivationShape& shape, const void* x, const void* d_y,
                              void* d_x, cudaStream_t stream) {
    return over_packs(shape, [&](auto* type, auto pack, unsigned int blocks) {
        using T = std::remove_pointer_t<decltype(type)>;
        activation_backward_kernel<<<blocks, block_size, 0, stream>>>(
            pack, shape, static_cast<const T*>(x), static_cast<const T*>(d_y),
            static_cast<T*>(d_x));
    });
}

cudaError_t rotary(const RotaryShape& shape, const void* x, const float* cosines,
                   const float* sines, void* y, cudaStream_t stream) {
    if (!fits(shape)) return cudaErrorInvalidValue;
    if (shape.tokens * shape.heads == 0) return cudaSuccess;
    if (!few_items(shape.element, shape.width / 2,
                   shape.tokens * shape.heads * (shape.width / 2)) ||
        static_cast<std::size_t>(shape.length) > most_items)
        return cudaErrorInvalidValue;
    return with_type(shape.element, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        with_packs<T>(shape.width / 2, [&](auto pack) {
            const auto items = static_cast<std::size_t>(shape.tokens * shape.heads *
                                                        (shape.width / 2 / pack.value));
            rotary_kernel<<<blocks_for(items), block_size, 0, stream>>>(
                pack, shape, static_cast<const T*>(x), cosines, sines, static_cast<T*>(y));
        });
    });
}

cudaError_t dropout(const DropoutShape& shape, const DropoutTensors& at, cudaStream_t stream) {
    if (!(shape.p >= 0 && shape.p <= 1)) return cudaErrorInvalidValue;
    if (shape.count == 0) return cudaSuccess;
    return with_type(shape.element, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        drop(shape,
             Dropped<T>{static_cast<const T*>(at.x), static_cast<const T*>(at.residual),
                        static_cast<T*>(at.y), at.mask, nullptr},
             stream);
    });
}

cudaError_t dropout_backward(const DropoutShape& shape, const void* d_y, const std::uint8_t* mask,
                             void* d_x, cudaStream_t stream) {
    if (!(shape.p >= 0 && shape.p <= 1)) return cudaErrorInvalidValue;
    if (shape.count == 0) return cudaSuccess;
    return with_type(shape.element, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        drop(shape,
             Dropped<T>{static_cast<const T*>(d_y), nullptr, static_cast<T*>(d_x), nullptr, mask},
             stream);
    });
}

cudaError_t cast(const CastShape& shape, const void* from, void* to, cudaStream_t stream) {
    if (shape.from == Element::fp8 || shape.to == Element::fp8) return cudaErrorInvalidValue;
    if (shape.count == 0) return cudaSuccess;
    const unsigned int blocks = blocks_for(shape.count / 4);
    return with_type(shape.from, [&](auto* source) {
        using From = std::remove_pointer_t<decltype(source)>;
        with_type(shape.to, [&](auto* target) {
            using To = std::remove_pointer_t<decltype(target)>;
            cast_kernel<<<blocks, block_size, 0, stream>>>(static_cast<const From*>(from),
                                                           static_cast<To*>(to), shape.count);
        });
    });
}

}  // namespace stepcast
