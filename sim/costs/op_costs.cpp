#include "sim/costs/op_costs.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "model/base/numbers.h"
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

// By HostWork::Kind; for a module that of its forward.
constexpr std::array host_calls{
    &HostCosts::framework,      &HostCosts::module_forward, &HostCosts::layer,
    &HostCosts::exchange_setup, &HostCosts::schedule,       &HostCosts::assignment,
    &HostCosts::read,           &HostCosts::flatten,        &HostCosts::update,
    &HostCosts::gather,         &HostCosts::input,          &HostCosts::expert_layer,
    &HostCosts::micro_batch,    &HostCosts::exchange,       &HostCosts::recompute};
static_assert(host_calls.size() == name_list<HostWork::Kind>.size());

struct OpPricer {
    const Cluster& cluster;
    Phase phase;
    std::span<const Place> places;

    Seconds operator()(const Gemm& op) const {
        const auto& table = cluster.kernel.gemm_table;
        if (cluster.kernel.gemm_table_by_weight)
            if (const auto time = gemm_rows_time(table, op.m, op.n, op.k, op.dtype))
                return real(op.batch) * *time;
        if (table.empty() || cluster.kernel.gemm_table_by_weight)
            return gemm_law_time(op, cluster, GemmSetting::step);
        return real(op.batch) * gemm_table_time(table, op.m, op.n, op.k, op.dtype);
    }

    // With a measured table (host), each group is one GEMM call. A weight gradient over block lists
    // has its own rate if the cluster states one, because every block adds to its expert's full
    // gradient.
    Seconds operator()(const GroupedGemm& op) const {
        if (cluster.kernel.gemm_table.empty() || cluster.kernel.gemm_table_by_weight)
            return grouped_law(op);
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
        return cluster.kernel.launch +
               flops_of(op) / (peak(cluster.gpu, op.dtype) * cluster.kernel.wgrad_efficiency);
    }

    // One thread block computes its blocks over all n columns, so time goes in waves of one thread
    // block on each SM:
    //   t = ramp + ceil(thread blocks / SMs) * flops per thread block / (SM peak * efficiency).
    // Gather: after the last remote row arrives (remote bytes / link bandwidth), `tail` of compute
    // is left, at most one wave: max(t, tail
    // + transfer). Scatter: writes are posted, and a share of their transfer is not hidden: t +
    // share * transfer. Source: notes/recorded-runs.md (kernels AG and GA); ignores which peer
    // holds the rows.
    Seconds operator()(const FusedGemm& op) const {
        const double thread_blocks = std::ceil(real(op.blocks) / real(op.blocks_per_thread_block));
        const double waves = std::ceil(thread_blocks / cluster.gpu.sms);
        const Flops work(2.0 * real(op.rows_per_block * op.blocks_per_thread_block) * real(op.n) *
                         real(op.k));
        const FlopsPerSecond rate =
            peak(cluster.gpu, op.dtype) / cluster.gpu.sms * cluster.kernel.fused_efficiency;
        const Seconds compute =
            cluster.kernel.launch + cluster.kernel.fused_ramp + waves * (work / rate);
        const Seconds transfer =
            real(op.remote_blocks) * op.remote_bytes_per_block / cluster.intra.bandwidth;
        const Seconds tail =
            std::min(cluster.kernel.fused_tail,
                     cluster.kernel.launch + cluster.kernel.fused_ramp + work / rate);
        if (op.transfer == FusedGemm::Transfer::gather) return std::max(compute, tail + transfer);
        return compute + cluster.kernel.fused_scatter_exposed * transfer;
    }

    // Plain attention: two batched GEMMs forward and four backward; the scores are read and written
    // around the softmax.
    Seconds operator()(const Attention& op) const {
        if (op.flash)
            return attention_law_time({op}, cluster.kernel.attention, cluster, GemmSetting::step);
        const long batch = op.batch * op.heads;
        const double products = op.backward ? 4 : 2, passes = op.backward ? 5 : 4;
        const Bytes scores = real(batch * op.seq_q) * real(op.seq_k) * size_of(op.dtype);
        return products * (*this)(Gemm{op.seq_q, op.seq_k, op.head_dim, batch, op.dtype}) +
               (*this)(MemoryPass{passes / 2 * scores, passes / 2 * scores});
    }

    Seconds operator()(const MemoryPass& op) const {
        const Bytes bytes = op.read + op.written;
        if (op.access == MemoryPass::Access::host_link) return bytes / cluster.host_memory.link;
        if (op.access == MemoryPass::Access::host)
            return cluster.gpus_per_node * bytes / cluster.host_memory.update;
        if (!cluster.kernel.memory_curve.empty())  // measured with streams
            return std::max(interpolate(cluster.kernel.memory_curve, bytes) *
                                (cluster.kernel.memory_efficiency / pass_efficiency(op.access)),
                            arithmetic(op.operations));
        return cluster.kernel.launch +
               std::max(memory_time(bytes, pass_efficiency(op.access), cluster) / warmth(bytes),
                        arithmetic(op.operations));
    }
    [[nodiscard]] Seconds arithmetic(double operations) const {
        const FlopsPerSecond rate = cluster.gpu.peaks[Dtype::fp32];
        return rate > FlopsPerSecond(0) ? Seconds(operations / rate.si()) : Seconds(0);
    }

    // A share 1 / (1 + (bytes / cache)^3) of a pass goes at the cache's rate, the rest at the
    // memory's.
    [[nodiscard]] double warmth(Bytes bytes) const {
        if (cluster.kernel.cache == Bytes(0)) return 1;
        return 1 +
               (cluster.kernel.cache_gain - 1) / (1 + std::pow(bytes / cluster.kernel.cache, 3));
    }

    [[nodiscard]] double pass_efficiency(MemoryPass::Access access) const {
        return cluster.kernel.*pass_constant(access).efficiency;
    }

    Seconds operator()(const HostWork& op) const {
        const bool back = op.kind == HostWork::Kind::module && phase != Phase::forward;
        return op.calls *
               cluster.host.*(back ? &HostCosts::module_backward : host_calls[as_index(op.kind)]);
    }

    Seconds operator()(const ExchangeOp auto& op) const {
        return collective_time(op, places, cluster);
    }
};

}  // namespace

Seconds op_time(const Op& op, Phase phase, std::span<const Place> places, const Cluster& cluster) {
    const Seconds time = std::visit(OpPricer{cluster, phase, places}, op);
    return std::holds_alternative<HostWork>(op) ? cluster.host.load * time : time;
}

}  // namespace stepcast
