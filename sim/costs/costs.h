// How long each task would take on a cluster, from its op alone.
#pragma once

#include <string>
#include <vector>

#include "model/cluster.h"
#include "model/graph/task_graph.h"
#include "sim/network/link_use.h"
#include "sim/network/ring_path.h"

namespace stepcast {

// Per task id. `issue` is the host time that issuing the task takes on each of its ranks. `links`: empty where no two
// tasks can share a link.
struct Costs {
    std::vector<Seconds> duration;
    std::vector<Seconds> issue;
    LinkUses links = {};
    friend bool operator==(const Costs&, const Costs&) = default;
};

// Duration of one op on a cluster. `places` gives the participants of a collective, `phase` the direction of host
// calls.
Seconds op_time(const Op& op, Phase phase, std::span<const Place> places, const Cluster& cluster);

// Of a collective among a stated group, inside a step.
Seconds time_in_step(const Op& op, const RingPath& path, const Cluster& cluster);

// What issuing takes for one of a task's host_calls.
Seconds host_call_time(const Cluster& cluster);

// Prices every task, those of one class (sim/costs/price_classes.h) once.
Costs price(const TaskGraph& graph, const Cluster& cluster);

// What lies outside the calibrated ranges, one line each ("gemm 64x8x8 fp16: extrapolated, ..."); empty when nothing.
std::vector<std::string> extrapolations(const TaskGraph& graph, const Cluster& cluster);

}  // namespace stepcast
