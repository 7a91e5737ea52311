#include "calibrate/step_model.h"

#include <algorithm>
#include <cmath>

#include "model/machine/calibration.h"
#include "model/step.h"
#include "sim/explain/elasticity.h"

namespace stepcast {
namespace {

constexpr double nudge = 0.05;  // of a logarithm

bool in_graph(const std::string& key) { return key == eager_traffic_key; }

Experiment at_factors(const Experiment& base, const std::vector<std::string>& keys, const std::vector<double>& factors) {
    Experiment e = base;
    e.cluster.fitted.reset();  // what it was fitted from is no part of its times, and long to copy
    for (std::size_t j = 0; j < keys.size(); ++j) {
        if (in_graph(keys[j]))
            e.parallelism.eager_traffic *= factors[j];
        else
            e.cluster = with_scaled(e.cluster, keys[j], factors[j]);
    }
    return e;
}

// Step and its change by each key, in seconds a unit of the logarithm.
struct Slopes {
    double step = 0;
    std::vector<double> changes;
};

Slopes of_whole(const Experiment& e, const std::vector<std::string>& keys) {
    const TaskGraph graph = build_step(e, routing_of(e));
    const WhatIf step(graph, e.cluster);
    Slopes found{step.timeline().end.si(), {}};
    for (const std::string& key : keys) {
        Seconds more;
        if (!in_graph(key)) {
            more = step.along_path(with_scaled(e.cluster, key, std::exp(nudge)));
        } else if (e.parallelism.eager) {
            Experiment other = e;
            other.parallelism.eager_traffic *= std::exp(nudge);
            more = step.along_path(build_step(other, routing_of(other)));
        }
        found.changes.push_back(more.si() / nudge);
    }
    return found;
}

Experiment with_micro_batches(Experiment e, int count) {
    e.parallelism.global_batch = count * e.parallelism.dp * e.parallelism.micro_batch;
    return e;
}

}  // namespace

StepSlopes step_with_slopes(const Case& what, const std::vector<std::string>& keys, const std::vector<double>& factors) {
    const Experiment e = at_factors(what.experiment, keys, factors);
    const Parallelism& p = e.parallelism;
    const int count = micro_batches(p), round = std::max(2, p.pp), few = p.pp == 1 ? 3 : 2 * p.pp, more = few + round;
    Slopes s;
    if (e.workload.kind != Workload::Kind::transformer || count <= more || p.global_batch == 0) {
        s = of_whole(e, keys);
    } else {
        const Slopes first = of_whole(with_micro_batches(e, few), keys), second = of_whole(with_micro_batches(e, more), keys);
        const double along = static_cast<double>(count - more) / round;
        s.step = second.step + along * (second.step - first.step);
        for (std::size_t j = 0; j < keys.size(); ++j)
            s.changes.push_back(second.changes[j] + along * (second.changes[j] - first.changes[j]));
    }
    StepSlopes found{Seconds(s.step), {}};
    for (const double change : s.changes) found.slopes.push_back(change / s.step);
    return found;
}

}  // namespace stepcast
