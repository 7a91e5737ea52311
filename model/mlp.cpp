#include "model/mlp.h"

#include "model/moe/program.h"

namespace stepcast {
namespace {

struct Shape {
    long tokens, hidden, ffn;
    Dtype dtype;
    [[nodiscard]] Bytes inner() const {
        return static_cast<double>(tokens) * static_cast<double>(ffn) * size_of(dtype);
    }
    [[nodiscard]] Bytes gradients() const {
        return 2.0 * static_cast<double>(hidden) * static_cast<double>(ffn) * size_of(dtype);
    }
};

void add_layer_forward(Program& program, const Shape& s) {
    program.on_each("gemm1", Phase::forward, Gemm{s.tokens, s.ffn, s.hidden, 1, s.dtype});
    program.on_each("gelu", Phase::forward, MemoryPass{s.inner(), s.inner()});
    program.on_each("gemm2", Phase::forward, Gemm{s.tokens, s.hidden, s.ffn, 1, s.dtype});
}

// Returns the last task of the layer on each rank.
std::vector<TaskId> add_layer_backward(Program& program, const Shape& s) {
    program.on_each("dgrad2", Phase::backward, Gemm{s.tokens, s.ffn, s.hidden, 1, s.dtype});
    program.on_each("wgrad2", Phase::backward, Gemm{s.ffn, s.hidden, s.tokens, 1, s.dtype});
    program.on_each("gelu_backward", Phase::backward, MemoryPass{2.0 * s.inner(), s.inner()});
    program.on_each("dgrad1", Phase::backward, Gemm{s.tokens, s.hidden, s.ffn, 1, s.dtype});
    std::vector<TaskId> last;
    for (int r = 0; r < program.rank_count(); ++r)
        last.push_back(program.on_rank(r, "wgrad1", Phase::backward, Gemm{s.hidden, s.ffn, s.tokens, 1, s.dtype}));
    return last;
}

struct Bucket {
    Bytes bytes;
    std::vector<TaskId> ready;  // the tasks that made its last gradient, one a rank
};

TaskId add_all_reduce(Program& program, const Bucket& bucket) {
    std::vector<Place> places;
    for (int r = 0; r < program.rank_count(); ++r) places.emplace_back(r, Lane::collective);
    return program.graph().add("gradient_all_reduce", Phase::gradient_sync, AllReduce{bucket.bytes}, places,
                               bucket.ready);
}

// Per parameter: SGD reads weight and gradient and writes the weight; Adam and LAMB also read and write an fp32 master
// weight and two moments.
MemoryPass optimizer_pass(const Workload& w, double parameters) {
    const Bytes element = size_of(w.dtype), states(3 * 4);
    switch (w.optimizer) {
        case Optimizer::none: return {};
        case Optimizer::sgd: return {parameters * 2.0 * element, parameters * element};
        case Optimizer::adam:
        case Optimizer::lamb: return {parameters * (element + states), parameters * (element + states)};
    }
    return {};
}

}  // namespace

TaskGraph build_mlp_step(const Experiment& e) {
    const Workload& w = e.workload;
    const Parallelism& p = e.parallelism;
    const Shape shape{static_cast<long>(p.micro_batch) * w.seq, w.hidden, w.ffn, w.dtype};
    TaskGraph graph(rank_count(e.cluster), e.cluster.launch_blocking);
    Program program(graph);
    std::vector<Bucket> buckets(1);
    std::vector<TaskId> reduced;
    for (int m = 0; m < micro_batches(p); ++m) {
        const bool last_micro_batch = m + 1 == micro_batches(p);
        for (int l = 0; l < w.layers; ++l) add_layer_forward(program, shape);
        for (int l = w.layers; l-- > 0;) {
            buckets.back().ready = add_layer_backward(program, shape);
            if (!last_micro_batch) continue;
            buckets.back().bytes += shape.gradients();
            if (buckets.back().bytes < p.bucket && l > 0) continue;
            if (p.overlap && p.dp > 1) reduced.push_back(add_all_reduce(program, buckets.back()));
            if (l > 0) buckets.emplace_back();
        }
    }
    if (!p.overlap && p.dp > 1)
        for (const Bucket& bucket : buckets)
            reduced.push_back(add_all_reduce(program, {bucket.bytes, buckets.back().ready}));
    if (!reduced.empty()) program.follow_all(reduced.back());
    if (w.optimizer != Optimizer::none)
        program.on_each("optimizer", Phase::optimizer, optimizer_pass(w, 2.0 * w.hidden * w.ffn * w.layers));
    return graph;
}

}  // namespace stepcast
