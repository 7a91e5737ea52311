#include "sim/explain/basis.h"

#include <algorithm>
#include <map>

#include "sim/calibration.h"
#include "sim/explain/critical_path.h"

namespace stepcast {
namespace {

// The constant that prices most of an op.
struct LeadingConstant {
    const Cluster& cluster;
    bool between_nodes;

    std::string operator()(const Gemm&) const { return "kernel.gemm_efficiency"; }
    std::string operator()(const GroupedGemm& op) const {
        const bool own_rate = op.weight_gradient && cluster.kernel.wgrad_efficiency > 0;
        return own_rate ? "kernel.wgrad_efficiency" : "kernel.gemm_efficiency";
    }
    std::string operator()(const FusedGemm&) const { return "kernel.fused_efficiency"; }
    std::string operator()(const Attention& op) const {
        return op.flash ? "kernel.attention_efficiency" : "kernel.gemm_efficiency";
    }
    std::string operator()(const MemoryPass& op) const {
        if (op.access == MemoryPass::Access::host_link) return "host_memory.link";
        if (op.access == MemoryPass::Access::host) return "host_memory.update";
        return pass_constant(op.access).key;
    }
    [[nodiscard]] std::string link(const char* constant) const {
        return std::string(between_nodes ? "link.inter." : "link.intra.") + constant;
    }
    std::string operator()(
        const OneOf<AllReduce, AllGather, ReduceScatter, Broadcast, Reduce> auto&) const {
        return link("ring_efficiency");
    }
    std::string operator()(const AllToAll& op) const {
        return link(op.by_kernels() ? "dispatch_efficiency" : "all_to_all_efficiency");
    }
    std::string operator()(const SendRecv& op) const {
        return op.blocking ? "host.message" : link("all_to_all_efficiency");
    }
    std::string operator()(const Barrier&) const { return link("latency"); }
    std::string operator()(const HostWork& op) const {
        if (op.kind == HostWork::Kind::module) return "host.module_forward";  // one of its two keys
        return "host." + std::string(to_string(op.kind));
    }
};

// Key and name of what kernels belong to whose time no constant of the cluster was fitted to.
struct UnmeasuredWork {
    std::string_view key, name;
};
constexpr UnmeasuredWork work_of(Unmeasured what) {
    return what == Unmeasured::delta_rule ? UnmeasuredWork{"workload.delta", "gated delta rule"}
                                          : UnmeasuredWork{"workload.indexer", "sparse attention"};
}
std::string_view kind_of(std::string_view key) {
    for (const Unmeasured what : {Unmeasured::delta_rule, Unmeasured::sparse_attention})
        if (work_of(what).key == key) return work_of(what).name;
    return kind_of_constant(key);
}

// Whether a table of measured points replaces the law of this constant.
bool is_tabulated(const Cluster& c, const std::string& key) {
    if (!c.fitted) return false;
    if (key == "kernel.gemm_efficiency") return !c.kernel.gemm_table.empty();
    if (key == "kernel.memory_efficiency") return !c.kernel.memory_curve.empty();
    if (key == "link.intra.ring_efficiency") return !c.intra.all_reduce.empty();
    return key == "link.intra.all_to_all_efficiency" &&
           (!c.intra.all_to_all.empty() || !c.intra.send_recv.empty());
}

}  // namespace

std::vector<CostBasis> basis_of(const TaskGraph& graph, const Costs& costs,
                                const Timeline& timeline, const Cluster& cluster) {
    std::map<std::string, Seconds> by_key;
    Seconds all;
    for (const PathSegment& s : critical_path(graph, costs, timeline)) {
        const bool exchange = !s.issue && is_collective(graph.op(s.task));
        const bool between =
            exchange && cluster.nodes > 1 && link_of(graph, s.task, cluster) != LinkLevel::node;
        const Op& op = graph.op(s.task);
        const std::string key = s.issue ? "host.call"
                                : unmeasured(op) != Unmeasured::no
                                    ? std::string(work_of(unmeasured(op)).key)
                                    : std::visit(LeadingConstant{cluster, between}, op);
        by_key[key] += s.time;
        all += s.time;
    }
    std::vector<CostBasis> basis;
    for (const auto& [key, time] : by_key)
        if (time > Seconds(0))
            basis.push_back({std::string(kind_of(key)), key,
                             is_determined(cluster, key) || is_tabulated(cluster, key),
                             time / all});
    std::ranges::stable_sort(basis, std::ranges::greater{}, &CostBasis::share);
    return basis;
}

}  // namespace stepcast
