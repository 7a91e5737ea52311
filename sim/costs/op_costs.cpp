// The price of one op: matrix kernels, memory passes, host calls; collectives in collective_costs.cpp.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sim/costs/collective_costs.h"
#include "model/op_kinds.h"
#include "sim/costs/costs.h"
#include "sim/costs/curve.h"
#include "sim/costs/gemm_law.h"
#include "sim/costs/gemm_table.h"

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

    // Of fused attention. fp32 goes to the tensor cores as three products in tf32 (cutlass's OpMultiplyAddFastF32), in kernels
    // of the second generation.
    [[nodiscard]] FlopsPerSecond attention_peak(const Attention& op) const {
        const bool split = op.dtype == Dtype::fp32 && cluster.gpu.tf32 > FlopsPerSecond(0);
        const FlopsPerSecond rate = split ? cluster.gpu.tf32 / 3 : peak(cluster.gpu, op.dtype);
        return op.second_generation || split ? cluster.kernel.attention_v2 * rate : rate;
    }

    // Flash attention: two products forward; backward computes the scores again, five products (2.5 times). Causal: only
    // the keys a query sees. Not below its operands' bytes, which the backward moves twice (gradients).
    Seconds flash(const Attention& op) const {
        const auto batch = static_cast<double>(op.batch * op.heads);
        const auto queries = static_cast<double>(op.seq_q), keys = static_cast<double>(op.seq_k);
        const auto width = static_cast<double>(op.head_dim);
        const double values = op.value_dim > 0 ? static_cast<double>(op.value_dim) : width;
        const double seen = op.causal ? std::clamp((keys - (queries - 1) / 2) / keys, 0.5 / keys, 1.0) : 1.0;
        const Flops work(2 * batch * queries * keys * seen * (width + values) * (op.backward ? 2.5 : 1.0));
        const KernelCosts& k = cluster.kernel;
        const double efficiency = k.attention_efficiency * (op.backward ? k.attention_backward : 1.0) /
                                  (1 + k.attention_ramp / std::max(1.0, queries)) /
                                  (1 + k.attention_width / std::max(1.0, width));
        const Bytes operands =
            batch * (queries + keys) * (width + values) * size_of(op.dtype) * (op.backward ? 2.0 : 1.0);
        return cluster.kernel.launch + std::max(work / (attention_peak(op) * efficiency),
                                                memory_time(operands, cluster.kernel.memory_efficiency, cluster));
    }

    // Plain attention: two batched GEMMs forward, four backward, and the scores read and written around the softmax.
    Seconds operator()(const Attention& op) const {
        if (op.flash) return flash(op);
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
            case HostWork::Kind::experts: return op.calls * host.expert_layer;
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
