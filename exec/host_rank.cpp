#include "exec/host_rank.h"

#include <cblas.h>

#include <algorithm>

#include <fmt/format.h>

#include "exec/host_machine.h"
#include "exec/host_ops.h"
#include "exec/kernel_table.h"
#include "model/base/lists.h"

namespace stepcast {

void HostRank::prepare(const MemoryPlan& plan, std::size_t tasks) {
    plan_ = plan;
    start_.assign(tasks, Seconds(0));
    finish_.assign(tasks, Seconds(0));
}

void HostRank::attach(int rank) {
    openblas_set_num_threads(1);
    // A virtual machine that gave pages back gets them anew by its hypervisor, in milliseconds each
    // (Linux' free page reporting), beside whoever is timed then.
    if (!memory_.holds(plan_)) {
        memory_ = {};
        memory_ = allocate(plan_, rank);
    }
    memory_.rewind();
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
        multiply({op.m, op.n, op.k, op.batch}, at.in[0], at.in[1], at.out[0]);
    }
    void operator()(const GroupedGemm& op) { multiply_groups(op, at.in[0], at.in[1], at.out[0]); }
    void operator()(const Attention& op) {
        const AttentionInputs in{at.in[0], at.in[1], at.in[2]};
        const auto& out = at.out;
        if (op.backward)
            attend_backward(op, in, at.in[3], {out[0], out[1], out[2]}, out[3]);
        else
            attend(op, in, out[0], out[1]);
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
        add_once(doubts, std::move(doubt));
    }
    const auto is_delta = [](const Op& op) { return unmeasured(op) == Unmeasured::delta_rule; };
    if (std::ranges::any_of(graph.ops(), is_delta))
        doubts.emplace_back(
            "the gated delta rule ran as its GEMMs one by one: no fused kernels here");
    const auto attends = [&](bool (*differs)(const Attention&), const char* how) {
        if (std::ranges::any_of(graph.ops(), [&](const Op& op) {
                const auto* attention = std::get_if<Attention>(&op);
                return attention != nullptr && differs(*attention);
            }))
            doubts.emplace_back(how);
    };
    attends(
        +[](const Attention& op) { return op.flash; },
        "flash attention ran as GEMMs over the scores of one head after another: no fused kernel "
        "here");
    attends(
        +[](const Attention& op) { return op.window > 0; },
        "attention over a window ran over all keys");
    attends(
        +[](const Attention& op) { return op.value_dim > 0 && op.value_dim != op.head_dim; },
        "attention ran with values as wide as its keys");
    if (ranks > cores)
        doubts.push_back(
            fmt::format("{} ranks share {} cores: the results are right, the times mean nothing",
                        ranks, cores));
    return doubts;
}

namespace {

struct Ran {
    const std::string& exchanges;

    std::string operator()(const Gemm&) const { return "OpenBLAS, in fp32"; }
    std::string operator()(const GroupedGemm&) const {
        return "OpenBLAS, in fp32, a product for each group";
    }
    std::string operator()(const FusedGemm&) const {
        return "OpenBLAS, in fp32, by blocks, between copies of rows";
    }
    std::string operator()(const Attention&) const {
        return "OpenBLAS, in fp32, head by head: the scores of one head lie in memory";
    }
    std::string operator()(const MemoryPass& op) const {
        switch (op.access) {
            case MemoryPass::Access::stream: return "own streaming loop";
            case MemoryPass::Access::transpose: return "own transposing loop";
            case MemoryPass::Access::optimizer:
            case MemoryPass::Access::rows:
            case MemoryPass::Access::strided:
            case MemoryPass::Access::host_link:
            case MemoryPass::Access::host: break;
        }
        return "own streaming loop, in order: no pieces, reduction or stride";
    }
    std::string operator()(const HostWork&) const { return "empty calls: no framework here"; }
    std::string operator()(const ExchangeOp auto&) const { return exchanges; }
};

}  // namespace

std::vector<std::string> host_kernels(const TaskGraph& graph, int rank,
                                      const std::string& exchanges) {
    return kernel_table(graph, rank,
                        [&](TaskId, const Op& op) { return std::visit(Ran{exchanges}, op); });
}

std::vector<std::string> host_versions() {
    return {openblas_get_config(), "compiler " __VERSION__};
}

}  // namespace stepcast
