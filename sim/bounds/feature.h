// What the closed forms count on a path through the slots of a step, and what they time: the length
// of a path is the sum over the features of how often it contains each, times the seconds of each.
#pragma once

#include <array>

#include "model/base/numbers.h"
#include "model/transformer/schedule.h"
#include "sim/memory/memory_parts.h"

namespace stepcast {

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
    // Of expert layers, in which the host waits for the device: what the device loses between two
    // neighbours of a slot, until they are issued (see stall()), and between the last of a forward
    // and the first of the backward that the stage does next.
    stalls,
    turn = stalls + 3,
    // The features before this one change with the collectives of data parallelism; those from here
    // on only with shape and pipeline.
    settled = turn + 1,
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
    return units + as_index(pass) * unit_kinds + at(kind);
}
// For all passes but those of weight gradients alone.
constexpr std::size_t stall(Pass pass) { return stalls + as_index(pass); }
constexpr std::size_t again(UnitKind kind) { return agains + at(kind); }
constexpr std::size_t host(UnitKind kind, Pass pass) {
    return hosts + as_index(pass) * layer_kinds.size() + at(kind);
}
constexpr std::size_t host_again(UnitKind kind) { return host_agains + at(kind); }
}  // namespace feature
inline constexpr std::array all_passes{Pass::forward, Pass::backward, Pass::input_backward,
                                       Pass::weight_backward};

enum class FeatureValue : std::uint8_t { counts, seconds };
// One number for each feature.
template <FeatureValue value>
struct PerFeature {
    std::array<double, feature::count> values{};
    constexpr double& operator[](std::size_t feature) { return values[feature]; }
    constexpr double operator[](std::size_t feature) const { return values[feature]; }
    friend auto operator<=>(const PerFeature&, const PerFeature&) = default;
};
using FeatureCounts = PerFeature<FeatureValue::counts>;  // how often a path contains each
using FeatureTimes = PerFeature<FeatureValue::seconds>;  // how many seconds each takes

// The length in seconds of a path, of its features from `first` to before `last` alone. Four
// independent sums can be vectorized.
template <std::size_t first = 0, std::size_t last = feature::count>
double length_of(const FeatureCounts& path, const FeatureTimes& times) {
    static_assert((last - first) % 4 == 0);
    std::array<double, 4> sums{};
    for (std::size_t i = first; i < last; i += 4)
        for (std::size_t j = 0; j < 4; ++j) sums[j] += path[i + j] * times[i + j];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}
// The part of a path that the collectives of data parallelism change, and the part that they do
// not.
inline double changing_length(const FeatureCounts& path, const FeatureTimes& times) {
    return length_of<0, feature::settled>(path, times);
}
inline double settled_length(const FeatureCounts& path, const FeatureTimes& times) {
    return length_of<feature::settled, feature::count>(path, times);
}

}  // namespace stepcast
