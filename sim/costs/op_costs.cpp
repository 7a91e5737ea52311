// The price of one op: matrix kernels, memory passes, host calls; collectives in collective_costs.cpp.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sim/costs/attention_law.h"
#include "sim/costs/collective_costs.h"
#include "sim/costs/costs.h"
#include "sim/costs/gemm_law.h"
#include "sim/costs/measured_tables.h"

namespace stepcast {
namespace {

Seconds memory_time(Bytes bytes, double efficiency, const Cluster& cluster) {
    return bytes / (cluster.gpu.memory_bandwidth * efficiency);
}

struct Pricer {
    const Cluster& cluster;
    Phase phase;
    std::span<const Place> places;

    Seconds operator()(const Gemm& op) const {
        const auto& table = cluster.kernel.gemm_table;
        if (cluster.kernel.gemm_table_by_weight)
            if (const auto time = gemm_rows_time(table, op.m, op.n, op.k, op.dtype))
                return static_cast<double>(op.batch) * *time;
        if (table.empty() || cluster.kernel.gemm_table_by_weight) return gemm_law_time(op, cluster, GemmSetting::step);
        return static_cast<double>(op.batch) * gemm_table_time(table, op.m, op.n, op.k, op.dtype);
    }

    // With a measured table (host) one group is one GEMM call. A weight gradient over block lists has a rate of its own
    // where the cluster gives one: every block adds to its expert's full gradient.
    Seconds operator()(const GroupedGemm& op) const {
        if (cluster.kernel.gemm_table.empty() || cluster.kernel.gemm_table_by_weight) return grouped_law(op);
        Seconds sum(0);
        for (const long rows : op.rows) {
            if (rows == 0) continue;
            sum += op.weight_gradient ? (*this)(Gemm{op.k, op.n, rows, 1, op.dtype})
                                      : (*this)(Gemm{rows, op.n, op.k, 1, op.dtype});
        }
        return sum;
    }
    Seconds grouped_law(const GroupedGemm& op) const {
        if (!op.weight_gradient || cluster.kernel.wgrad_efficiency == 0)
            return grouped_gemm_law_time(op, cluster, GemmSetting::step);
        return cluster.kernel.launch + flops_of(op) / (peak(cluster.gpu, op.dtype) * cluster.kernel.wgrad_efficiency);
    }

    // One thread block computes its blocks over all n columns, so time goes in waves of one thread block a SM:
    //   t = ramp + ceil(thread blocks / SMs) * flops per thread block / (SM peak * efficiency).
    // Gather: the last remote row arrives after remote bytes / link bandwidth, then `tail` of compute is left, at most one
    // wave: max(t, tail + transfer). Scatter: writes are posted; a share of their transfer is not hidden: t + share * transfer.
    // Source: docs/recorded-runs.md (kernels AG and GA); ignores which peer holds the rows.
    Seconds operator()(const FusedGemm& op) const {
        const double thread_blocks =
            std::ceil(static_cast<double>(op.blocks) / static_cast<double>(op.blocks_per_thread_block));
        const double waves = std::ceil(thread_blocks / cluster.gpu.sms);
        const Flops work(2.0 * static_cast<double>(op.rows_per_block * op.blocks_per_thread_block) *
                         static_cast<double>(op.n) * static_cast<double>(op.k));
        const FlopsPerSecond rate = peak(cluster.gpu, op.dtype) / cluster.gpu.sms * cluster.kernel.fused_efficiency;
        const Seconds compute = cluster.kernel.launch + cluster.kernel.fused_ramp + waves * (work / rate);
        const Seconds transfer =
            static_cast<double>(op.remote_blocks) * op.remote_bytes_per_block / cluster.intra.bandwidth;
        const Seconds tail =
            std::min(cluster.kernel.fused_tail, cluster.kernel.launch + cluster.kernel.fused_ramp + work / rate);
        if (op.transfer == FusedGemm::Transfer::gather) return std::max(compute, tail + transfer);
        return compute + cluster.kernel.fused_scatter_exposed * transfer;
    }

    // Plain attention: two batched GEMMs forward, four backward, and the scores read and written around the softmax.
    Seconds operator()(const Attention& op) const {
        if (op.flash)
            return attention_law_time({op}, cluster.kernel.attention, cluster, GemmSetting::step);
        const long batch = op.batch * op.heads;
        const double products = op.backward ? 4 : 2, passes = op.backward ? 5 : 4;
        const Bytes scores = static_cast<double>(batch * op.seq_q) * static_cast<double>(op.seq_k) * size_of(op.dtype);
        return products * (*this)(Gemm{op.seq_q, op.seq_k, op.head_dim, batch, op.dtype}) +
               (*this)(MemoryPass{passes / 2 * scores, passes / 2 * scores});
    }

    Seconds operator()(const MemoryPass& op) const {
        const Bytes bytes = op.read + op.written;
        if (!cluster.kernel.memory_curve.empty())  // of streams
            return interpolate(cluster.kernel.memory_curve, bytes) *
                   (cluster.kernel.memory_efficiency / pass_efficiency(op.access));
        return cluster.kernel.launch + memory_time(bytes, pass_efficiency(op.access), cluster) / warmth(bytes);
    }

    // Between a cache that holds what a pass moves and memory: a share 1 / (1 + (bytes / cache)^3) goes at the cache's rate.
    [[nodiscard]] double warmth(Bytes bytes) const {
        if (cluster.kernel.cache == Bytes(0)) return 1;
        return 1 + (cluster.kernel.cache_gain - 1) / (1 + std::pow(bytes / cluster.kernel.cache, 3));
    }

    [[nodiscard]] double pass_efficiency(MemoryPass::Access access) const {
        switch (access) {
            case MemoryPass::Access::stream: return cluster.kernel.memory_efficiency;
            case MemoryPass::Access::transpose: return cluster.kernel.transpose_efficiency;
            case MemoryPass::Access::optimizer: return cluster.kernel.optimizer_efficiency;
            case MemoryPass::Access::rows: return cluster.kernel.row_efficiency;
            case MemoryPass::Access::strided: return cluster.kernel.strided_efficiency;
        }
        throw std::logic_error("op_time: unknown access");
    }

    Seconds operator()(const HostWork& op) const {
        const HostCosts& host = cluster.host;
        switch (op.kind) {
            case HostWork::Kind::framework: return op.calls * host.framework;
            case HostWork::Kind::module:
                return op.calls * (phase == Phase::forward ? host.module_forward : host.module_backward);
            case HostWork::Kind::layer: return op.calls * host.layer;
            case HostWork::Kind::exchange_setup: return op.calls * host.exchange_setup;
            case HostWork::Kind::schedule: return op.calls * host.schedule;
            case HostWork::Kind::assignment: return op.calls * host.assignment;
            case HostWork::Kind::read: return op.calls * host.read;
            case HostWork::Kind::flatten: return op.calls * host.flatten;
            case HostWork::Kind::update: return op.calls * host.update;
            case HostWork::Kind::gather: return op.calls * host.gather;
            case HostWork::Kind::input: return op.calls * host.input;
            case HostWork::Kind::expert_layer: return op.calls * host.expert_layer;
            case HostWork::Kind::micro_batch: return op.calls * host.micro_batch;
            case HostWork::Kind::exchange: return op.calls * host.exchange;
        }
        throw std::logic_error("op_time: unknown host work");
    }

    Seconds operator()(const ExchangeOp auto& op) const {
        return collective_time(op, places, cluster);
    }
};

}  // namespace

Seconds op_time(const Op& op, Phase phase, std::span<const Place> places, const Cluster& cluster) {
    const Seconds time = std::visit(Pricer{cluster, phase, places}, op);
    return std::holds_alternative<HostWork>(op) ? cluster.host.load * time : time;
}

}  // namespace stepcast
