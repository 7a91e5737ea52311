#include "sim/memory/memory_use.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/base/numbers.h"
#include "model/recorded/moe/layer.h"
#include "model/runtime_rules.h"
#include "model/step.h"
#include "sim/memory/coca_memory.h"
#include "sim/memory/process_memory.h"
#include "sim/memory/transformer_memory.h"
#include "sim/scatter.h"

namespace stepcast {
namespace {

std::vector<double> slots_computed(const Experiment& e, const Routing& routing) {
    if (!routing.counts.empty())
        return computed_slots(e.parallelism.moe_system, e.workload.hidden, routing);
    std::vector<double> slots(as_index(rank_count(e.cluster)));
    for (std::size_t r = 0; r < routing.totals.size(); ++r)
        slots[r] = routing.totals[r].blocks * 64.0;
    return slots;
}

}  // namespace

Bytes optimizer_bytes(const Experiment& e, Bytes stored) {
    const Workload& w = e.workload;
    if (w.optimizer == Optimizer::none || e.run.offload_optimizer) return Bytes(0);
    const Bytes master =
        e.runtime.optimizer.master_weights && stored < Bytes(4) ? Bytes(4) : Bytes(0);
    return master + moment_bytes(e, stored);
}

Bytes moment_bytes(const Experiment& e, Bytes stored) {
    const Workload& w = e.workload;
    if (e.run.offload_optimizer || e.run.paged_optimizer) return Bytes(0);
    switch (w.optimizer) {
        case Optimizer::none:
        case Optimizer::sgd: return Bytes(0);
        case Optimizer::adam:
        case Optimizer::muon:
        case Optimizer::lamb: return 2.0 * (e.runtime.optimizer.master_weights ? Bytes(4) : stored);
        case Optimizer::adam8bit: return Bytes(2 * (1 + 4.0 / 256));
        case Optimizer::adafactor:  // a row and a column of a matrix as wide as the model
            return Bytes(2 * 4.0 / std::max(w.hidden, 1));
    }
    return Bytes(0);
}

bool keeps_gradients_on_host(const Experiment& e) {
    return sends_gradients_to_host(e) || keeps_weights_on_host(e);
}

bool frees_each_step(const Experiment& e) {
    return frees_gradients(e) && !keeps_gradients_on_host(e);
}

MemoryUse summed_up(MemoryUse use, const Experiment& e, Bytes process) {
    const Bytes tensors =
        use.weights + use.gradients + use.optimizer + use.activations + use.buffers;
    use.buffers += (e.runtime.reserved - 1) * tensors;
    use.peak = e.runtime.reserved * tensors;
    use.overheads = process + e.cluster.overheads.fragmentation * use.peak;
    use.capacity = e.cluster.gpu.memory;
    use.fits = use.capacity == Bytes(0) || use.peak + use.overheads <= use.capacity;
    return use;
}

MemoryUse with_doubt(MemoryUse use, const Experiment& e, Bytes process) {
    const Bytes needed = use.peak + use.overheads;
    use.out_of_memory = chance_out_of_memory(e, needed - process, use.capacity - process);
    use.tight = use.fits && is_tight(e, needed, use);
    return use;
}

MemoryUse complete(const MemoryUse& use, const Experiment& e, Bytes process) {
    return with_doubt(summed_up(use, e, process), e, process);
}

bool is_tight(const Experiment& e, Bytes needed, const MemoryUse& use) {
    constexpr double likely = 0.4;
    return use.capacity > Bytes(0) &&
           (needed > (1 - e.cluster.overheads.margin) * use.capacity ||
            (e.cluster.overheads.margin > 0 && use.out_of_memory > likely));
}

double chance_out_of_memory(const Experiment& e, Bytes held, Bytes available) {
    const MemoryScatter& scatter = shipped_scatter().memory;
    if (e.cluster.gpu.memory == Bytes(0) || held <= Bytes(0)) return 0;
    if (available <= Bytes(0)) return 1;
    const bool measured =
        std::ranges::find(scatter.frameworks, e.framework.name) != scatter.frameworks.end();
    const double spread = measured ? scatter.measured : scatter.other,
                 free = std::log(available / held);
    if (spread == 0) return free < 0 ? 1 : 0;
    return 0.5 * std::erfc(free / (spread * std::numbers::sqrt2));
}

MemoryUse memory_use(const Experiment& e, const Routing& routing) {
    const Workload& w = e.workload;
    if (w.kind == Workload::Kind::coca) return coca_memory(e);
    if (w.kind == Workload::Kind::transformer) return transformer_memory(e, routing);
    const bool dense = w.kind == Workload::Kind::mlp;
    const double hidden = w.hidden, ffn = w.ffn, tokens = real(e.parallelism.micro_batch) * w.seq;
    const double experts = dense ? 1 : w.moe.experts / real(rank_count(e.cluster));
    const double parameters = w.layers * (experts * 2 * hidden * ffn + hidden * w.moe.experts);
    const std::vector<double> slots = slots_computed(e, routing);
    const double rows = dense ? tokens : *std::max_element(slots.begin(), slots.end());
    const double routed = dense ? 0 : tokens * w.moe.top_k;
    MemoryUse use;
    use.weights = parameters * size_of(w.dtype);
    use.gradients = use.weights;
    use.optimizer =
        parameters *
        (w.optimizer == Optimizer::sgd ? Bytes(4) : optimizer_bytes(e, size_of(w.dtype)));
    use.activations = w.layers *
                      (tokens * hidden + routed * hidden * 2 + rows * (2 * hidden + 2 * ffn)) *
                      size_of(w.dtype);
    use.buffers = dense ? bucket_bytes(e) : (routed + rows) * hidden * size_of(w.dtype);
    return complete(use, e, process_memory(e));
}

int drawn_routings(const Experiment& e) {
    const bool drawn =
        e.routing.kind != RoutingSpec::Kind::uniform && e.routing.kind != RoutingSpec::Kind::file;
    return drawn && e.workload.moe.experts > 0 ? e.routing.draws : 1;
}

FullestDraw fullest_draw(const Experiment& e) {
    FullestDraw fullest;
    for (int draw = 0; draw < drawn_routings(e); ++draw) {
        Routing routing = routing_of(e, draw);
        const MemoryUse use = memory_use(e, routing);
        if (draw == 0 || use.peak > fullest.use.peak) fullest = {use, std::move(routing)};
    }
    return fullest;
}

}  // namespace stepcast
