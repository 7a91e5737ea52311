#include "model/moe/perceptron.h"

#include <numeric>

#include "model/block/operators.h"

namespace stepcast {
namespace {

// One rule an operator, forward and backward.
struct Rules {
    const Perceptron& layers;
    const std::vector<long>& rows;
    std::string prefix;
    bool grouped;
    std::vector<NamedOp> kernels;

    void forward(const Linear& l) { add(prefix + "gemm", l, product(l, l.out.rank, l.in.rank)); }
    void backward(const Linear& l) {
        add("dgrad", l, product(l, l.in.rank, l.out.rank));
        add("wgrad", l, grouped ? Op(GroupedGemm{rows, layers.ffn, layers.hidden, l.dtype, true})
                                : Op(Gemm{l.in.rank, l.out.rank, l.tokens, 1, l.dtype}));
    }
    void forward(const Activate& a) { kernels.push_back({"gelu", MemoryPass{inner(a), inner(a)}}); }
    void backward(const Activate& a) { kernels.push_back({"gelu_backward", MemoryPass{2.0 * inner(a), inner(a)}}); }

private:
    void add(const std::string& name, const Linear& l, Op op) { kernels.push_back({name + std::string(l.name), std::move(op)}); }
    [[nodiscard]] Op product(const Linear& l, long n, long k) const {
        return grouped ? Op(GroupedGemm{rows, n, k, l.dtype}) : Op(Gemm{l.tokens, n, k, 1, l.dtype});
    }
    [[nodiscard]] Bytes inner(const Activate& a) const {
        const auto all = static_cast<double>(std::accumulate(rows.begin(), rows.end(), 0L));
        return all * (static_cast<double>(a.width.rank) * size_of(layers.dtype));
    }
};

}  // namespace

std::vector<NamedOp> perceptron_kernels(const Perceptron& p, Phase phase, const std::vector<long>& rows,
                                        std::string_view prefix, bool grouped) {
    const Linear up{.name = "1", .tokens = rows.front(), .out = p.ffn, .in = p.hidden, .dtype = p.dtype};
    const Linear down{.name = "2", .tokens = rows.front(), .out = p.hidden, .in = p.ffn, .dtype = p.dtype};
    const Activate between{.width = p.ffn};
    Rules rules{p, rows, std::string(prefix), grouped, {}};
    if (phase == Phase::forward) {
        rules.forward(up), rules.forward(between), rules.forward(down);
    } else {
        rules.backward(down), rules.backward(between), rules.backward(up);
    }
    return std::move(rules.kernels);
}

}  // namespace stepcast
