#include "model/recorded/mlp.h"

#include <utility>
#include "model/base/numbers.h"
#include "model/recorded/moe/perceptron.h"
#include "model/recorded/moe/program.h"
#include "model/runtime_rules.h"

namespace stepcast {
namespace {

// Per parameter, SGD reads weight and gradient and writes the weight. Adam and LAMB also read and
// write an fp32 weight and two moments.
MemoryPass optimizer_pass(const Workload& w, double parameters) {
    const Bytes element = size_of(w.dtype), states(3 * 4);
    switch (w.optimizer) {
        case Optimizer::none: return {};
        case Optimizer::sgd: return {parameters * 2.0 * element, parameters * element};
        case Optimizer::adam:
        case Optimizer::lamb:
        case Optimizer::adam8bit:
        case Optimizer::adafactor:
        case Optimizer::muon:
            return {parameters * (element + states), parameters * (element + states)};
    }
    return {};
}

}  // namespace

TaskGraph build_mlp_step(const Experiment& e) {
    const Workload& w = e.workload;
    const Parallelism& p = e.parallelism;
    const Perceptron layer{w.hidden, w.ffn, w.dtype};
    const std::vector<long> rows{static_cast<long>(p.micro_batch) * w.seq};
    const auto forward = perceptron_kernels(layer, Phase::forward, rows),
               backward = perceptron_kernels(layer, Phase::backward, rows);
    const Bytes gradients = 2.0 * real(w.hidden) * real(w.ffn) * size_of(w.dtype);
    TaskGraph graph(rank_count(e.cluster), e.cluster.launch_blocking);
    Program program(graph);
    const auto add_layer = [&](const std::vector<NamedOp>& kernels, Phase phase) {
        for (const NamedOp& kernel : kernels) program.on_each(kernel.name, phase, kernel.op);
    };
    TaskId reduced = no_task;
    const auto reduce = [&](Bytes bucket) {  // later tasks do not wait for it
        const int pieces = e.runtime.gradients.pieces;
        for (int i = 0; i < pieces && p.dp > 1; ++i)
            reduced = Program(program).on_all("gradient_all_reduce", Phase::gradient_sync,
                                              AllReduce{bucket / real(pieces)});
    };
    std::vector<Bytes> buckets;
    Bytes bucket;
    for (int m = 0; m < micro_batches(p); ++m) {
        for (int l = 0; l < w.layers; ++l) add_layer(forward, Phase::forward);
        for (int l = w.layers; l-- > 0;) {
            add_layer(backward, Phase::backward);
            if (m + 1 < micro_batches(p)) continue;
            bucket += gradients;
            if (bucket < bucket_bytes(e) && l > 0) continue;
            if (overlaps_gradients(e)) reduce(bucket);
            buckets.push_back(std::exchange(bucket, Bytes(0)));
        }
    }
    for (std::size_t i = 0; i < buckets.size() && !overlaps_gradients(e); ++i) reduce(buckets[i]);
    if (reduced != no_task) program.follow_all(reduced);
    if (w.optimizer != Optimizer::none)
        program.on_each("optimizer", Phase::optimizer,
                        optimizer_pass(w, 2.0 * w.hidden * w.ffn * w.layers));
    return graph;
}

}  // namespace stepcast
