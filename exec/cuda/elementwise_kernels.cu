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

// Eight elements share a counter: an item are those eight, in packs. A thread has two of them,
// whose loads are on their way together, and a block those of all its threads.
constexpr unsigned drawn = 8;
constexpr int own_items = 2;
template <typename T>
constexpr int drawn_packs = drawn / Pack<T>::size;

template <typename T>
struct Dropped {
    const T *x, *residual;
    T* y;
    std::uint8_t* mask;
    const std::uint8_t* given;  // a mask that is read
};
struct Draws {
    std::size_t count;
    std::uint64_t offset;
    std::uint32_t threshold;
    float factor;
    PhiloxKeys keys;
};

// What a kernel is compiled for: how it knows what is kept, and what else it reads or writes.
namespace keep {
constexpr int all = 0, drawn = 1, given = 2;
}
template <int by, bool adds, bool masks>
struct Dropping {};

template <typename T>
using Eight = Pack<T, Pack<T>::size>[drawn_packs<T>];
template <typename T>
__device__ void read_eight(Eight<T>& packs, const T* from) {
#pragma unroll
    for (int p = 0; p < drawn_packs<T>; ++p)
        packs[p] = pack_at(from + p * Pack<T>::size, Size<Pack<T>::size>{});
}

using Mask = Pack<std::uint8_t, drawn>;

template <int by, bool adds, bool masks, typename T>
__device__ void drop_eight(Dropping<by, adds, masks>, const Draws& draws, const Dropped<T>& at,
                           std::size_t eight, const Eight<T>& x, const Eight<T>& residual,
                           const Mask& given) {
    constexpr int size = Pack<T>::size;
    PhiloxWords bits{};
    if (by == keep::drawn) bits = dropout_bits(eight, draws.offset, draws.keys);
    const auto keeps = [&](int j) {
        if (by == keep::given) return given.values[j] != 0;
        return by == keep::all || is_kept(bits, static_cast<unsigned>(j), draws.threshold);
    };
#pragma unroll
    for (int p = 0; p < drawn_packs<T>; ++p) {
        auto values = to_floats(x[p]);
        Pack<float, size> sum{};
        if (adds) sum = to_floats(residual[p]);
        for (int j = 0; j < size; ++j)
            values.values[j] =
                sum.values[j] + (keeps(p * size + j) ? values.values[j] * draws.factor : 0.0f);
        put(at.y + eight * drawn + p * size, from_floats<T>(values));
    }
    if constexpr (masks) {
        Mask mask;
        for (int j = 0; j < static_cast<int>(drawn); ++j) mask.values[j] = keeps(j);
        put(at.mask + eight * drawn, mask);
    }
}

// Fewer than eight are left: one thread each.
template <int by, typename T>
__device__ void drop_last(const Draws& draws, const Dropped<T>& at) {
    const std::size_t eights = draws.count / drawn, last = eights * drawn + first_item();
    if (last >= draws.count) return;
    const PhiloxWords bits = dropout_bits(eights, draws.offset, draws.keys);
    const bool keeps = by == keep::given
                           ? at.given[last] != 0
                           : is_kept(bits, static_cast<unsigned>(last % drawn), draws.threshold);
    at.y[last] = from_float<T>((keeps ? to_float(at.x[last]) * draws.factor : 0.0f) +
                               (at.residual == nullptr ? 0.0f : to_float(at.residual[last])));
    if (at.mask != nullptr) at.mask[last] = keeps;
}

template <int by, bool adds, bool masks, typename T>
__global__ void __launch_bounds__(block_size)
    dropout_kernel(Dropping<by, adds, masks> dropping, Draws draws, Dropped<T> at) {
    const std::size_t eights = draws.count / drawn,
                      first = blockIdx.x * std::size_t{block_size * own_items} + threadIdx.x;
    Eight<T> x[own_items], residual[own_items];
    Mask given[own_items];
#pragma unroll
    for (int k = 0; k < own_items; ++k) {
        const std::size_t eight = first + k * block_size;
        if (eight >= eights) continue;
        read_eight(x[k], at.x + eight * drawn);
        if (adds) read_eight(residual[k], at.residual + eight * drawn);
        if (by == keep::given) given[k] = pack_at(at.given + eight * drawn, Size<drawn>{});
    }
#pragma unroll
    for (int k = 0; k < own_items; ++k)
        if (const std::size_t eight = first + k * block_size; eight < eights)
            drop_eight(dropping, draws, at, eight, x[k], residual[k], given[k]);
    drop_last<by>(draws, at);
}

// Calls `launch` with the kernel's variant.
template <typename T, typename Launch>
void with_dropping(const Dropped<T>& at, std::uint32_t threshold, const Launch& launch) {
    if (at.given != nullptr) return launch(Dropping<keep::given, false, false>{});
    const auto masked = [&](auto adds) {
        constexpr bool sum = decltype(adds)::value;
        if (at.mask != nullptr) return launch(Dropping<keep::drawn, sum, true>{});
        if (threshold == 0) return launch(Dropping<keep::all, sum, false>{});
        launch(Dropping<keep::drawn, sum, false>{});
    };
    if (at.residual != nullptr)
        masked(std::true_type{});
    else
        masked(std::false_type{});
}

template <typename T>
void drop(const DropoutShape& shape, const Dropped<T>& at, cudaStream_t stream) {
    const std::uint32_t threshold = dropout_threshold(shape.p);
    const float factor =
        threshold < 65536 ? 65536.0f / static_cast<float>(65536 - threshold) : 0.0f;
    const Draws draws{shape.count, shape.offset, threshold, factor, philox_keys(shape.seed)};
    constexpr std::size_t of_block = drawn * own_items * block_size;
    const auto blocks = static_cast<unsigned int>((shape.count + of_block - 1) / of_block);
    with_dropping(at, threshold, [&](auto dropping) {
        dropout_kernel<<<blocks, block_size, 0, stream>>>(dropping, draws, at);
    });
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
