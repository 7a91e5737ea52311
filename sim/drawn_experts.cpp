#include "sim/drawn_experts.h"

#include "model/base/errors.h"
#include "sim/memory/allocator_forecast.h"
#include "sim/predict.h"

namespace stepcast {

namespace {

Experiment drawn_by(const Experiment& e, RoutingSpec::Kind kind) {
    Experiment other = e;
    other.routing.kind = kind;
    return other;
}

}  // namespace

bool balances_experts(const Experiment& e) {
    const bool unstated =
        e.routing.kind == RoutingSpec::Kind::uniform && !is_stated(e, "routing.kind");
    return unstated && e.workload.kind == Workload::Kind::transformer && e.parallelism.ep > 1 &&
           e.routing.draws <= 1 && e.workload.moe.capacity_factor == 0;
}

DrawnExperts drawn_experts(const Experiment& e, Seconds balanced) {
    DrawnExperts found;
    try {
        found.step = steps_of_draws(drawn_by(e, RoutingSpec::Kind::random_gate)).front() / balanced;
    } catch (const ConfigError&) {  // no two ranks are alike: too many tasks
        found.step = 0;
    }
    return found;
}

void add_drawn_memory(const Experiment& e, DrawnExperts& drawn) {
    for (const auto kind : {RoutingSpec::Kind::zipf, RoutingSpec::Kind::random_gate}) {
        const MemoryUse memory = memory_forecast(drawn_by(e, kind));
        drawn.memory = memory.peak + memory.overheads;
        if (memory.fits || !drawn.stops.empty()) continue;
        drawn.stops = to_string(kind);
        drawn.stops_at = drawn.memory;
    }
}

}  // namespace stepcast
