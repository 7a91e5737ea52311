#include "sim/drawn_experts.h"

#include "model/base/errors.h"
#include "sim/memory/allocator_forecast.h"
#include "sim/predict.h"

namespace stepcast {

std::optional<DrawnExperts> drawn_experts(const Experiment& e, Seconds balanced) {
    const bool unstated =
        e.routing.kind == RoutingSpec::Kind::uniform && !is_stated(e, "routing.kind");
    if (!unstated || e.workload.kind != Workload::Kind::transformer || e.parallelism.ep == 1 ||
        e.routing.draws > 1 || e.workload.moe.capacity_factor > 0)
        return std::nullopt;
    DrawnExperts found;
    for (const auto kind : {RoutingSpec::Kind::zipf, RoutingSpec::Kind::random_gate}) {
        Experiment other = e;
        other.routing.kind = kind;
        const MemoryUse memory = memory_forecast(other);
        found.memory = memory.peak + memory.overheads;
        if (!memory.fits && found.stops.empty()) {
            found.stops = to_string(kind);
            found.stops_at = found.memory;
        }
        if (kind != RoutingSpec::Kind::random_gate) continue;
        try {
            found.step = steps_of_draws(other).front() / balanced;
        } catch (const ConfigError&) {  // no two ranks are alike: too many tasks
            found.step = 0;
        }
    }
    return found;
}

}  // namespace stepcast
