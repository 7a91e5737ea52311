// How kernels share a tensor out: in packs of sixteen bytes; elements over all threads of a grid,
// rows over the threads of a warp or of a block.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
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

#ifdef __CUDACC__  // tests compile kernels for the host too, with functions of their own for these
// The shared memory that a launch gives.
__device__ inline char* dynamic_shared() {
    extern __shared__ uint4 words[];
    return reinterpret_cast<char*>(words);
}
// Sixteen bytes make their way to shared memory while the thread goes on;
// wait_for_fetches() waits for all that this thread has sent on it.
__device__ inline void fetch_ahead(void* shared, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(shared))),
                 "l"(__cvta_generic_to_global(from))
                 : "memory");
}
__device__ inline void wait_for_fetches() { asm volatile("cp.async.wait_all;" ::: "memory"); }
template <typename Words>
__device__ Words load_words(const void* from) {
    return *static_cast<const Words*>(from);
}
// In assembly, because compilers take packs apart and then write single elements.
__device__ inline void store_words(void* to, const uint4& words) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
                 "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w)
                 : "memory");
}
__device__ inline void store_words(void* to, const uint2& words) {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)),
                 "r"(words.x), "r"(words.y)
                 : "memory");
}
// Keeps the compiler from keeping what it has made of a pack, in place of the pack: registers.
template <typename Pack>
__device__ void make_again(Pack& pack) {
    auto* const words = reinterpret_cast<unsigned*>(&pack);
    if constexpr (sizeof(Pack) == 16)
        asm volatile("" : "+r"(words[0]), "+r"(words[1]), "+r"(words[2]), "+r"(words[3]));
}
// 2^x; to zero where the result would be denormal.
__device__ inline float power_of_two(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
#endif

// Elements that are read and written at once.
template <typename T, int count = 16 / static_cast<int>(sizeof(T))>
struct alignas(sizeof(T) * count) Pack {
    static constexpr int size = count;
    T values[count];
};

// The elements of a pack that a kernel is compiled for: whole packs, or 1 where rows are not.
template <int size>
using Size = std::integral_constant<int, size>;

// Sixteen or eight bytes are read and written as words.
template <typename Pack>
using Words = std::conditional_t<sizeof(Pack) == 16, uint4,
                                 std::conditional_t<sizeof(Pack) == 8, uint2, void>>;

template <typename T, int size>
__device__ Pack<T, size> pack_at(const T* values, Size<size>) {
    if constexpr (std::is_void_v<Words<Pack<T, size>>>) {
        return *reinterpret_cast<const Pack<T, size>*>(values);
    } else {
        const auto words = load_words<Words<Pack<T, size>>>(values);
        Pack<T, size> pack;
        memcpy(&pack, &words, sizeof pack);
        return pack;
    }
}
template <typename T, int size>
__device__ void put(T* values, const Pack<T, size>& pack) {
    if constexpr (std::is_void_v<Words<Pack<T, size>>>) {
        *reinterpret_cast<Pack<T, size>*>(values) = pack;
    } else {
        Words<Pack<T, size>> words;
        memcpy(&words, &pack, sizeof pack);
        store_words(values, words);
    }
}

// All elements of a pack: of 16 bits, two are converted at once.
template <typename T, int size>
__device__ Pack<float, size> to_floats(const Pack<T, size>& pack) {
    Pack<float, size> all;
    if constexpr (std::is_same_v<T, __nv_bfloat16> && size > 1) {  // the upper half of an fp32
        std::uint32_t words[size / 2];
        memcpy(words, &pack, sizeof words);
        for (int j = 0; j < size; ++j)
            all.values[j] =
                __uint_as_float(j % 2 == 0 ? words[j / 2] << 16 : words[j / 2] & 0xffff0000u);
    } else {
        for (int j = 0; j < size; ++j) all.values[j] = to_float(pack.values[j]);
    }
    return all;
}
__device__ inline __nv_bfloat162 pair_of(__nv_bfloat16, float a, float b) {
    return __floats2bfloat162_rn(a, b);
}
__device__ inline __half2 pair_of(__half, float a, float b) { return __floats2half2_rn(a, b); }
template <typename T, int size>
__device__ Pack<T, size> from_floats(const Pack<float, size>& all) {
    Pack<T, size> pack;
    if constexpr (sizeof(T) == 2 && size > 1) {
        for (int j = 0; j < size; j += 2) {
            const auto pair = pair_of(T{}, all.values[j], all.values[j + 1]);
            memcpy(pack.values + j, &pair, sizeof pair);
        }
    } else {
        for (int j = 0; j < size; ++j) pack.values[j] = from_float<T>(all.values[j]);
    }
    return pack;
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

// Goes over what this thread takes of a row that begins anywhere: calls use(i, size, fetch(i,
// size)) for packs of `whole` elements from the first line of 128 bytes on, and for the single
// elements before and behind them, at most one a thread of a block of 128 or more. What four packs
// and the single one need is fetched before it is used.
template <int whole, typename T, typename Fetch, typename Use>
__device__ void over_any_row(const T* row, std::int64_t columns, Fetch fetch, Use use) {
    constexpr int line = 128 / static_cast<int>(sizeof(T)), at_once = 4;
    const auto behind = static_cast<int>(reinterpret_cast<std::uintptr_t>(row) % 128 / sizeof(T));
    std::int64_t head = behind == 0 ? 0 : line - behind;
    if (head > columns) head = columns;
    const auto packs = static_cast<std::uint32_t>((columns - head) / whole);
    const std::int64_t tail = head + std::int64_t{packs} * whole,
                       single = threadIdx.x < head ? threadIdx.x : tail - head + threadIdx.x;
    constexpr Size<1> one{};
    constexpr Size<whole> pack{};
    decltype(fetch(single, one)) held;
    if (single < columns) held = fetch(single, one);
    for (std::uint32_t first = threadIdx.x; first < packs; first += at_once * blockDim.x) {
        decltype(fetch(head, pack)) fetched[at_once];
#pragma unroll
        for (int k = 0; k < at_once; ++k)
            if (const std::uint32_t i = first + k * blockDim.x; i < packs)
                fetched[k] = fetch(head + std::int64_t{i} * whole, pack);
#pragma unroll
        for (int k = 0; k < at_once; ++k)
            if (const std::uint32_t i = first + k * blockDim.x; i < packs)
                use(head + std::int64_t{i} * whole, pack, fetched[k]);
    }
    if (single < columns) use(single, one, held);
}

}  // namespace stepcast
