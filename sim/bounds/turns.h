// Steps in which a forward and a backward of a stage go by turns, each while the other exchanges
// (parallelism.overlap_experts). Such passes are no chain of slots, so their stage is bounded as a
// whole. With K the kernels of all its passes, C their collectives, which one lane runs, and s what
// kernels lose beside a collective:
// - It takes no less than C, nor than K + s / (1 + s) C: o seconds of collectives beside kernels
//   lengthen these by s / (1 + s) o, and the other C - o seconds pass without kernels.
// - In each expert layer of a forward the host waits for the device to know how many tokens come.
//   Until it waits in the next layer it issues the parts of one layer of each pass, and the device
//   runs its kernels in this order: together no less than these parts take from an idle device on
//   (a cycle). Two passes of as many layers begin and end together, so that what comes before the
//   first wait and after the last takes no less than in a pair of single layers; and from its last
//   wait to the first of a pair behind it the host issues as much as in a cycle. Kernels of all
//   else add up.
// - Its first pass waits for forwards of all chunks before the one that it runs, and after its last
//   one backwards of these are still to come, on stages that end later. These passes wait for each
//   other, so that they take as much one by one.
#pragma once

#include <vector>

#include "model/workload.h"
#include "sim/bounds/pipeline.h"

namespace stepcast {

// The slots of a path that go by turns take no less than this, in seconds.
double length_by_turns(const FeatureCounts& turns, const TimesByTurns& times);

// Paths to the end of the slots of a stage, through all that each stage does whose last pass comes
// no later than that of this one; and that of its host, which issues all its passes.
std::vector<PipelinePath> paths_by_turns(const PipelineKey& key, const Workload& workload,
                                         int stage);

}  // namespace stepcast
