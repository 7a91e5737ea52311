// How long each task would take on a cluster, from its op alone.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "model/cluster.h"
#include "model/graph/task_graph.h"
#include "sim/network/link_use.h"
#include "sim/network/ring_path.h"

namespace stepcast {

// Per task id. `issue`: host time to issue the task on each of its ranks. `links`: empty if no two
// tasks can share a link.
struct Costs {
    std::vector<Seconds> duration;
    std::vector<Seconds> issue;
    LinkUses links = {};
    friend bool operator==(const Costs&, const Costs&) = default;
};

// The constant of the cluster that gives the share of the memory's rate that a pass reaches.
struct PassConstant {
    MemoryPass::Access access;
    const char* key;
    double KernelCosts::*efficiency;
};
inline constexpr PassConstant pass_constants[]{
    {MemoryPass::Access::stream, "kernel.memory_efficiency", &KernelCosts::memory_efficiency},
    {MemoryPass::Access::transpose, "kernel.transpose_efficiency",
     &KernelCosts::transpose_efficiency},
    {MemoryPass::Access::optimizer, "kernel.optimizer_efficiency",
     &KernelCosts::optimizer_efficiency},
    {MemoryPass::Access::rows, "kernel.row_efficiency", &KernelCosts::row_efficiency},
    {MemoryPass::Access::strided, "kernel.strided_efficiency", &KernelCosts::strided_efficiency}};
constexpr const PassConstant& pass_constant(MemoryPass::Access access) {
    return *std::ranges::find(pass_constants, access, &PassConstant::access);
}

// Time of a collective inside a step, with the path of its group.
Seconds time_in_step(const Op& op, const RingPath& path, const Cluster& cluster);

// Host time to issue one of a task's host_calls.
Seconds host_call_time(const Cluster& cluster);

// Prices every task. Tasks of one class (sim/costs/price_classes.h) are priced once.
Costs price(const TaskGraph& graph, const Cluster& cluster);

}  // namespace stepcast
