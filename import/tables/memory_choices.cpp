#include "import/tables/memory_choices.h"

#include <algorithm>
#include <cmath>
#include <ranges>

#include "import/tables/row_parts.h"
#include "model/runtime_rules.h"
#include "sim/memory/allocator_forecast.h"
#include "sim/memory/memory_use.h"

namespace stepcast {

namespace {

// Whether the rank that uses most, with the device's context, takes no more than that share of the
// device. The replay decides where the closed form, with tokens spread evenly over the experts, is
// near.
bool takes_at_most(const Experiment& e, double share) {
    constexpr double near = 0.2;
    const Bytes most = share * e.cluster.gpu.memory;
    MemoryUse use = memory_use(e, {});
    Bytes needed = use.peak + use.overheads;
    if (is_replayed(e) && std::abs(needed / most - 1) < near) {
        use = memory_forecast(e);
        needed = use.peak + use.overheads;
    }
    return needed <= most;
}

}  // namespace

int fitting_micro_batch(const Experiment& experiment) {
    Experiment e = experiment;
    const int sequences = e.parallelism.global_batch / e.parallelism.dp;
    for (int size = sequences; size > 1; --size) {
        if (sequences % size != 0) continue;
        e.parallelism.micro_batch = size;
        if (takes_at_most(e, 1)) return size;
    }
    return 1;
}

std::optional<int> fitting_zero(const Experiment& experiment) {
    Experiment e = experiment;
    auto& p = e.parallelism;
    p.recompute = Recompute::full;
    for (const int stage : e.framework.can.zero) {
        p.zero = stage;
        if (takes_at_most(e, 1)) return stage;
    }
    return std::nullopt;
}

ChosenRecompute fitting_recompute(const Experiment& experiment, double room) {
    Experiment e = experiment;
    auto& p = e.parallelism;
    const auto fits = [&](Recompute kind, int layers) {
        p.recompute = kind;
        p.recompute_layers = layers;
        return takes_at_most(e, room);
    };
    if (fits(Recompute::none, 0)) return {};
    const auto& able = e.framework.can.recompute;  // empty: of all
    if (attention_kernel(e) == AttentionKind::plain &&
        (able.empty() || std::ranges::count(able, Recompute::selective) > 0) &&
        fits(Recompute::selective, 0))
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
