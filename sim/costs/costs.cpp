#include "sim/costs/costs.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "sim/costs/collective_costs.h"
#include "sim/costs/fitted_ranges.h"
#include "sim/costs/link_uses.h"
#include "sim/costs/price_classes.h"

namespace stepcast {

// Collectives of a step overlap others and with warm clocks: slower than the law of isolated ones by one factor a level, which
// stands for NCCL's kernels. Those that send a token once have rates of their own.
// What blocking messages cost the hosts is no matter of the link.
Seconds time_in_step(const Op& op, const RingPath& path, const Cluster& cluster) {
    const Seconds time = collective_time(op, path, cluster);
    const auto* hop = std::get_if<SendRecv>(&op);
    const Seconds messages = hop ? message_time(*hop, cluster) : Seconds(0);
    const auto* sent = std::get_if<AllToAll>(&op);
    if (sent && sent->by_kernels()) return time;
    return messages + (time - messages) / (path.nodes > 1 ? cluster.inter : cluster.intra).training;
}

Seconds host_call_time(const Cluster& cluster) { return cluster.host.load * cluster.host.call; }

Costs price(const TaskGraph& graph, const Cluster& cluster) {
    const PriceClasses classes(graph);
    Costs costs;
    const PriceClasses::Paths paths = classes.paths(cluster);
    const std::vector<Seconds> prices = classes.price(cluster, paths);
    classes.fill(costs, prices, host_call_time(cluster), cluster.gpu.rank_rates);
    costs.links = link_uses(graph, classes, prices, paths, cluster);
    return costs;
}

namespace {

// Measured tables answer inside their range; the fused kernel was measured with one and two waves of thread blocks.
struct RangeCheck {
    const Cluster& cluster;
    std::set<std::string>& found;

    void operator()(const FusedGemm& op) const {
        const double waves =
            static_cast<double>(op.blocks) / static_cast<double>(op.blocks_per_thread_block) / cluster.gpu.sms;
        if (cluster.fitted && waves > 2)
            found.insert(fmt::format(
                "extrapolated: fused kernel with {} blocks is more than the two waves of {} SMs that were measured",
                op.blocks, cluster.gpu.sms));
    }
    void operator()(const Gemm& op) const {
        const auto& table = cluster.kernel.gemm_table;
        if (table.empty() || cluster.kernel.gemm_table_by_weight) return;
        const auto outside = [&](long GemmPoint::*size, long value) {
            const auto [low, high] = std::ranges::minmax_element(table, {}, size);
            return value < (*low).*size || value > (*high).*size;
        };
        if (outside(&GemmPoint::m, op.m) || outside(&GemmPoint::n, op.n) || outside(&GemmPoint::k, op.k))
            found.insert(
                fmt::format("extrapolated: gemm {} x {} x {} lies outside the measured table", op.m, op.n, op.k));
    }
    void operator()(const GroupedGemm& op) const {
        for (const long rows : op.rows)
            if (rows > 0)
                (*this)(op.weight_gradient ? Gemm{.m = op.k, .n = op.n, .k = rows, .dtype = op.dtype}
                                           : Gemm{.m = rows, .n = op.n, .k = op.k, .dtype = op.dtype});
    }
    void operator()(const MemoryPass& op) const {
        check("memory pass", cluster.kernel.memory_curve, op.read + op.written);
    }
    void operator()(const AllToAll& op) const { check("all-to-all", cluster.intra.all_to_all, busiest_bytes(op)); }
    void operator()(const AllReduce& op) const { check("all-reduce", cluster.intra.all_reduce, op.bytes); }
    void operator()(
        const OneOf<Attention, AllGather, ReduceScatter, Broadcast, Reduce, SendRecv, Barrier, HostWork> auto&) const {}

    void check(std::string_view what, const Curve& curve, Bytes bytes) const {
        if (!curve.empty() && bytes > curve.back().bytes)
            found.insert(fmt::format("extrapolated: {} of {} is beyond the measured {}", what, to_string(bytes),
                                     to_string(curve.back().bytes)));
    }
};

}  // namespace

std::vector<std::string> extrapolations(const TaskGraph& graph, const Cluster& cluster) {
    std::set<std::string> found;
    for (const Op& op : graph.ops()) std::visit(RangeCheck{cluster, found}, op);
    for (const std::string& note : outside_fitted_ranges(graph.ops(), cluster)) found.insert(note);
    return {found.begin(), found.end()};
}

}  // namespace stepcast
