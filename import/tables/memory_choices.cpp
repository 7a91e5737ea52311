// Chooses by memory what a row leaves open: micro-batch size, recompute.
#include <algorithm>
#include <ranges>

#include "import/tables/row_parts.h"
#include "sim/predict.h"

namespace stepcast {

namespace {

// Memory of the rank that uses most, with the device's context; tokens are spread evenly over the
// experts.
Bytes needed(const Experiment& e) {
    const MemoryUse use = memory_use(e, {});
    return use.peak + use.overheads;
}

}  // namespace

int fitting_micro_batch(const Experiment& experiment) {
    Experiment e = experiment;
    const int sequences = e.parallelism.global_batch / e.parallelism.dp;
    for (int size = sequences; size > 1; --size) {
        if (sequences % size != 0) continue;
        e.parallelism.micro_batch = size;
        if (needed(e) <= e.cluster.gpu.memory) return size;
    }
    return 1;
}

ChosenRecompute fitting_recompute(const Experiment& experiment, double room) {
    Experiment e = experiment;
    auto& p = e.parallelism;
    const auto fits = [&](Recompute kind, int layers) {
        p.recompute = kind;
        p.recompute_layers = layers;
        return needed(e) <= room * e.cluster.gpu.memory;
    };
    if (fits(Recompute::none, 0)) return {};
    if (e.workload.attention == AttentionKind::plain && fits(Recompute::selective, 0))
        return {Recompute::selective, 0};
    // More recomputed layers never need more memory, so bisection works; a stage may have thousands
    // of layers.
    const int layers = std::max(1, e.workload.layers / p.pp);
    const auto some = std::views::iota(1, layers);
    const auto least =
        std::ranges::partition_point(some, [&](int n) { return !fits(Recompute::full, n); });
    return {Recompute::full, least == some.end() ? 0 : *least};
}

}  // namespace stepcast
