// How kernels share a tensor out: in packs of sixteen bytes; elements over all threads of a grid,
// rows over the threads of a warp or of a block.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "exec/cuda/element_types.h"

namespace stepcast {

constexpr int block_size = 256;

// Enough blocks to fill any GPU several times; kernels stride over the rest.
inline unsigned int blocks_for(std::size_t items) {
    const std::size_t wanted = (items + block_size - 1) / block_size;
    return static_cast<unsigned int>(
        std::min<std::size_t>(std::max<std::size_t>(wanted, 1), 132 * 16));
}
__device__ inline std::size_t first_item() {
    return blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
}
__device__ inline std::size_t stride() { return gridDim.x * static_cast<std::size_t>(blockDim.x); }

// Elements that are read and written at once.
template <typename T, int count = 16 / static_cast<int>(sizeof(T))>
struct alignas(sizeof(T) * count) Pack {
    static constexpr int size = count;
    T values[count];
};

// The elements of a pack that a kernel is compiled for: whole packs, or 1 where rows are not.
template <int size>
using Size = std::integral_constant<int, size>;

template <typename T, int size>
__device__ const Pack<T, size>& pack_at(const T* values, Size<size>) {
    return *reinterpret_cast<const Pack<T, size>*>(values);
}
template <typename T, int size>
__device__ void put(T* values, const Pack<T, size>& pack) {
    *reinterpret_cast<Pack<T, size>*>(values) = pack;
}

// Calls `run` with the packs that divide all of `lengths`, where both are aligned.
template <typename T, typename Run>
void with_packs(std::int64_t length, Run run) {
    constexpr int whole = Pack<T>::size;
    if (length % whole == 0)
        run(Size<whole>{});
    else
        run(Size<1>{});
}

struct Sum {
    __device__ float operator()(float a, float b) const { return a + b; }
};
struct Largest {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Every thread of a row gets the combination of the values of all. The threads of a row have one
// threadIdx.y: they are a warp, or the whole block.
template <typename Combine>
__device__ float over_row(float value, Combine combine) {
    constexpr int warp = 32, most_warps = 32;
    __shared__ float parts[most_warps];
    for (int distance = warp / 2; distance > 0; distance /= 2)
        value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
    const int warps = static_cast<int>(blockDim.x) / warp;
    if (warps == 1) return value;
    if (threadIdx.x % warp == 0) parts[threadIdx.x / warp] = value;
    __syncthreads();
    value = parts[0];
    for (int other = 1; other < warps; ++other) value = combine(value, parts[other]);
    __syncthreads();
    return value;
}

// Calls `use` with the places of all packs of a row that this thread takes, and how many elements
// each has: single ones up to the first sixteen bytes and after the last, where rows begin
// anywhere.
template <typename T, typename Use>
__device__ void over_any_row(const T* row, std::int64_t columns, Use use) {
    constexpr int whole = Pack<T>::size;
    const auto behind = reinterpret_cast<std::uintptr_t>(row) % 16 / sizeof(T);
    std::int64_t head = behind == 0 ? 0 : whole - static_cast<std::int64_t>(behind);
    if (head > columns) head = columns;
    const std::int64_t packs = (columns - head) / whole, tail = head + packs * whole;
    for (std::int64_t i = threadIdx.x; i < head; i += blockDim.x) use(i, Size<1>{});
    for (std::int64_t i = threadIdx.x; i < packs; i += blockDim.x)
        use(head + i * whole, Size<whole>{});
    for (std::int64_t i = tail + threadIdx.x; i < columns; i += blockDim.x) use(i, Size<1>{});
}

}  // namespace stepcast
