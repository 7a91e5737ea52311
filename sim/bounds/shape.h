// Times and memory of one rank's share of a layer and of the ends, for one way to split tensors,
// sequences and experts. Each plan of the step (model/transformer/layer_plans.h) is priced once and
// simulated alone.
#pragma once

#include <array>
#include <map>

#include "model/transformer/schedule.h"
#include "sim/costs/costs.h"
#include "sim/memory/memory_parts.h"

namespace stepcast {

// Either how often a path contains each of these, or how many seconds each takes: the length of the
// path is the product of both.
namespace feature {
enum : std::size_t {
    units = 0,  // passes of a layer or an end of the model: see unit()
    // For slots that make weight gradients. `filled`: what the next slot of the stage waits for
    // after such a slot. `filling`: by how much collectives change the slot itself. `_single`: the
    // same for a chunk of one layer.
    filled = units + 4 * unit_kinds,
    filling,
    // What the stage's next slot waits for after a forward. The last unit of the forward includes
    // it, so the forward's slot subtracts it.
    opened,
    filled_single,
    filling_single,
    inside_last,  // in the slot that makes the last gradients of its chunk: all layers but one
    after_last,   // the step from that slot to the next slot of its stage
    arrival,      // between a send and the slot that waited for it
    // The features before this one change with the collectives of data parallelism; those from here
    // on only with shape and pipeline.
    settled,
    agains = settled,                         // recomputed layers in a backward: see again()
    send_near = agains + layer_kinds.size(),  // sends to a stage of the same node,
    send_far,                                 // of another,
    send_wrap,                                // and from the last stage to the first
    entry,                                    // before a slot whose input was sent
    none,                                     // end of the features that take device time
    // the host's time to issue a layer: see host(), host_again()
    hosts = none,
    host_agains = hosts + 4 * layer_kinds.size(),
    count = host_agains + layer_kinds.size()
};
constexpr std::size_t unit(UnitKind kind, Pass pass) {
    return units + static_cast<std::size_t>(pass) * unit_kinds + at(kind);
}
constexpr std::size_t again(UnitKind kind) { return agains + at(kind); }
constexpr std::size_t host(UnitKind kind, Pass pass) {
    return hosts + static_cast<std::size_t>(pass) * layer_kinds.size() + at(kind);
}
constexpr std::size_t host_again(UnitKind kind) { return host_agains + at(kind); }
}  // namespace feature
using Features = std::array<double, feature::count>;
inline constexpr std::array all_passes{Pass::forward, Pass::backward, Pass::input_backward,
                                       Pass::weight_backward};

// Prices operations on one cluster; keeps the times of matrix products and the paths of groups.
class OpPrices {
public:
    explicit OpPrices(const Cluster& cluster) : cluster_(cluster), paths_(cluster) {}
    Seconds local(const Op& op, Phase phase);
    Seconds collective(const Op& op, const Group& group);  // 0 for a group of one
    [[nodiscard]] const RingPath& path(const Group& group) { return paths_.of(group); }
    [[nodiscard]] const Cluster& cluster() const { return cluster_; }

private:
    const Cluster& cluster_;
    RingPaths paths_;
    std::map<Gemm, Seconds> gemms_;
};

// `lower`: a bound on the device time of a plan that runs alone on its rank. `estimate`: its
// simulated device time or, where host and device wait for each other, what a second plan behind
// the first adds. Excludes sends. Times of recomputed layers are always filled in.
struct BoundShape {
    Routing routing;
    RankShape shape;
    UnitMemory units;         // on a stage with both ends
    UnitWeights copied_head;  // head when it is on another stage than the embedding
    Features lower{}, estimate{};
    // part of `estimate` in which kernels overlap no collective of their own plan
    Features computing{};
    Features alone{};  // the same of `lower`
    // part of `estimate` before the first collective of the plan, and after its last
    Features lead{}, rest{};
    Seconds gather;  // of activations that were sent in parts
};

BoundShape bound_shape(const Experiment& experiment, const Routing& routing, OpPrices& prices);

}  // namespace stepcast
