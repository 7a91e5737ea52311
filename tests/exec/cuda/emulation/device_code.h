// What our kernels' own text needs to be compiled for the host. A launch
// "kernel<<<...>>>(arguments)" is rewritten to EMULATED_LAUNCH(kernel)(arguments) before
// (rewrite_launches.cmake); it is never called, it makes the kernel known under its name and the
// types of its arguments.
#pragma once

#include <cuda_runtime_api.h>
#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __launch_bounds__
#define __launch_bounds__(...)
#define __global__
#define __device__
#define __host__

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "tests/exec/cuda/emulation/fibers.h"

#define __shared__ static thread_local
#define threadIdx (::emulation::position().thread)
#define blockIdx (::emulation::position().block)
#define blockDim (::emulation::position().block_size)
#define gridDim (::emulation::position().grid_size)

inline void __syncthreads() { emulation::wait_for_block(); }
inline float __shfl_xor_sync(unsigned mask, float value, int distance) {
    (void)mask;
    const auto lane = (threadIdx.x + blockDim.x * threadIdx.y) % 32;
    return std::bit_cast<float>(emulation::exchange_in_warp(
        std::bit_cast<std::uint32_t>(value), lane ^ static_cast<unsigned>(distance)));
}
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline int atomicMax(int* place, int value) {  // streams are threads
    std::atomic_ref<int> at(*place);
    int held = at;
    while (held < value && !at.compare_exchange_weak(held, value)) {
    }
    return held;
}
namespace stepcast {  // rows.h: what is written for GPUs alone
inline char* dynamic_shared() {
    alignas(16) static thread_local char bytes[emulation::most_shared];
    return bytes;
}
inline void fetch_ahead(void* shared, const void* from) { std::memcpy(shared, from, 16); }
inline void wait_for_fetches() {}
template <typename Words>
Words load_words(const void* from) {
    Words words;
    std::memcpy(&words, from, sizeof words);
    return words;
}
template <typename Words>
void store_words(void* to, const Words& words) {
    std::memcpy(to, &words, sizeof words);
}
template <typename Pack>
void make_again(Pack&) {}
inline float power_of_two(float x) { return std::exp2(x); }
}  // namespace stepcast
inline std::size_t min(std::size_t a, std::size_t b) { return a < b ? a : b; }
inline std::size_t max(std::size_t a, std::size_t b) { return a > b ? a : b; }

namespace emulation {

// `arguments` as a launch passes them: pointers to the values.
using RunKernel = void(dim3 grid, dim3 block, void** arguments);
// `types`: the type of a function pointer that takes the kernel's arguments.
struct KnownKernel {
    KnownKernel(const char* name, const std::type_info& types, std::vector<std::size_t> sizes,
                RunKernel* run);
};

template <std::size_t size>
struct Name {
    char text[size];
    constexpr Name(const char (&from)[size]) { std::copy_n(from, size, text); }
};

template <Name name, typename Call, typename... Arguments>
struct Instance {
    static void run(dim3 grid, dim3 block, void** values) {
        const auto call = [&]<std::size_t... I>(std::index_sequence<I...>) {
            run_grid(grid, block, [&] { Call{}(*static_cast<Arguments*>(values[I])...); });
        };
        call(std::index_sequence_for<Arguments...>{});
    }
    inline static const KnownKernel known{
        name.text, typeid(void (*)(Arguments...)), {sizeof(Arguments)...}, run};
};

template <Name name, typename Call>
struct Launcher {
    template <typename... Arguments>
    void operator()(Arguments&&...) const {
        (void)&Instance<name, Call, std::decay_t<Arguments>...>::known;
    }
};

}  // namespace emulation

#define EMULATED_LAUNCH(kernel) \
    ::emulation::Launcher<#kernel, decltype([](auto... arguments) { kernel(arguments...); })> {}
