#include "calibrate/gpu_sweep.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "calibrate/building_blocks.h"
#include "calibrate/sweep_graphs.h"
#include "model/base/numbers.h"

namespace stepcast {

namespace {

constexpr double graph_flops = 2e13;  // work of one graph: some 40 ms at 500 TFLOP/s

// For a GPU slower than an H200: how often the lengths of the shapes are halved and the sizes in
// bytes divided by eight.
int halvings_for(BytesPerSecond bandwidth) {
    constexpr double h200 = 4.8e12;
    if (bandwidth.si() <= 0 || bandwidth.si() >= h200) return 0;
    return static_cast<int>(std::log2(h200 / bandwidth.si()) / 3);
}

class GpuSweep {
public:
    GpuSweep(int ranks, int halvings) : graphs(ranks, false, 1), halvings_(halvings) {}

    SweepGraphs graphs;

    // Kernels want every length to be a multiple of 16.
    [[nodiscard]] long length(long whole) const {
        constexpr long step = 16;
        return halvings_ == 0 ? whole : std::max(step, (whole >> halvings_) / step * step);
    }
    [[nodiscard]] Bytes size(double whole) const {
        return Bytes(std::max(std::ldexp(whole, -3 * halvings_), 16.0));
    }

    // Begins a graph whose kernels do not wait for the host: the host queues them while the passes
    // at the front run.
    void begin() {
        begin_without_head();
        flops_ = 0;
        for (int pass = 0; pass < 8; ++pass)
            graphs.on_each("head", MemoryPass{size(1e9), size(1e9)});
    }
    void begin_without_head() {
        graphs.begin();
        graphs.align();
    }
    // Adds a task that starts after everything that the graph has so far.
    void together_after_all(std::string_view name, Op op) {
        std::vector<TaskId> after;
        for (int rank = 0; rank < graphs.ranks(); ++rank)
            after.push_back(static_cast<TaskId>(graphs.last().size() - 1 - as_index(rank)));
        graphs.together(name, std::move(op), 0, after);
    }
    // Begins another graph when this one is long enough.
    void measure(std::string_view name, const Op& op, double weight = 1) {
        const double work = std::ldexp(weight * flops_of(op).si(), 3 * halvings_);
        if (graphs.empty() || flops_ + work > graph_flops) begin();
        flops_ += work + 1e10;
        graphs.on_each(name, op);
    }
    void gemm(long m, long n, long k, Dtype dtype, bool accumulate = false) {
        measure("gemm", Gemm{length(m), length(n), length(k), 1, dtype, accumulate},
                dtype == Dtype::fp32 ? 12 : 1);
    }

private:
    int halvings_;
    double flops_ = 0;  // of the current graph, with the shapes for an H200
};

// Widths of common models; rows from a few tokens to long batches. Every `every`-th of all
// combinations: prime to the number of widths, so that each width meets each count.
void add_gemms(GpuSweep& sweep, Dtype dtype, std::size_t every, std::size_t first) {
    constexpr long widths[] = {512, 768, 1024, 1600, 2048, 4096, 5120, 8192, 14336};
    constexpr long rows[] = {16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
    std::size_t next = first;
    for (const long m : rows)
        for (const long n : widths)
            for (const long k : widths)
                if (next++ % every == 0) sweep.gemm(m, n, k, dtype);
}

void add_special_gemms(GpuSweep& sweep) {
    // Aligned, odd and even rows: of results; of operands; of an operand that is added to fp32.
    for (const long vocabulary : {32000L, 50257L, 50258L, 128256L})
        for (const auto& [k, rows] : {std::pair{768L, 8192L}, {2048L, 1024L}, {4096L, 4096L}}) {
            sweep.gemm(rows, vocabulary, k, Dtype::bf16);
            sweep.gemm(rows, k, vocabulary, Dtype::bf16);
            sweep.gemm(vocabulary, k, rows, Dtype::bf16, true);
        }
    for (const long tokens : {1024L, 4096L, 8192L, 16384L})  // weight gradients, added to fp32
        for (const long width : {768L, 1024L, 1600L, 2048L, 4096L}) {
            sweep.gemm(width, width, tokens, Dtype::bf16, true);
            sweep.gemm(width, 4 * width, tokens, Dtype::bf16, true);
            sweep.gemm(4 * width, width, tokens, Dtype::bf16, true);
        }
    for (const long tokens : {88L, 104L, 124L})
        for (const auto& [n, k] :
             {std::pair{2048L, 2048L}, {512L, 2048L}, {8192L, 2048L}, {2048L, 8192L}})
            sweep.gemm(tokens, n, k, Dtype::fp32);
    for (const long groups : {4L, 8L, 16L, 64L})
        for (const long tokens : {128L, 512L, 2048L}) {
            const std::vector<long> even(as_index(groups), sweep.length(tokens));
            const long narrow = sweep.length(1024), wide = sweep.length(4096);
            sweep.measure("gemm", GroupedGemm{even, wide, narrow, Dtype::bf16});
            sweep.measure("gemm", GroupedGemm{even, narrow, wide, Dtype::bf16});
        }
    // Scores and their sums of values in plain attention.
    for (const auto& [batch, seq, width] :
         {std::tuple{1024L, 128L, 64L}, {256L, 512L, 64L}, {96L, 1024L, 64L}, {64L, 2048L, 128L}}) {
        const long tokens = sweep.length(seq), head = sweep.length(width);
        sweep.measure("gemm", Gemm{tokens, tokens, head, batch, Dtype::bf16});
        sweep.measure("gemm", Gemm{tokens, head, tokens, batch, Dtype::bf16});
    }
}

// Layers of three widths, forward and backward, with the passes between the products: some 150 ms
// without a pause. Then attention.
void add_sustained(GpuSweep& sweep) {
    for (const auto& [whole, layers] : {std::pair{768L, 60}, {1600L, 20}, {4096L, 6}}) {
        const long width = sweep.length(whole), tokens = sweep.length(8192);
        sweep.begin();
        const Bytes activation(2.0 * real(tokens * width));
        for (int layer = 0; layer < layers; ++layer)
            for (const auto& [n, k] : {std::pair{3 * width, width},
                                       {width, width},
                                       {4 * width, width},
                                       {width, 4 * width}}) {
                sweep.graphs.on_each("sustained", Gemm{tokens, n, k, 1, Dtype::bf16});
                sweep.graphs.on_each("sustained", Gemm{tokens, k, n, 1, Dtype::bf16});
                sweep.graphs.on_each("sustained", Gemm{k, n, tokens, 1, Dtype::bf16, true});
                sweep.graphs.on_each("between", MemoryPass{activation, activation});
            }
    }
    sweep.begin();
    for (const auto& [batch, seq] : {std::pair{8L, 1024L}, {32L, 512L}, {2L, 4096L}})
        for (const bool backward : {false, true}) {
            const long tokens = sweep.length(seq);
            sweep.graphs.on_each("sustained", Attention{batch, 16, tokens, tokens, sweep.length(64),
                                                        true, backward, Dtype::bf16});
            sweep.graphs.on_each("between", MemoryPass{sweep.size(1e8), sweep.size(1e8)});
        }
}

// Attention in one kernel: short and long sequences, both usual widths, groups of heads.
void add_flash_attention(GpuSweep& sweep) {
    struct Shape {
        long batch, heads, kv_heads, seq, width;
        bool causal;
    };
    for (const Shape& s : {Shape{16, 16, 16, 256, 64, true},
                           {32, 12, 12, 512, 64, false},
                           {8, 16, 16, 1024, 64, true},
                           {4, 16, 16, 2048, 64, false},
                           {2, 20, 20, 4096, 64, true},
                           {8, 16, 4, 1024, 128, true},
                           {4, 24, 8, 2048, 128, true},
                           {2, 40, 8, 4096, 128, true},
                           {2, 32, 32, 2048, 128, false},
                           {1, 16, 4, 16384, 128, true}})
        for (const bool backward : {false, true}) {
            const long tokens = sweep.length(s.seq);
            Attention op{s.batch,  s.heads,  tokens,      tokens, sweep.length(s.width),
                         s.causal, backward, Dtype::bf16, true};
            op.kv_heads = s.kv_heads;
            sweep.measure("flash", op);
        }
}

void add_memory_passes(GpuSweep& sweep) {
    for (const auto access : {MemoryPass::Access::stream, MemoryPass::Access::transpose,
                              MemoryPass::Access::optimizer}) {
        sweep.begin();
        for (double bytes = 16384; bytes <= 2.0 * (1 << 30); bytes *= 2) {
            sweep.graphs.on_each("memory",
                                 MemoryPass{sweep.size(bytes / 2), sweep.size(bytes / 2), access});
            if (access == MemoryPass::Access::stream)
                sweep.graphs.on_each(
                    "memory", MemoryPass{sweep.size(bytes * 2 / 3), sweep.size(bytes / 3), access});
        }
    }
}

void add_empty_tasks(GpuSweep& sweep) {
    sweep.begin_without_head();
    for (int task = 0; task < 1000; ++task)
        sweep.graphs.on_each("empty", MemoryPass{Bytes(16), Bytes(16)});
}

void add_collectives(GpuSweep& sweep, int members) {
    for (double bytes = 512; bytes <= 512.0 * (1 << 20); bytes *= 4) {
        sweep.begin_without_head();
        const Bytes size = sweep.size(bytes);
        for (const char* name :
             {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all"})
            for (int repetition = 0; repetition < 3; ++repetition) {
                sweep.graphs.align();
                sweep.graphs.together(name, *collective_op(name, size, members), members);
            }
        if (members == 2) sweep.graphs.from_first_to_second("send_recv", SendRecv{size, 1});
    }
}

// Products on one lane while large all-reduces fill the other, and both apart. The first all-reduce
// waits for the front on each rank.
void add_interference(GpuSweep& sweep) {
    const AllReduce large{sweep.size(512.0 * (1 << 20))};
    const Gemm product{sweep.length(8192), sweep.length(4096), sweep.length(4096), 1, Dtype::bf16};
    sweep.begin();
    sweep.together_after_all("beside", large);
    for (int more = 0; more < 3; ++more) sweep.graphs.together("beside", large);
    for (int i = 0; i < 40; ++i) sweep.graphs.on_each("beside", product);
    sweep.begin();
    for (int i = 0; i < 40; ++i) sweep.graphs.on_each("apart", product);
    sweep.begin_without_head();
    sweep.graphs.together("apart", large);
}

}  // namespace

std::vector<TaskGraph> gpu_sweeps(int ranks, bool fp8, BytesPerSecond bandwidth) {
    GpuSweep sweep(ranks, halvings_for(bandwidth));
    add_gemms(sweep, Dtype::bf16, 4, 0);
    add_gemms(sweep, Dtype::fp16, 23, 5);
    add_gemms(sweep, Dtype::tf32, 23, 7);
    add_gemms(sweep, Dtype::fp32, 31, 11);
    if (fp8) add_gemms(sweep, Dtype::fp8, 17, 3);
    add_special_gemms(sweep);
    add_sustained(sweep);
    add_flash_attention(sweep);
    add_memory_passes(sweep);
    add_empty_tasks(sweep);
    for (int members = 2; members <= ranks; members *= 2) add_collectives(sweep, members);
    if (ranks > 1) add_interference(sweep);
    return sweep.graphs.take();
}

}  // namespace stepcast
