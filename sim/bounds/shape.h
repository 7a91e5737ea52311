// Times and memory of one rank's share of a layer and of the ends, for one way to split tensors,
// sequences and experts. Each plan of the step (model/transformer/layer_plans.h) is priced once and
// simulated alone.
#pragma once

#include "sim/bounds/feature.h"
#include "sim/bounds/op_prices.h"

namespace stepcast {

// A host that waits for the device in the middle of a plan issues the rest when it goes on, and
// then the plans behind, each with its own work. In seconds, by how much the device is done later
// than the plans take on it: 0 where the host does not wait, or is fast enough.
struct HostWaits {
    std::array<bool, 4> pass{};  // whether it waits, by pass
    bool again = false;          // and in the recompute
    // by pass of the backward: of a recompute and that pass
    std::array<double, 4> repeated{};
    // of a forward and that pass, as it is and with its recompute
    std::array<double, 4> turn{}, turn_again{};
    friend bool operator==(const HostWaits&, const HostWaits&) = default;
};

// Of passes that go by turns (sim/bounds/turns.h), what bounds a stage: K + s / (1 + s) C, C, and K
// with what a cycle takes beyond it (as the stall of forwards) and a pair of layers (as the turn).
struct TimesByTurns {
    // whether a layer has several parts of each pass and its host waits: what a path from stage to
    // stage says of a pair (by_turns) is known then
    bool alternates = false;
    FeatureTimes slowed{}, exchanging{}, waiting{};
};

// `lower`: a bound on the device time of a plan that runs alone on its rank. `estimate`: its
// simulated device time or, where host and device wait for each other, what a second plan behind
// the first adds. Excludes sends. Times of recomputed layers are always filled in.
struct BoundShape {
    bool timed = false;  // whether the times are there; all else always is
    Routing routing;
    RankShape shape;
    UnitMemory units;         // on a stage with both ends
    UnitWeights copied_head;  // head when it is on another stage than the embedding
    FeatureTimes lower{}, estimate{};
    // part of `estimate` in which kernels overlap no collective of their own plan
    FeatureTimes computing{};
    FeatureTimes alone{};  // the same of `lower`
    HostWaits waits;       // of expert layers
    TimesByTurns turns;
    // part of `estimate` before the first collective of the plan, and after its last
    FeatureTimes lead{}, rest{};
    Seconds gather;  // of activations that were sent in parts
};

// Without times: what memory depends on. Both set the experiment's schedule to one that
// splits backwards: a copy for each of many shapes would cost more than the shape.
BoundShape bound_shape(Experiment& experiment, const Routing& routing);
void add_times(BoundShape& shape, Experiment& experiment, OpPrices& prices);

}  // namespace stepcast
