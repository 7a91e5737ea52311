#include <cuda_fp8.h>

#include "exec/cuda/rows.h"

namespace stepcast {

namespace {

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

constexpr std::size_t item = sizeof(uint4);
std::size_t items(std::size_t bytes) { return (bytes + item - 1) / item; }

// Traffic in items of 16 bytes.
struct Items {
    const uint4* source;
    std::size_t read;
    uint4* target;
    std::size_t written;
    std::uint32_t* sink;
};
Items items_of(const Traffic& t) {
    return {static_cast<const uint4*>(t.source), items(t.read), static_cast<uint4*>(t.target),
            items(t.written), static_cast<std::uint32_t*>(t.sink)};
}

// Handles items [begin, end), every `step`-th. Four loads are in flight before the first is used.
__device__ std::uint32_t pass(const Items& all, std::size_t begin, std::size_t end,
                              std::size_t step) {
    const auto [source, read, target, written, sink] = all;
    const std::size_t both = min(min(read, written), end);
    std::uint32_t fold = 0;
    std::size_t i = begin;
    for (; i + 3 * step < both; i += 4 * step) {
        const uint4 a = source[i], b = source[i + step], c = source[i + 2 * step],
                    d = source[i + 3 * step];
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

// Keeps the reads alive, because random data hardly ever fold to this value.
__device__ void keep(std::uint32_t fold, std::uint32_t* sink) {
    if (fold == 0x5bd1e995u) *sink = fold;
}

__global__ void stream_kernel(Items all) {
    keep(pass(all, first_item(), max(all.read, all.written), stride()), all.sink);
}

// items: 64 KiB, what a multi-tensor optimizer gives a thread block
constexpr std::size_t piece = 4096;

__global__ void pieces_kernel(Items all) {
    const std::size_t begin = blockIdx.x * piece;
    keep(pass(all, begin + threadIdx.x, begin + piece, blockDim.x), all.sink);
}

constexpr int tile = 32, tile_rows = 8, matrix = 1024;

__global__ void transpose_kernel(const std::uint32_t* source, std::uint32_t* target) {
    __shared__ std::uint32_t shared[tile][tile + 1];
    const std::size_t offset = blockIdx.z * static_cast<std::size_t>(matrix) * matrix;
    for (int row = static_cast<int>(threadIdx.y); row < tile; row += tile_rows)
        shared[row][threadIdx.x] =
            source[offset + (blockIdx.y * tile + row) * matrix + blockIdx.x * tile + threadIdx.x];
    __syncthreads();
    for (int row = static_cast<int>(threadIdx.y); row < tile; row += tile_rows)
        target[offset + (blockIdx.x * tile + row) * matrix + blockIdx.y * tile + threadIdx.x] =
            shared[threadIdx.x][row];
}

}  // namespace

cudaError_t fill_random(void* target, Element element, std::size_t count, std::uint64_t seed,
                        cudaStream_t stream) {
    if (count == 0) return cudaSuccess;
    switch (element) {
        case Element::fp32: return fill<float>(target, count, seed, stream);
        case Element::fp16: return fill<__half>(target, count, seed, stream);
        case Element::bf16: return fill<__nv_bfloat16>(target, count, seed, stream);
        case Element::fp8: return fill<__nv_fp8_e4m3>(target, count, seed, stream);
    }
    return cudaErrorInvalidValue;
}

cudaError_t stream_memory(const Traffic& traffic, cudaStream_t stream) {
    const Items all = items_of(traffic);
    stream_kernel<<<blocks_for(std::max(all.read, all.written) / 4), block_size, 0, stream>>>(all);
    return cudaGetLastError();
}

cudaError_t optimizer_memory(const Traffic& traffic, cudaStream_t stream) {
    const Items all = items_of(traffic);
    const std::size_t pieces = (std::max(all.read, all.written) + piece - 1) / piece;
    pieces_kernel<<<static_cast<unsigned int>(std::max<std::size_t>(pieces, 1)), block_size, 0,
                    stream>>>(all);
    return cudaGetLastError();
}

cudaError_t transpose_memory(const Traffic& traffic, cudaStream_t stream) {
    constexpr std::size_t matrix_bytes = std::size_t{4} * matrix * matrix;
    constexpr std::size_t most = 65535;  // blocks in z
    std::size_t matrices = std::min(traffic.read, traffic.written) / matrix_bytes;
    const auto* from = static_cast<const char*>(traffic.source);
    auto* to = static_cast<char*>(traffic.target);
    for (std::size_t done = 0; done < matrices; done += most) {
        const auto depth = static_cast<unsigned int>(std::min(most, matrices - done));
        transpose_kernel<<<dim3(matrix / tile, matrix / tile, depth), dim3(tile, tile_rows), 0,
                           stream>>>(
            reinterpret_cast<const std::uint32_t*>(from + done * matrix_bytes),
            reinterpret_cast<std::uint32_t*>(to + done * matrix_bytes));
    }
    const std::size_t done = matrices * matrix_bytes;
    if (const cudaError_t code = cudaGetLastError();
        code != cudaSuccess || (matrices > 0 && traffic.read == done && traffic.written == done))
        return code;
    return stream_memory(
        {from + done, traffic.read - done, to + done, traffic.written - done, traffic.sink},
        stream);
}

}  // namespace stepcast
