#include "calibrate/fit_moe.h"

#include <cmath>
#include <stdexcept>

#include "model/graph/step_times.h"
#include "model/records/measurements.h"
#include "model/step.h"
#include "sim/costs/costs.h"
#include "sim/engine/simulate.h"

namespace stepcast {

Seconds MoeRunTimes::kernel(const MoeKernel& key) const {
    const auto at = kernels.find(key);
    if (at == kernels.end())
        throw std::logic_error("moe fit: the graph has no kernel " + std::get<0>(key) + " on rank " +
                               std::to_string(std::get<2>(key)));
    return at->second;
}

Seconds MoeRunTimes::median_kernel(const std::string& name, Phase phase, int ranks) const {
    std::vector<double> times;
    for (int rank = 0; rank < ranks; ++rank) times.push_back(kernel({name, phase, rank}).si());
    return Seconds(median(times));
}

namespace {

MoeRunTimes::Part part_of(const std::vector<double>& draws) {
    return {Seconds(median(draws)), 0.5 * std::log(quantile(draws, 0.84) / quantile(draws, 0.16))};
}

}  // namespace

MoeRunModel::MoeRunModel(Experiment experiment, const std::optional<Routing>& routing)
    : routing_known_(routing.has_value()) {
    if (routing) {
        graphs_.push_back(build_step(experiment, *routing));
        return;
    }
    experiment.routing.kind = RoutingSpec::Kind::random_gate;
    for (int draw = 0; draw < gate_draws; ++draw)
        graphs_.push_back(build_step(experiment, routing_of(experiment, draw)));
}

const MoeRunTimes& MoeRunModel::times(const Cluster& cluster) {
    if (last_ == cluster) return times_;
    std::vector<double> step, forward, backward;
    times_.kernels.clear();
    for (const TaskGraph& graph : graphs_) {
        const Costs costs = price(graph, cluster);
        Timeline timeline;
        run_in_order(graph, costs, timeline);
        const StepTimes times = step_times(graph, timeline, 0);
        step.push_back(times.step.si());
        forward.push_back(times.forward.si());
        backward.push_back(times.backward.si());
        if (!routing_known_) continue;
        for (TaskId t = 0; t < graph.size(); ++t) {
            const Place place = graph.places(t).front();
            if (place.lane() != Lane::compute) continue;
            times_.kernels[{std::string(graph.name(t)), graph.phase(t), place.rank()}] +=
                timeline.finish[t] - timeline.start[t];
        }
    }
    times_.step = part_of(step);
    times_.forward = part_of(forward);
    times_.backward = part_of(backward);
    last_ = cluster;
    return times_;
}

}  // namespace stepcast
