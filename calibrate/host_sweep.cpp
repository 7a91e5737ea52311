#include "calibrate/host_sweep.h"

#include <algorithm>

#include "calibrate/building_blocks.h"
#include "calibrate/sweep_graphs.h"

namespace stepcast {

namespace {

constexpr long gemm_sizes[] = {4, 16, 64, 128, 256, 512, 1024, 2048};
constexpr double most_products = 1 << 29;  // m * n * k: some ten milliseconds a shape
constexpr double graph_products = 2e9;     // of one graph: some forty milliseconds

void add_gemms(SweepGraphs& sweep) {
    double products = graph_products;
    const auto add = [&](const Op& op, double size) {
        if (products + size > graph_products) {
            sweep.begin();
            sweep.align();
            products = 0;
        }
        products += size;
        sweep.on_each("gemm", op);
    };
    for (const long m : gemm_sizes)
        for (const long n : gemm_sizes)
            for (const long k : gemm_sizes) {
                const double size = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
                if (size > most_products) continue;
                // A product that is short in k is mostly met as a weight gradient over few rows: C[k,n] = A[rows,k]^T B.
                if (k < 64 && m >= 64 && n >= 64)
                    add(GroupedGemm{{k}, n, m, Dtype::fp32, true}, size);
                else
                    add(Gemm{m, n, k, 1, Dtype::fp32}, size);
            }
}

// Bytes read and written together: as much of both, and as much again read, as element-wise passes of a step do. A
// product before each pass leaves the caches as a step does. The largest are an optimizer's. Transposes of some sizes.
void add_memory_passes(SweepGraphs& sweep) {
    constexpr double largest = 256.0 * 1048576;
    const auto add = [&](const MemoryPass& pass) {
        sweep.on_each("work", Gemm{64, 256, 256, 1, Dtype::fp32});
        sweep.on_each("memory", pass);
    };
    for (double bytes = 4096; bytes <= largest; bytes *= 2) {
        if (bytes == 4096 || bytes >= 16.0 * 1048576) sweep.begin();
        sweep.align();
        add({Bytes(bytes / 2), Bytes(bytes / 2)});
        add({Bytes(bytes * 2 / 3), Bytes(bytes / 3)});
        if (bytes >= 1048576 && bytes <= 16.0 * 1048576)
            add({Bytes(bytes / 2), Bytes(bytes / 2), MemoryPass::Access::transpose});
    }
}

void add_empty_tasks(SweepGraphs& sweep) {
    sweep.begin();
    sweep.align();
    for (int task = 0; task < 500; ++task) sweep.on_each("empty", MemoryPass{});
    for (int task = 0; task < 50; ++task) sweep.together("barrier", Barrier{});
}

// Each rank works before it meets the others, as in a step, so that arrivals are as uneven as they are there.
void add_collectives(SweepGraphs& sweep, int ranks) {
    const double others = std::max(1, ranks - 1);
    for (double bytes = 1024; bytes <= 32.0 * 1048576; bytes *= 2) {
        if (bytes == 1024 || bytes == 2.0 * 1048576 || bytes > 4.0 * 1048576) sweep.begin();
        const Bytes size(bytes);
        const auto add = [&](std::string_view name, Op op) {
            sweep.on_each("work", Gemm{64, 256, 256, 1, Dtype::fp32});
            sweep.together(name, std::move(op));
        };
        for (const char* name : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"}) add(name, *collective_op(name, size, ranks));
        add("all_to_all", *collective_op("all_to_all", size * (ranks / others), ranks));
        sweep.on_each("work", Gemm{64, 256, 256, 1, Dtype::fp32});
        sweep.from_first_to_second("send_recv", SendRecv{size, 1});
    }
}

}  // namespace

std::vector<TaskGraph> host_sweeps(int ranks) {
    SweepGraphs sweep(ranks, true, 0);
    add_gemms(sweep);
    add_memory_passes(sweep);
    add_empty_tasks(sweep);
    if (ranks > 1) add_collectives(sweep, ranks);
    return sweep.take();
}

}  // namespace stepcast
