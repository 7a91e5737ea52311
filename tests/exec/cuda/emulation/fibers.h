// A grid of threads, one block after another: the threads of a block are fibers that change places
// where they wait for each other. And what kernels see of it (device_code.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace emulation {

constexpr std::size_t usual_shared = 48 << 10, most_shared = 227 << 10;  // of a block

void run_grid(dim3 grid, dim3 block, const std::function<void()>& thread);

// Called by a kernel's thread.
void wait_for_block();
// Leaves a word and takes the one that lane `lane` of the same warp left.
std::uint32_t exchange_in_warp(std::uint32_t word, unsigned lane);

struct Position {
    uint3 thread;
    uint3 block;
    dim3 block_size, grid_size;
};
// Of the thread that runs. Kernels ask for it at every step, and a function of another file would
// be asked every time: it is a pointer in a library of its own (place.cpp), small enough for the
// part of a thread's memory that is there from the start.
extern thread_local Position* running_position [[gnu::tls_model("initial-exec")]];
inline Position& position() { return *running_position; }

}  // namespace emulation
