// A plan as lines to compare with what was worked out by hand.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "model/base/names.h"
#include "model/transformer/plan.h"

namespace stepcast {

// Examples: "norm r8 w8", the bytes that a pass reads and writes, with "long" for an optimizer's;
// "up 4x8x16 *24", m x n x k and the batch of a product; "x3" for several kernels; collectives with
// their bytes; "waits" where the host waits for the device.
inline std::string line_of(const Op& op) {
    if (const auto* p = std::get_if<MemoryPass>(&op))
        return fmt::format("r{} w{}{}", p->read.si(), p->written.si(),
                           p->access == MemoryPass::Access::optimizer ? " long" : "");
    if (const auto* g = std::get_if<Gemm>(&op))
        return fmt::format(
            "{}x{}x{}{}{}{}{}", g->m, g->n, g->k, g->batch > 1 ? fmt::format(" *{}", g->batch) : "",
            g->alignment != Gemm::Alignment::full ? " unaligned" : "",
            g->accumulate ? " accumulate" : "", g->dtype == Dtype::fp32 ? " fp32" : "");
    if (const auto* a = std::get_if<Attention>(&op))
        return fmt::format("{} sequences {} heads {}x{} widths {} {}{}{}", a->batch, a->heads,
                           a->seq_q, a->seq_k, a->head_dim, a->value_dim,
                           a->causal ? " causal" : "", a->backward ? " backward" : "");
    if (const auto* g = std::get_if<GroupedGemm>(&op))
        return fmt::format("[{}]x{}x{}{}", fmt::join(g->rows, ","), g->n, g->k,
                           g->weight_gradient ? " weights" : "");
    if (const auto* h = std::get_if<HostWork>(&op)) return fmt::format("{} calls", h->calls);
    if (const auto* f = std::get_if<FusedGemm>(&op))
        return fmt::format("{} blocks x{}x{} {} remote of {}{}", f->blocks, f->n, f->k,
                           f->remote_blocks, f->remote_bytes_per_block.si(),
                           f->transfer == FusedGemm::Transfer::scatter ? " scatter" : "");
    return fmt::format("{} {}", kind_name(op), bytes_moved(op).si());
}

inline std::vector<std::string> lines_of(TaskGraph graph, const Plan& plan) {
    std::vector<std::string> lines;
    for (const PlannedTask& task : plan.tasks) {
        const Place place(0, task.lane);
        const TaskId id = graph.add(
            {task.name, Phase::forward, task.op, task.host_calls, task.group}, {&place, 1}, {});
        const bool waits = task.lane == Lane::host && !task.starts;
        lines.push_back(fmt::format("{} {}{}{}", graph.name(id), line_of(graph.op(id)),
                                    task.host_calls > 1 ? fmt::format(" x{}", task.host_calls) : "",
                                    waits ? " waits" : ""));
    }
    return lines;
}

// The tasks of one rank of a graph.
inline std::vector<std::string> lines_of(const TaskGraph& graph, int rank) {
    std::vector<std::string> lines;
    for (TaskId t = 0; t < graph.size(); ++t)
        for (const Place& place : graph.places(t))
            if (place.rank() == rank)
                lines.push_back(fmt::format("{} {}", graph.name(t), line_of(graph.op(t))));
    return lines;
}

// Tasks of this name.
inline int count_of(const TaskGraph& graph, std::string_view name) {
    int tasks = 0;
    for (TaskId t = 0; t < graph.size(); ++t) tasks += graph.name(t) == name;
    return tasks;
}

}  // namespace stepcast
