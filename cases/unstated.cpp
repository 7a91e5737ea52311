#include "cases/row_parts.h"
#include "sim/predict.h"

namespace stepcast {
namespace {

// On the fullest rank, its device's context included; tokens spread evenly over the experts.
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
    if (e.workload.attention == AttentionKind::plain && fits(Recompute::selective, 0)) return {Recompute::selective, 0};
    const int layers = e.workload.layers / p.pp;
    for (int n = 1; n < layers; ++n)
        if (fits(Recompute::full, n)) return {Recompute::full, n};
    return {Recompute::full, 0};
}

}  // namespace stepcast
