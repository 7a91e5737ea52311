#include <algorithm>

#include "exec/cuda/rows.h"

namespace stepcast {

namespace {

// The number of columns that a row of a matrix of scores sees.
__device__ std::int64_t seen(const Scores& shape, std::int64_t row) {
    if (!shape.causal) return shape.columns;
    const std::int64_t count = row % shape.rows + shape.columns - shape.rows + 1;
    return count < 0 ? 0 : (count > shape.columns ? shape.columns : count);
}

// A thread block reads a row in packs, keeps them in registers, and writes them: one read, one
// write. A thread takes at most `packs`.
constexpr int packs = 4;

// Calls `use(p, i)` for every pack i of a row that this thread takes; p counts the thread's own
// packs.
template <typename Use>
__device__ void over_packs(std::int64_t width, Use use) {
#pragma unroll
    for (int p = 0; p < packs; ++p)
        if (const std::int64_t i = threadIdx.x + p * static_cast<std::int64_t>(blockDim.x);
            i < width)
            use(p, i);
}

template <typename T>
__global__ void mask_kernel(T* scores, Scores shape, float scale, float masked) {
    const std::int64_t all = shape.matrices * shape.rows;
    for (std::int64_t row = blockIdx.x; row < all; row += gridDim.x) {
        const std::int64_t visible = seen(shape, row);
        T* values = scores + row * shape.columns;
        if (shape.columns % Pack<T>::size == 0) {
            auto* wide = reinterpret_cast<Pack<T>*>(values);
            for (std::int64_t i = threadIdx.x; i < shape.columns / Pack<T>::size; i += blockDim.x) {
                Pack<T> pack = wide[i];
                for (int j = 0; j < Pack<T>::size; ++j)
                    pack.values[j] = from_float<T>(i * Pack<T>::size + j < visible
                                                       ? to_float(pack.values[j]) * scale
                                                       : masked);
                wide[i] = pack;
            }
            continue;
        }
        for (std::int64_t j = threadIdx.x; j < shape.columns; j += blockDim.x)
            values[j] = from_float<T>(j < visible ? to_float(values[j]) * scale : masked);
    }
}

// For a row of any width. It is read once for each use, the later times from the caches.
template <typename T>
__global__ void softmax_kernel(T* scores, Scores shape) {
    const std::int64_t all = shape.matrices * shape.rows;
    for (std::int64_t row = blockIdx.x; row < all; row += gridDim.x) {
        T* values = scores + row * shape.columns;
        float largest = -INFINITY;
        for (std::int64_t j = threadIdx.x; j < shape.columns; j += blockDim.x)
            largest = fmaxf(largest, to_float(values[j]));
        largest = over_row(largest, Largest{});
        float sum = 0;
        for (std::int64_t j = threadIdx.x; j < shape.columns; j += blockDim.x)
            sum += largest > -INFINITY ? __expf(to_float(values[j]) - largest) : 0.0f;
        sum = over_row(sum, Sum{});
        const float share = sum > 0 ? 1.0f / sum : 0.0f;
        for (std::int64_t j = threadIdx.x; j < shape.columns; j += blockDim.x)
            values[j] =
                from_float<T>(share > 0 ? __expf(to_float(values[j]) - largest) * share : 0.0f);
    }
}

template <typename T>
__global__ void softmax_packed_kernel(T* scores, Scores shape) {
    constexpr int size = Pack<T>::size;
    const std::int64_t all = shape.matrices * shape.rows, width = shape.columns / size;
    for (std::int64_t row = blockIdx.x; row < all; row += gridDim.x) {
        auto* wide = reinterpret_cast<Pack<T>*>(scores + row * shape.columns);
        float held[packs][size];
        float largest = -INFINITY, sum = 0;
        over_packs(width, [&](int p, std::int64_t i) {
            const Pack<T> pack = wide[i];
            for (int j = 0; j < size; ++j)
                largest = fmaxf(largest, held[p][j] = to_float(pack.values[j]));
        });
        largest = over_row(largest, Largest{});
        over_packs(width, [&](int p, std::int64_t) {
            for (int j = 0; j < size; ++j)
                sum += held[p][j] = largest > -INFINITY ? __expf(held[p][j] - largest) : 0.0f;
        });
        sum = over_row(sum, Sum{});
        const float share = sum > 0 ? 1.0f / sum : 0.0f;
        over_packs(width, [&](int p, std::int64_t i) {
            Pack<T> pack;
            for (int j = 0; j < size; ++j) pack.values[j] = from_float<T>(held[p][j] * share);
            wide[i] = pack;
        });
    }
}

template <typename T>
__global__ void softmax_backward_kernel(const T* p, T* gradient, Scores shape) {
    const std::int64_t all = shape.matrices * shape.rows;
    for (std::int64_t row = blockIdx.x; row < all; row += gridDim.x) {
        const T* share = p + row * shape.columns;
        T* values = gradient + row * shape.columns;
        float dot = 0;
        for (std::int64_t j = threadIdx.x; j < shape.columns; j += blockDim.x)
            dot += to_float(share[j]) * to_float(values[j]);
        dot = over_row(dot, Sum{});
        for (std::int64_t j = threadIdx.x; j < shape.columns; j += blockDim.x)
            values[j] = from_float<T>(to_float(share[j]) * (to_float(values[j]) - dot));
    }
}

template <typename T>
__global__ void softmax_backward_packed_kernel(const T* p, T* gradient, Scores shape) {
    constexpr int size = Pack<T>::size;
    const std::int64_t all = shape.matrices * shape.rows, width = shape.columns / size;
    for (std::int64_t row = blockIdx.x; row < all; row += gridDim.x) {
        const auto* share = reinterpret_cast<const Pack<T>*>(p + row * shape.columns);
        auto* wide = reinterpret_cast<Pack<T>*>(gradient + row * shape.columns);
        Pack<T> shares[packs], gradients[packs];
        float dot = 0;
        over_packs(width, [&](int q, std::int64_t i) {
            shares[q] = share[i];
            gradients[q] = wide[i];
            for (int j = 0; j < size; ++j)
                dot += to_float(shares[q].values[j]) * to_float(gradients[q].values[j]);
        });
        dot = over_row(dot, Sum{});
        over_packs(width, [&](int q, std::int64_t i) {
            for (int j = 0; j < size; ++j)
                gradients[q].values[j] = from_float<T>(to_float(shares[q].values[j]) *
                                                       (to_float(gradients[q].values[j]) - dot));
            wide[i] = gradients[q];
        });
    }
}

// The number of threads of a block that takes rows in packs; 0 if a row is not whole packs or does
// not fit into the block's registers.
template <typename T>
int packed_threads(const Scores& shape) {
    const std::int64_t width = shape.columns / Pack<T>::size;
    if (shape.columns % Pack<T>::size != 0 || width > packs * block_size) return 0;
    return static_cast<int>(std::min<std::int64_t>((width + 31) / 32 * 32, block_size));
}

unsigned int blocks_for_rows(const Scores& shape) {
    return static_cast<unsigned int>(std::min<std::int64_t>(shape.matrices * shape.rows, 1 << 20));
}

}  // namespace

cudaError_t mask(void* values, const Scores& shape, float scale, float masked,
                 cudaStream_t stream) {
    return with_type(shape.element, [&](auto* type) {
        mask_kernel<<<blocks_for_rows(shape), block_size, 0, stream>>>(
            static_cast<decltype(type)>(values), shape, scale, masked);
    });
}

cudaError_t softmax_rows(void* scores, const Scores& shape, cudaStream_t stream) {
    return with_type(shape.element, [&](auto* type) {
        auto* values = static_cast<decltype(type)>(scores);
        if (const int threads = packed_threads<std::remove_pointer_t<decltype(type)>>(shape);
            threads > 0)
            softmax_packed_kernel<<<blocks_for_rows(shape), threads, 0, stream>>>(values, shape);
        else
            softmax_kernel<<<blocks_for_rows(shape), block_size, 0, stream>>>(values, shape);
    });
}

cudaError_t softmax_backward(const void* p, void* gradient, const Scores& shape,
                             cudaStream_t stream) {
    return with_type(shape.element, [&](auto* type) {
        using Pointer = decltype(type);
        const auto* shares = static_cast<const std::remove_pointer_t<Pointer>*>(p);
        if (const int threads = packed_threads<std::remove_pointer_t<Pointer>>(shape); threads > 0)
            softmax_backward_packed_kernel<<<blocks_for_rows(shape), threads, 0, stream>>>(
                shares, static_cast<Pointer>(gradient), shape);
        else
            softmax_backward_kernel<<<blocks_for_rows(shape), block_size, 0, stream>>>(
                shares, static_cast<Pointer>(gradient), shape);
    });
}

}  // namespace stepcast
