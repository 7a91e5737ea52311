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

// A path through a pipeline as how often it meets each of these, and what each takes, in seconds: their product is a
// time. `entry`: before each slot whose input was sent; `arrival`: between the send and such a slot; `filling`,
// `filled`: in and after each slot that makes gradients of weights, the latter before the next slot of its stage,
// `_single` where the chunk is a lone layer; `opened`: in the last unit of a forward for what comes next on its stage,
// so that whoever waits for that forward itself counts it off; `inside_last`: layers but one of a slot that makes the
// last gradients of its chunk, `after_last`: between it and the next slot of its stage; hosts: what issuing a layer
// takes.
using Features = std::array<double, 40>;
namespace feature {
// Those before `settled` change with the collectives of data parallelism, the others with shape and pipeline alone.
inline constexpr int settled = 24, device_end = 30;
constexpr std::size_t unit(UnitKind kind, Pass pass) {
    return static_cast<std::size_t>(static_cast<int>(pass) * unit_kinds + static_cast<int>(kind));
}
inline constexpr std::size_t filled = 16, filling = 17, opened = 18, filled_single = 19, filling_single = 20,
                             inside_last = 21, after_last = 22, arrival = 23, send_near = 26, send_far = 27,
                             send_wrap = 28, entry = 29;
constexpr std::size_t again(UnitKind kind) { return settled + static_cast<std::size_t>(kind); }  // of a layer
constexpr std::size_t host(UnitKind kind, Pass pass) {
    return static_cast<std::size_t>(device_end + static_cast<int>(pass) * 2 + static_cast<int>(kind));
}
constexpr std::size_t host_again(UnitKind kind) { return 38 + static_cast<std::size_t>(kind); }
}  // namespace feature

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
