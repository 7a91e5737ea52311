#include "exec/host_rank.h"

#include <cblas.h>

#include <algorithm>

#include <fmt/format.h>

#include "exec/footprint.h"
#include "exec/host_machine.h"
#include "exec/host_ops.h"

namespace stepcast {

void HostRank::prepare(const MemoryPlan& plan, std::size_t tasks) {
    plan_ = plan;
    start_.assign(tasks, Seconds(0));
    finish_.assign(tasks, Seconds(0));
}

void HostRank::attach(int rank) {
    openblas_set_num_threads(1);
    memory_ = allocate(plan_, rank);
}

void HostRank::begin_step() {
    begin_ = steady_now();
    cpu_begin_ = thread_cpu_time();
}

void HostRank::end_step() {
    const Seconds wall = steady_now() - begin_;
    cpu_share_ = wall > Seconds(0) ? std::min(1.0, (thread_cpu_time() - cpu_begin_) / wall) : 1.0;
}

namespace {

struct Runner {
    const Operands at;
    float& checksum;

    void operator()(const Gemm& op) {
        multiply(at.in[0], at.in[1], at.out[0], op.m, op.n, op.k, op.batch);
    }
    void operator()(const GroupedGemm& op) { multiply_groups(op, at.in[0], at.in[1], at.out[0]); }
    void operator()(const Attention& op) {
        const auto& [q, k, v, d_out, none] = at.in;
        const auto& out = at.out;
        if (op.backward)
            attend_backward(op, q, k, v, d_out, {out[0], out[1], out[2]}, out[3]);
        else
            attend(op, q, k, v, out[0], out[1]);
    }
    void operator()(const MemoryPass& op) {
        const bool transpose = op.access == MemoryPass::Access::transpose;
        checksum += (transpose ? stream_transposed : stream)(at.in[0], at.out[0]);
    }
    void operator()(const HostWork& op) { call_host(op.calls); }
    void operator()(const FusedGemm&) {}
    void operator()(const ExchangeOp auto&) {}
};

}  // namespace

void HostRank::compute(const Op& op) {
    if (!is_collective(op) && !std::holds_alternative<FusedGemm>(op))
        std::visit(Runner{take(memory_, op, 0, 1), checksum_}, op);
}

std::vector<std::string> host_doubts(const TaskGraph& graph, std::size_t ranks, std::size_t cores) {
    std::vector<std::string> doubts;
    for (const Op& op : graph.ops()) {
        const auto dtype = dtype_of(op);
        if (!dtype || *dtype == Dtype::fp32) continue;
        std::string doubt = fmt::format("{} tasks ran as fp32: the host has no {} kernels",
                                        kind_name(op), to_string(*dtype));
        if (std::ranges::find(doubts, doubt) == doubts.end()) doubts.push_back(std::move(doubt));
    }
    const auto is_delta = [](const Op& op) { return unmeasured(op) == Unmeasured::delta_rule; };
    if (std::ranges::any_of(graph.ops(), is_delta))
        doubts.emplace_back(
            "the gated delta rule ran as its products one by one: no fused kernels here");
    if (ranks > cores)
        doubts.push_back(
            fmt::format("{} ranks share {} cores: the results are right, the times mean nothing",
                        ranks, cores));
    return doubts;
}

std::vector<std::string> host_versions() {
    return {openblas_get_config(), "compiler " __VERSION__};
}

}  // namespace stepcast
