#include "sim/costs/clock.h"

#include <algorithm>
#include <cmath>

#include "model/base/numbers.h"

namespace stepcast {
namespace {

constexpr double pico = 1e-12;

// Energy of an operation of this dtype relative to a 16-bit one. The power at either peak is the
// same, so this is the ratio of the peaks, but at most the ratio of the bits: operations that do
// not run at the 16-bit peak do not draw more because that peak is high.
double of_sixteen_bits(Dtype dtype, const Gpu& gpu) {
    const FlopsPerSecond none(0),
        sixteen = std::max(gpu.peaks[Dtype::fp16], gpu.peaks[Dtype::bf16]), own = gpu.peaks[dtype];
    const double bits = size_of(dtype) / size_of(Dtype::bf16);
    return sixteen > none && own > none ? std::min(sixteen / own, bits) : 1;
}

double drawn(Flops work, Dtype dtype, Bytes moved, const Cluster& cluster) {
    return pico * (cluster.power.flop * of_sixteen_bits(dtype, cluster.gpu) * work.si() +
                   cluster.power.byte * moved.si());
}

// Bytes of a product if each operand and result crosses the memory once.
Bytes product_bytes(double m, double n, double k, Dtype dtype) {
    return (m * k + k * n) * size_of(dtype) + m * n * size_of(between_products(dtype));
}

struct Moved {
    Bytes operator()(const Gemm& op) const {
        return real(op.batch) * product_bytes(real(op.m), real(op.n), real(op.k), op.dtype);
    }
    Bytes operator()(const GroupedGemm& op) const {
        Bytes sum;
        for (const long rows : op.rows)
            if (rows > 0) sum += product_bytes(real(rows), real(op.n), real(op.k), op.dtype);
        return sum;
    }
    Bytes operator()(const Attention& op) const {
        return 2.0 * real(op.batch * op.heads * op.head_dim * (op.seq_q + op.seq_k)) *
               size_of(op.dtype);
    }
    Bytes operator()(const MemoryPass& op) const { return op.read + op.written; }
    Bytes operator()(const OneOf<FusedGemm, HostWork> auto&) const { return {}; }
    Bytes operator()(const ExchangeOp auto&) const { return {}; }
};

}  // namespace

double sustained_slowdown(Flops work, Dtype dtype, Bytes moved, Seconds time,
                          const Cluster& cluster) {
    const Power& power = cluster.power;
    if (power.in_rates || power.limit <= power.idle || !(time > Seconds(0)) || dtype == Dtype::fp32)
        return 1;
    return std::sqrt(
        std::max(1.0, drawn(work, dtype, moved, cluster) / time.si() / (power.limit - power.idle)));
}

Seconds burst_time(Seconds full_clock, double slowdown, const Power& power) {
    return full_clock * (1 + (slowdown - 1) / (1 + power.response / full_clock));
}

Joules op_energy(const Op& op, Seconds time, const Cluster& cluster) {
    const Flops work = flops_of(op);
    const Bytes moved = std::visit(Moved{}, op);
    if (cluster.power.limit <= cluster.power.idle || (work == Flops(0) && moved == Bytes(0)))
        return {};
    const double most = (cluster.power.limit - cluster.power.idle) * time.si();
    return Joules(
        std::min(most, cluster.power.busy_share * most +
                           drawn(work, dtype_of(op).value_or(Dtype::bf16), moved, cluster)));
}

Joules step_energy(const TaskGraph& graph, const Timeline& timeline, const Cluster& cluster) {
    if (cluster.power.limit <= cluster.power.idle) return {};
    Joules working;
    for (TaskId t = 0; t < graph.size(); ++t)
        if (graph.places(t).front().lane() == Lane::compute)
            working =
                working + op_energy(graph.op(t), timeline.finish[t] - timeline.start[t], cluster);
    const double ranks = rank_count(cluster);
    return ranks / graph.rank_count() * working +
           ranks * Joules(cluster.power.idle * timeline.end.si());
}

}  // namespace stepcast
