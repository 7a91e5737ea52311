// Two linear layers with an activation between: a layer of an MLP, one expert, or all experts of a
// rank.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "model/base/numbers.h"
#include "model/graph/task_graph.h"

namespace stepcast {

struct Perceptron {
    long hidden = 0, ffn = 0;
    Dtype dtype = Dtype::fp16;
};
struct NamedOp {
    std::string name;
    Op op;
};

// The kernels of its forward or backward as a script runs them, in order: one per product and one
// for the activation. `prefix` starts the names of the forward's products. Several `rows` are those
// of several experts, whose products are one kernel.
inline std::vector<NamedOp> perceptron_kernels(const Perceptron& p, Phase phase,
                                               const std::vector<long>& rows,
                                               const std::string& prefix = "",
                                               bool grouped = false) {
    const auto product = [&](long n, long k) {
        return grouped ? Op(GroupedGemm{rows, n, k, p.dtype})
                       : Op(Gemm{rows.front(), n, k, 1, p.dtype});
    };
    const auto weights = [&](long m, long n) {
        return grouped ? Op(GroupedGemm{rows, p.ffn, p.hidden, p.dtype, true})
                       : Op(Gemm{m, n, rows.front(), 1, p.dtype});
    };
    const auto all = real(std::accumulate(rows.begin(), rows.end(), 0L));
    const Bytes inner = all * (real(p.ffn) * size_of(p.dtype));
    if (phase == Phase::forward)
        return {{prefix + "gemm1", product(p.ffn, p.hidden)},
                {"gelu", MemoryPass{inner, inner}},
                {prefix + "gemm2", product(p.hidden, p.ffn)}};
    return {{"dgrad2", product(p.ffn, p.hidden)},
            {"wgrad2", weights(p.ffn, p.hidden)},
            {"gelu_backward", MemoryPass{2.0 * inner, inner}},
            {"dgrad1", product(p.hidden, p.ffn)},
            {"wgrad1", weights(p.hidden, p.ffn)}};
}

}  // namespace stepcast
