// Steps in which a forward and a backward of a stage go by turns, each while the other exchanges
// (parallelism.overlap_experts). A pair of such passes is bounded as one slot of a path, and a
// stage as a whole. With K the kernels of all its passes, C their collectives, which one lane runs,
// and s what kernels lose beside a collective:
// - It takes no less than C, nor than K + s / (1 + s) C: o seconds of collectives beside kernels
//   lengthen these by s / (1 + s) o, and the other C - o seconds pass without kernels.
// - In each expert layer of a forward the host waits for the device to know how many tokens come.
//   Until it waits in the next layer it issues the parts of one layer of each pass, and the device
//   runs its kernels in this order: together no less than these parts take from an idle device on
//   (a cycle). What comes before the first wait and, in the last layers of both that go by turns,
//   after it takes no less than in a pair of single layers; and from the last wait to the first of
//   an equal pair behind it the host issues as much as in a cycle. Kernels of all else add up.
// - In each layer the backward's first part comes before the forward's, and its last one too. So a
//   pair that waits for the forward's input has its backward's first part behind it, and when the
//   backward's result is there the forward's last part, and the all-to-all before it, may be left.
//   Layers that only one of both has follow one by one.
// - Its first pass waits for forwards of all chunks before the one that it runs, and after its last
//   one backwards of these are still to come, on stages that end later. These passes wait for each
//   other, so that they take as much one by one.
#pragma once

#include <array>
#include <vector>

#include "model/workload.h"
#include "sim/bounds/slots.h"

namespace stepcast {

// What passes that go by turns count beside their units, at places that they have no other use for;
// with kernels K of a layer of each pass, and its time D from an idle device on:
namespace by_turns {
inline constexpr std::size_t
    cycle = feature::filled,  // between two waits, beyond K
    pair = feature::filling,  // D - K, until the forward's last kernel
    // collectives that need not be within a pair: what the forward's input waits for before its
    // first kernel, and what the backward exchanges in its last part
    apart = feature::opened,
    // the backward's first part; what the backward's result does not wait for
    enters = feature::filled_single, leaves = feature::filling_single,
    // the first of the layers of one pass that follow: what it takes longer by its host
    forward_alone = feature::inside_last, backward_alone = feature::after_last,
    // the first layer of a forward beside a backward that has none: beyond its kernels
    forward_first = feature::turn;
// Another pair behind it: what both take longer by the host, and with all of D; behind the last
// turn, behind a forward that goes on alone, and behind one layer of a backward that does.
inline constexpr std::size_t behind = feature::arrival, behind_forward = feature::stalls,
                             behind_backward = feature::stalls + 1;
inline constexpr std::array edges{behind, behind_forward, behind_backward};
}  // namespace by_turns

// The chunks of a forward and a backward that go by turns.
struct Pair {
    Chunk forward, backward;
};
// Whether the result of a pass waits for what both passes of the pair take. Where layers without
// experts are among them, or the pass has no layer, that is not said.
bool awaits_both(const Workload& workload, const Pair& pair, Pass ends);
// Which of the edges the stage counts between two pairs, one behind the other; feature::none where
// nothing is known.
std::size_t behind(const Workload& workload, const Pair& before, const Pair& pair);
inline void count_behind(std::size_t edge, FeatureCounts& turns) {
    if (edge != feature::none) ++turns[edge];
    if (edge == by_turns::behind) ++turns[by_turns::apart];  // which is within both
}
inline bool forward_ends_last(const Pair& pair) {
    return pair.forward.last - pair.forward.first >= pair.backward.last - pair.backward.first;
}
// What is done until the result of `ends` is there, from the moment at which both passes may begin,
// or if `forward_last` from that at which the forward has its input and the backward has begun.
// Where it does not await both: the one pass alone.
SlotCounts pair_counts(const Workload& workload, const Pair& pair, Pass ends, bool forward_last);

// The slots of a path that go by turns take no less than this, in seconds.
double length_by_turns(const FeatureCounts& turns, const TimesByTurns& times);

// Paths to the end of the slots of a stage, through all that each stage does whose last pass comes
// no later than that of this one; and that of its host, which issues all its passes.
std::vector<PipelinePath> paths_by_turns(const PipelineKey& key, const Workload& workload,
                                         int stage);

}  // namespace stepcast
