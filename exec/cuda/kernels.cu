#include "exec/cuda/kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>

namespace stepcast {

namespace {

constexpr int block_size = 256;

// Enough blocks to fill any GPU several times; kernels stride over the rest.
unsigned int blocks_for(std::size_t items) {
    const std::size_t wanted = (items + block_size - 1) / block_size;
    return static_cast<unsigned int>(std::min<std::size_t>(std::max<std::size_t>(wanted, 1), 132 * 16));
}

__device__ std::size_t first_item() { return blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; }
__device__ std::size_t stride() { return gridDim.x * static_cast<std::size_t>(blockDim.x); }

// SplitMix64 (Steele, Lea, Flood 2014): a counter becomes 64 random bits.
__device__ std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

template <typename T>
__global__ void fill_kernel(T* target, std::size_t count, std::uint64_t seed) {
    for (std::size_t i = first_item(); i < count; i += stride()) {
        const auto bits = static_cast<std::uint32_t>(mix(seed * 0x9e3779b97f4a7c15ULL + i) >> 40);
        target[i] = static_cast<T>(static_cast<float>(bits) * 0x1p-23f - 1.0f);
    }
}

template <typename T>
cudaError_t fill(void* target, std::size_t count, std::uint64_t seed, cudaStream_t stream) {
    fill_kernel<<<blocks_for(count), block_size, 0, stream>>>(static_cast<T*>(target), count, seed);
    return cudaGetLastError();
}

__device__ uint4 changed(uint4 v) { return {v.x ^ 1u, v.y ^ 1u, v.z ^ 1u, v.w ^ 1u}; }
__device__ std::uint32_t folded(uint4 v) { return v.x ^ v.y ^ v.z ^ v.w; }

// Items [begin, end) of 16 bytes; four loads are in flight before the first is used.
__device__ std::uint32_t pass(const uint4* source, std::size_t read, uint4* target, std::size_t written,
                              std::size_t begin, std::size_t end, std::size_t step) {
    const std::size_t both = min(min(read, written), end);
    std::uint32_t fold = 0;
    std::size_t i = begin;
    for (; i + 3 * step < both; i += 4 * step) {
        const uint4 a = source[i], b = source[i + step], c = source[i + 2 * step], d = source[i + 3 * step];
        target[i] = changed(a);
        target[i + step] = changed(b);
        target[i + 2 * step] = changed(c);
        target[i + 3 * step] = changed(d);
    }
    for (; i < both; i += step) target[i] = changed(source[i]);
    const std::size_t last_read = min(read, end), last_written = min(written, end);
    for (std::size_t j = i; j < last_read; j += step) fold ^= folded(source[j]);
    for (std::size_t j = i; j < last_written; j += step) target[j] = uint4{1, 1, 1, 1};
    return fold;
}

// Keeps the reads alive: random data hardly ever fold to this value.
__device__ void keep(std::uint32_t fold, std::uint32_t* sink) {
    if (fold == 0x5bd1e995u) *sink = fold;
}

__global__ void stream_kernel(const uint4* source, std::size_t read, uint4* target, std::size_t written,
                              std::uint32_t* sink) {
    keep(pass(source, read, target, written, first_item(), max(read, written), stride()), sink);
}

constexpr std::size_t piece = 4096;  // items of 16 bytes: 64 KiB, what a multi-tensor optimizer gives a thread block

__global__ void pieces_kernel(const uint4* source, std::size_t read, uint4* target, std::size_t written,
                              std::uint32_t* sink) {
    const std::size_t begin = blockIdx.x * piece;
    keep(pass(source, read, target, written, begin + threadIdx.x, begin + piece, blockDim.x), sink);
}

constexpr int tile = 32, tile_rows = 8, matrix = 1024;

__global__ void transpose_kernel(const std::uint32_t* source, std::uint32_t* target) {
    __shared__ std::uint32_t shared[tile][tile + 1];
    const std::size_t offset = blockIdx.z * static_cast<std::size_t>(matrix) * matrix;
    for (int row = static_cast<int>(threadIdx.y); row < tile; row += tile_rows)
        shared[row][threadIdx.x] = source[offset + (blockIdx.y * tile + row) * matrix + blockIdx.x * tile + threadIdx.x];
    __syncthreads();
    for (int row = static_cast<int>(threadIdx.y); row < tile; row += tile_rows)
        target[offset + (blockIdx.x * tile + row) * matrix + blockIdx.y * tile + threadIdx.x] =
            shared[threadIdx.x][row];
}

__device__ float to_float(float x) { return x; }
__device__ float to_float(__half x) { return __half2float(x); }
__device__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
template <typename T>
__device__ T from_float(float x) {
    return static_cast<T>(x);
}

// The columns that a row of a matrix of scores sees.
__device__ std::int64_t seen(const Scores& shape, std::int64_t row) {
    if (!shape.causal) return shape.columns;
    const std::int64_t count = row % shape.rows + shape.columns - shape.rows + 1;
    return count < 0 ? 0 : (count > shape.columns ? shape.columns : count);
}

template <typename T>
__global__ void mask_kernel(T* scores, Scores shape, float scale, float masked) {
    const std::int64_t all = shape.matrices * shape.rows;
    for (std::int64_t row = blockIdx.x; row < all; row += gridDim.x) {
        const std::int64_t visible = seen(shape, row);
        T* values = scores + row * shape.columns;
        for (std::int64_t j = threadIdx.x; j < shape.columns; j += blockDim.x)
            values[j] = from_float<T>(j < visible ? to_float(values[j]) * scale : masked);
    }
}

struct Sum {
    __device__ float operator()(float a, float b) const { return a + b; }
};
struct Largest {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Every thread of the block gets the combination of all their values.
template <typename Combine>
__device__ float over_block(float value, Combine combine) {
    __shared__ float parts[block_size / 32];
    for (int distance = 16; distance > 0; distance /= 2)
        value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[0];
    for (int warp = 1; warp < block_size / 32; ++warp) value = combine(value, parts[warp]);
    __syncthreads();
    return value;
}

// One block a row at a time. The row is read once for each of its three uses; the later reads come from the caches.
template <typename T>
__global__ void softmax_kernel(T* scores, Scores shape) {
    const std::int64_t all = shape.matrices * shape.rows;
    for (std::int64_t row = blockIdx.x; row < all; row += gridDim.x) {
        T* values = scores + row * shape.columns;
        float largest = -INFINITY;
        for (std::int64_t j = threadIdx.x; j < shape.columns; j += blockDim.x)
            largest = fmaxf(largest, to_float(values[j]));
        largest = over_block(largest, Largest{});
        float sum = 0;
        for (std::int64_t j = threadIdx.x; j < shape.columns; j += blockDim.x)
            sum += largest > -INFINITY ? __expf(to_float(values[j]) - largest) : 0.0f;
        sum = over_block(sum, Sum{});
        const float share = sum > 0 ? 1.0f / sum : 0.0f;
        for (std::int64_t j = threadIdx.x; j < shape.columns; j += blockDim.x)
            values[j] = from_float<T>(share > 0 ? __expf(to_float(values[j]) - largest) * share : 0.0f);
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
        dot = over_block(dot, Sum{});
        for (std::int64_t j = threadIdx.x; j < shape.columns; j += blockDim.x)
            values[j] = from_float<T>(to_float(share[j]) * (to_float(values[j]) - dot));
    }
}

unsigned int blocks_for_rows(const Scores& shape) {
    return static_cast<unsigned int>(std::min<std::int64_t>(shape.matrices * shape.rows, 1 << 20));
}

// Calls `run` with a null pointer to the element's type.
template <typename Run>
cudaError_t with_type(Element element, Run run) {
    switch (element) {
        case Element::fp32: run(static_cast<float*>(nullptr)); break;
        case Element::fp16: run(static_cast<__half*>(nullptr)); break;
        case Element::bf16: run(static_cast<__nv_bfloat16*>(nullptr)); break;
        case Element::fp8: return cudaErrorInvalidValue;
    }
    return cudaGetLastError();
}

constexpr std::size_t item = sizeof(uint4);
std::size_t items(std::size_t bytes) { return (bytes + item - 1) / item; }

}  // namespace

cudaError_t fill_random(void* target, Element element, std::size_t count, std::uint64_t seed, cudaStream_t stream) {
    if (count == 0) return cudaSuccess;
    switch (element) {
        case Element::fp32: return fill<float>(target, count, seed, stream);
        case Element::fp16: return fill<__half>(target, count, seed, stream);
        case Element::bf16: return fill<__nv_bfloat16>(target, count, seed, stream);
        case Element::fp8: return fill<__nv_fp8_e4m3>(target, count, seed, stream);
    }
    return cudaErrorInvalidValue;
}

cudaError_t stream_memory(const void* source, std::size_t read, void* target, std::size_t written, void* sink,
                          cudaStream_t stream) {
    stream_kernel<<<blocks_for(items(std::max(read, written)) / 4), block_size, 0, stream>>>(
        static_cast<const uint4*>(source), items(read), static_cast<uint4*>(target), items(written),
        static_cast<std::uint32_t*>(sink));
    return cudaGetLastError();
}

cudaError_t optimizer_memory(const void* source, std::size_t read, void* target, std::size_t written, void* sink,
                             cudaStream_t stream) {
    const std::size_t pieces = (items(std::max(read, written)) + piece - 1) / piece;
    pieces_kernel<<<static_cast<unsigned int>(std::max<std::size_t>(pieces, 1)), block_size, 0, stream>>>(
        static_cast<const uint4*>(source), items(read), static_cast<uint4*>(target), items(written),
        static_cast<std::uint32_t*>(sink));
    return cudaGetLastError();
}

cudaError_t transpose_memory(const void* source, std::size_t read, void* target, std::size_t written, void* sink,
                             cudaStream_t stream) {
    constexpr std::size_t matrix_bytes = std::size_t{4} * matrix * matrix;
    constexpr std::size_t most = 65535;  // blocks in z
    std::size_t matrices = std::min(read, written) / matrix_bytes;
    const auto* from = static_cast<const char*>(source);
    auto* to = static_cast<char*>(target);
    for (std::size_t done = 0; done < matrices; done += most) {
        const auto depth = static_cast<unsigned int>(std::min(most, matrices - done));
        transpose_kernel<<<dim3(matrix / tile, matrix / tile, depth), dim3(tile, tile_rows), 0, stream>>>(
            reinterpret_cast<const std::uint32_t*>(from + done * matrix_bytes),
            reinterpret_cast<std::uint32_t*>(to + done * matrix_bytes));
    }
    const std::size_t done = matrices * matrix_bytes;
    if (const cudaError_t code = cudaGetLastError(); code != cudaSuccess || (matrices > 0 && read == done && written == done))
        return code;
    return stream_memory(from + done, read - done, to + done, written - done, sink, stream);
}

cudaError_t mask_scores(void* scores, const Scores& shape, float scale, cudaStream_t stream) {
    return with_type(shape.element, [&](auto* type) {
        mask_kernel<<<blocks_for_rows(shape), block_size, 0, stream>>>(static_cast<decltype(type)>(scores), shape,
                                                                       scale, -INFINITY);
    });
}

cudaError_t softmax_rows(void* scores, const Scores& shape, cudaStream_t stream) {
    return with_type(shape.element, [&](auto* type) {
        softmax_kernel<<<blocks_for_rows(shape), block_size, 0, stream>>>(static_cast<decltype(type)>(scores), shape);
    });
}

cudaError_t softmax_backward(const void* p, void* gradient, const Scores& shape, cudaStream_t stream) {
    return with_type(shape.element, [&](auto* type) {
        using Pointer = decltype(type);
        softmax_backward_kernel<<<blocks_for_rows(shape), block_size, 0, stream>>>(
            static_cast<const std::remove_pointer_t<Pointer>*>(p), static_cast<Pointer>(gradient), shape);
    });
}

cudaError_t mask_gradient(void* gradient, const Scores& shape, float scale, cudaStream_t stream) {
    return with_type(shape.element, [&](auto* type) {
        mask_kernel<<<blocks_for_rows(shape), block_size, 0, stream>>>(static_cast<decltype(type)>(gradient), shape,
                                                                       scale, 0.0f);
    });
}

}  // namespace stepcast
