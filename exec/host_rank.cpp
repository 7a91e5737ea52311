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

// Takes the operands of an op from the buffers, one by one (a compiler may take arguments in any order), and runs it.
struct Runner {
    HostMemory& memory;
    float& checksum;

    std::span<float> in(long a, long b, long c = 1) { return memory.input.take(static_cast<std::size_t>(a * b * c)); }
    std::span<float> out(long a, long b, long c = 1) { return memory.output.take(static_cast<std::size_t>(a * b * c)); }

    void operator()(const Gemm& op) {
        const std::span<float> a = in(op.m, op.k, op.batch), b = in(op.k, op.n, op.batch);
        multiply(a, b, out(op.m, op.n, op.batch), op.m, op.n, op.k, op.batch);
    }
    void operator()(const GroupedGemm& op) {
        long rows = 0, groups = 0;
        for (const long r : op.rows) {
            rows += r;
            groups += r > 0;
        }
        const auto weights = [&](Region& region) {
            return region.take(static_cast<std::size_t>(groups * op.k * op.n));
        };
        const std::span<float> a = in(rows, op.k), b = op.weight_gradient ? in(rows, op.n) : weights(memory.input);
        multiply_groups(op, a, b, op.weight_gradient ? weights(memory.output) : out(rows, op.n));
    }
    void operator()(const Attention& op) {
        const long heads = op.batch * op.heads;
        const std::span<float> q = in(heads, op.seq_q, op.head_dim), k = in(heads, op.seq_k, op.head_dim);
        const std::span<float> v = in(heads, op.seq_k, op.head_dim);
        if (!op.backward) {
            const std::span<float> result = out(heads, op.seq_q, op.head_dim);
            return attend(op, q, k, v, result, out(op.seq_q, op.seq_k));
        }
        const std::span<float> d_out = in(heads, op.seq_q, op.head_dim);
        const AttentionGradients gradients{out(heads, op.seq_q, op.head_dim), out(heads, op.seq_k, op.head_dim),
                                           out(heads, op.seq_k, op.head_dim)};
        attend_backward(op, q, k, v, d_out, gradients, out(2, op.seq_q, op.seq_k));
    }
    void operator()(const MemoryPass& op) {
        const std::span<float> source = memory.input.take(float_count(op.read));
        const std::span<float> target = memory.output.take(float_count(op.written));
        checksum +=
            op.access == MemoryPass::Access::transpose ? stream_transposed(source, target) : stream(source, target);
    }
    void operator()(const HostWork& op) { call_host(op.calls); }
    void operator()(const FusedGemm&) {}
    void operator()(const ExchangeOp auto&) {}
};

}  // namespace

void HostRank::compute(const Op& op) { std::visit(Runner{memory_, checksum_}, op); }

std::vector<std::string> host_doubts(const TaskGraph& graph, std::size_t ranks, std::size_t cores) {
    std::vector<std::string> doubts;
    for (const Op& op : graph.ops()) {
        const auto dtype = dtype_of(op);
        if (!dtype || *dtype == Dtype::fp32) continue;
        std::string doubt =
            fmt::format("{} tasks ran as fp32: the host has no {} kernels", kind_name(op), to_string(*dtype));
        if (std::find(doubts.begin(), doubts.end(), doubt) == doubts.end()) doubts.push_back(std::move(doubt));
    }
    if (ranks > cores)
        doubts.push_back(fmt::format("{} ranks share {} cores: the results are right, the times mean nothing", ranks, cores));
    return doubts;
}

std::vector<std::string> host_versions() { return {openblas_get_config(), "compiler " __VERSION__}; }

}  // namespace stepcast
