// What one rank's share of a layer and of the ends costs and holds, for one way to split tensors, sequences and
// experts: the plans of the step (model/transformer/layer_plans.h) priced once and run alone.
#pragma once

#include <array>
#include <map>
#include <tuple>

#include "model/pipeline/schedule.h"
#include "sim/costs/costs.h"
#include "sim/memory/memory_parts.h"

namespace stepcast {

// A path through a pipeline as how often it meets each of these, or what each of these takes, in seconds: the product of both
// is the length of the path.
namespace feature {
enum : std::size_t {
    units = 0,  // passes of a layer or an end of the model: see unit()
    // After a slot that makes gradients of weights what the next slot of its stage waits for, and in it what its collectives change;
    // `_single`: the same of a chunk that is a lone layer.
    filled = units + 4 * unit_kinds,
    filling,
    // What follows a forward on its stage waits for this, which is counted in the forward's last unit already: whoever waits for
    // the forward itself counts it off.
    opened,
    filled_single,
    filling_single,
    inside_last,  // layers but one of the slot that makes the last gradients of its chunk,
    after_last,   // and between that slot and the next of its stage
    arrival,      // between a send and the slot that waited for it
    // Those before change with the collectives of data parallelism, those from here on with shape and pipeline alone.
    settled,
    agains = settled,  // layers computed again in a backward: see again()
    send_near = agains + layer_kinds.size(),  // sends to a stage of the same node,
    send_far,                                 // of another,
    send_wrap,                                // and from the last stage to the first
    entry,                                    // before a slot whose input was sent
    none,                                     // nothing more takes a device's time
    hosts = none,                             // what issuing a layer takes the host: see host(), host_again()
    host_agains = hosts + 4 * layer_kinds.size(),
    count = host_agains + layer_kinds.size()
};
constexpr std::size_t unit(UnitKind kind, Pass pass) { return units + static_cast<std::size_t>(pass) * unit_kinds + at(kind); }
constexpr std::size_t again(UnitKind kind) { return agains + at(kind); }
constexpr std::size_t host(UnitKind kind, Pass pass) { return hosts + static_cast<std::size_t>(pass) * layer_kinds.size() + at(kind); }
constexpr std::size_t host_again(UnitKind kind) { return host_agains + at(kind); }
}  // namespace feature
using Features = std::array<double, feature::count>;
inline constexpr std::array all_passes{Pass::forward, Pass::backward, Pass::input_backward, Pass::weight_backward};

// Prices ops on one cluster; matrix products and group paths are kept.
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
    std::map<std::tuple<long, long, long, long, Dtype, bool, bool, Gemm::Layout>, Seconds> gemms_;  // by all that they are
};

// `lower`: device time without hosts, on a rank on which nothing but the plan runs. `estimate`: alone on its rank with
// both; a layer in which the host waits for the device as one of many. Sends are left out; layers computed again are
// filled in whether or not they are.
struct BoundShape {
    Routing routing;
    RankShape shape;
    UnitMemory units;         // on a stage with both ends
    UnitWeights copied_head;  // head when it is on another stage than the embedding
    Features lower{}, estimate{};
    Features computing{};     // part of `estimate` in which kernels overlap no collective of their own plan
    Features alone{};         // the same of `lower`
    Features lead{}, rest{};  // part of `estimate` before the first collective of the plan, and after its last
    Seconds gather;           // of activations that were sent in parts
};

BoundShape bound_shape(const Experiment& experiment, const Routing& routing, OpPrices& prices);

}  // namespace stepcast
