#include "sim/costs/extrapolations.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/graph/task_graph.h"
#include "sim/costs/collective_costs.h"

namespace stepcast {
namespace {

struct LeastAndMost {
    double least = 0, most = 0;
};

struct Outside {
    const Cluster& cluster;
    std::map<std::string, Note> found;        // by their text, each once
    std::map<std::string, LeastAndMost> met;  // by the names of FittedRange

    // The fused kernel was measured with one and two waves of thread blocks.
    void operator()(const FusedGemm& op) {
        const double waves = real(op.blocks) / real(op.blocks_per_thread_block) / cluster.gpu.sms;
        if (cluster.fitted && waves > 2)
            add("fused kernel",
                "fused kernel with {} blocks is more than the two waves of {} SMs that were "
                "measured",
                op.blocks, cluster.gpu.sms);
    }
    void operator()(const Gemm& op) {
        meet("gemm.m", real(op.m));
        meet("gemm.n", real(op.n));
        meet("gemm.k", real(op.k));
        check_table(op);
    }
    void operator()(const GroupedGemm& op) {
        for (const long rows : op.rows)
            if (rows > 0)
                check_table(op.weight_gradient ? Gemm{.m = op.k, .n = op.n, .k = rows}
                                               : Gemm{.m = rows, .n = op.n, .k = op.k});
    }
    void operator()(const MemoryPass& op) {
        check_curve("memory-bound kernel", cluster.kernel.memory_curve, op.read + op.written);
        if (op.operations > 0)
            add("optimizer",
                "optimizer: the arithmetic of 8-bit moments is that of one step on one H200");
    }
    void operator()(const ExchangeOp auto& op) {
        if (const Bytes bytes = bytes_moved(Op(op)); bytes > Bytes(0))
            meet(std::string(kind_name(Op(op))) + ".bytes", bytes.si());
        if constexpr (OneOf<std::remove_cvref_t<decltype(op)>, AllToAll>)
            check_curve("all-to-all", cluster.intra.all_to_all, busiest_bytes(op));
        if constexpr (OneOf<std::remove_cvref_t<decltype(op)>, AllReduce>)
            check_curve("all-reduce", cluster.intra.all_reduce, op.bytes);
    }
    void operator()(const Attention& op) {
        if (op.flash) meet("attention.queries", real(op.seq_q));
    }
    void operator()(const HostWork&) const {}

    void add(Note note) {
        std::string text = to_string(note);
        found.emplace(std::move(text), std::move(note));
    }
    template <class... Values>
    void add(std::string_view what, fmt::format_string<Values...> text, Values&&... values) {
        add({.kind = Note::Kind::extrapolated,
             .key = std::string(what),
             .text = fmt::format(text, std::forward<Values>(values)...)});
    }
    void priced_as(const Op& op) {
        if (unmeasured(op) == Unmeasured::delta_rule)
            add("gated_delta_rule",
                "gated_delta_rule: its kernels were measured nowhere; each of their GEMMs is "
                "estimated as a batched GEMM of its own");
        else
            add("sparse_attention",
                "sparse_attention: its kernels were measured nowhere; scores of the indexer and "
                "attention to selected keys are estimated as flash attention over as many keys");
    }
    void meet(const std::string& what, double value) {
        LeastAndMost& extent = met.try_emplace(what, LeastAndMost{value, value}).first->second;
        extent = {std::min(extent.least, value), std::max(extent.most, value)};
    }
    // Tables hold collectives inside a node. For others, the forecast itself says whether they rest
    // on priors or on whole steps.
    void meet_group(const Op& op, const Group& group) {
        const bool moves = std::visit(
            []<class T>(const T&) {
                return OneOf<T, AllReduce, AllGather, ReduceScatter, AllToAll>;
            },
            op);
        if (moves && group.size() > 1 && group.size() <= cluster.gpus_per_node)
            meet(std::string(kind_name(op)) + ".ranks", group.size());
    }
    void check_table(const Gemm& op) {
        const auto& table = cluster.kernel.gemm_table;
        if (table.empty() || cluster.kernel.gemm_table_by_weight) return;
        const auto outside = [&](long GemmPoint::*size, long value) {
            const auto [low, high] = std::ranges::minmax_element(table, {}, size);
            return value < (*low).*size || value > (*high).*size;
        };
        if (outside(&GemmPoint::m, op.m) || outside(&GemmPoint::n, op.n) ||
            outside(&GemmPoint::k, op.k))
            add("gemm", "gemm {} x {} x {} lies outside the measured table", op.m, op.n, op.k);
    }
    void check_curve(std::string_view what, const Curve& curve, Bytes bytes) {
        if (!curve.empty() && bytes > curve.back().bytes)
            add(what, "{} of {} is beyond the measured {}", what, to_string(bytes),
                to_string(curve.back().bytes));
    }
    void check_fit(const FittedRange& range) {
        const auto extent = value_in(met, range.what);
        if (!extent) return;
        const auto [least, most] = *extent;
        Note note{.kind = Note::Kind::extrapolated,
                  .key = range.what,
                  .least = range.least,
                  .most = range.most};
        for (const double value : {most, least})
            if (note.value = value; value > range.most || value < range.least) add(note);
    }
};

}  // namespace

std::vector<Note> extrapolations(const TaskGraph& graph, const Cluster& cluster) {
    Outside outside{.cluster = cluster, .found = {}, .met = {}};
    for (const Op& op : graph.ops()) {
        if (unmeasured(op) == Unmeasured::no)
            std::visit(outside, op);
        else
            outside.priced_as(op);
    }
    // the group of each op that was seen last, because a step repeats the same few
    std::vector<GroupId> met(graph.ops().size(), 0);
    for (TaskId t = 0; t < graph.size(); ++t)
        if (const GroupId group = graph.group_id(t);
            group != 0 && std::exchange(met[graph.op_id(t)], group) != group)
            outside.meet_group(graph.op(t), graph.group(group));
    if (cluster.fitted)
        for (const FittedRange& range : cluster.fitted->ranges) outside.check_fit(range);
    std::vector<Note> notes;
    for (auto& [text, note] : outside.found) notes.push_back(std::move(note));
    return notes;
}

}  // namespace stepcast
