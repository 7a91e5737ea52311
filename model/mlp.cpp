#include "model/builders.h"

#include "model/moe/perceptron.h"
#include "model/moe/program.h"

namespace stepcast {
namespace {

// Each layer's kernels on every rank; returns the last task on each.
std::vector<TaskId> add_layer(Program& program, const std::vector<NamedOp>& kernels, Phase phase) {
    for (const NamedOp& kernel : kernels) program.on_each(kernel.name, phase, kernel.op);
    std::vector<TaskId> last;
    for (const auto& task : program.last()) last.push_back(*task);
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
    const Perceptron layer{w.hidden, w.ffn, w.dtype};
    const std::vector<long> rows{static_cast<long>(p.micro_batch) * w.seq};
    const auto forward = perceptron_kernels(layer, Phase::forward, rows), backward = perceptron_kernels(layer, Phase::backward, rows);
    const Bytes gradients = 2.0 * static_cast<double>(w.hidden) * static_cast<double>(w.ffn) * size_of(w.dtype);
    TaskGraph graph(rank_count(e.cluster), e.cluster.launch_blocking);
    Program program(graph);
    std::vector<Bucket> buckets(1);
    std::vector<TaskId> reduced;
    for (int m = 0; m < micro_batches(p); ++m) {
        const bool last_micro_batch = m + 1 == micro_batches(p);
        for (int l = 0; l < w.layers; ++l) (void)add_layer(program, forward, Phase::forward);
        for (int l = w.layers; l-- > 0;) {
            buckets.back().ready = add_layer(program, backward, Phase::backward);
            if (!last_micro_batch) continue;
            buckets.back().bytes += gradients;
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
