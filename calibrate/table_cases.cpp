// Rows of tables as cases of a fit, and which of them are held out.
#include <fmt/format.h>

#include "calibrate/fit_tables.h"
#include "model/files/stamp.h"
#include "sim/costs/collective_costs.h"
#include "sim/costs/gemm_law.h"

namespace stepcast {
namespace {

constexpr int fifths = 5;

int part_of(const FitCase& c, std::uint64_t parts) {
    const std::uint64_t hash = fnv1a(c.name);
    return static_cast<int>((hash ^ (hash >> 32)) % parts);
}

}  // namespace

FitCase gemm_case(const GemmRow& row) {
    const Gemm& g = row.gemm;
    const char* layout = g.layout == Gemm::Layout::nn ? " nn" : g.layout == Gemm::Layout::tn ? " tn" : "";
    const std::string name =
        fmt::format("gemm {}x{}x{} {}{}{}{}", g.m, g.n, g.k, to_string(g.dtype), layout, g.accumulate ? " to fp32" : "",
                    row.groups > 1 ? fmt::format(" {} groups", row.groups) : "");
    if (row.groups > 1) {
        const GroupedGemm grouped{std::vector<long>(static_cast<std::size_t>(row.groups), g.m), g.n, g.k, g.dtype};
        return table_case(name, "grouped_gemm", row, [grouped](const Cluster& c) { return grouped_gemm_law_time(grouped, c); });
    }
    if (is_narrow(g.dtype))
        return table_case(name + (row.scaled_blocks ? " blocks" : ""), narrow_kind(row), row, [row](const Cluster& c) { return narrow_time(row, c); });
    const GemmSetting setting = row.sustained ? GemmSetting::sustained : GemmSetting::alone;
    return table_case(name, row.sustained ? "sustained_gemm" : "gemm", row, [g, setting](const Cluster& c) { return gemm_law_time(g, c, setting); });
}

// The path is the datasheet's, which no fit moves but what two sockets share: found once, and again where that moved.
FitCase collective_case(const CollectiveRow& row, const Cluster& cluster) {
    RingPath path = ring_path(Group{row.ranks}, cluster);
    return table_case(
        fmt::format("{} of {} over {} ranks, {} nodes", row.op, to_string(row.bytes), row.ranks, row.nodes), row.op, row,
        [op = *collective_op(row.op, row.bytes, row.ranks, row.in_switch), path, ranks = row.ranks, small = row.small,
         socket = cluster.intra.socket_bandwidth](const Cluster& c) mutable {
            if (c.intra.socket_bandwidth != socket) path = ring_path(Group{ranks}, c);
            socket = c.intra.socket_bandwidth;
            return collective_time(op, path, c, small.value_or(c.intra.exchange_small));
        });
}

bool is_held_out(const FitCase& c, HeldOutShare share) {
    if (share == HeldOutShare::none) return false;
    return part_of(c, share == HeldOutShare::fifth ? fifths : tenths) == 0;
}

int tenth_of(const FitCase& c) { return part_of(c, tenths); }

}  // namespace stepcast
