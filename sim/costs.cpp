#include "sim/costs.h"

#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "sim/collective_costs.h"
#include "sim/fitted_ranges.h"

namespace stepcast {

// Exchanges of a step run beside others and with warm clocks: slower than the law of isolated ones by one factor a level.
Seconds time_in_step(const Op& op, const RingPath& path, const Cluster& cluster) {
    return collective_time(op, path, cluster) / (path.nodes > 1 ? cluster.inter : cluster.intra).training;
}

Costs price(const TaskGraph& graph, const Cluster& cluster) {
    Costs costs;
    costs.duration.reserve(graph.size());
    costs.issue.reserve(graph.size());
    // An op that occupies one place or states its group costs the same wherever it runs, so it is priced once per phase.
    struct Known {
        std::optional<Seconds> time;
        GroupId group = 0;
    };
    RingPaths paths(cluster);
    std::vector<Known> known(graph.ops().size() * phase_count);
    for (TaskId t = 0; t < graph.size(); ++t) {
        const auto places = graph.places(t);
        auto& [time, group] = known[graph.op_id(t) * phase_count + static_cast<std::size_t>(graph.phase(t))];
        if (graph.group_id(t) != 0) {
            if (!time || group != graph.group_id(t))
                time = time_in_step(graph.op(t), paths.of(graph.group(graph.group_id(t))), cluster);
            group = graph.group_id(t);
        } else if (!time || places.size() > 1 || group != 0) {
            time = op_time(graph.op(t), graph.phase(t), places, cluster);
            group = 0;
        }
        costs.duration.push_back(*time);
        costs.issue.push_back(static_cast<double>(graph.host_calls(t)) * cluster.host.load * cluster.host.call);
    }
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
        if (table.empty()) return;
        const auto outside = [&](long GemmPoint::*size, long value) {
            const auto [low, high] =
                std::minmax_element(table.begin(), table.end(), [&](auto& a, auto& b) { return a.*size < b.*size; });
            return value < (*low).*size || value > (*high).*size;
        };
        if (outside(&GemmPoint::m, op.m) || outside(&GemmPoint::n, op.n) || outside(&GemmPoint::k, op.k))
            found.insert(
                fmt::format("extrapolated: gemm {} x {} x {} lies outside the measured table", op.m, op.n, op.k));
    }
    void operator()(const GroupedGemm& op) const {
        for (const long rows : op.rows)
            if (rows > 0)
                op.weight_gradient ? (*this)(Gemm{op.k, op.n, rows, 1, op.dtype})
                                   : (*this)(Gemm{rows, op.n, op.k, 1, op.dtype});
    }
    void operator()(const MemoryPass& op) const {
        check("memory pass", cluster.kernel.memory_curve, op.read + op.written);
    }
    void operator()(const AllToAll& op) const { check("all-to-all", cluster.intra.all_to_all, busiest_bytes(op)); }
    void operator()(const AllReduce& op) const { check("all-reduce", cluster.intra.all_reduce, op.bytes); }
    template <typename Other>
    void operator()(const Other&) const {}

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
