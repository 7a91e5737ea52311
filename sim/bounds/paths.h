// The longest paths through the slots of all stages, one for each direction, traced back from their
// ends (SlotTimes).
#pragma once

#include <span>
#include <vector>

#include "model/transformer/chunks.h"
#include "model/workload.h"
#include "sim/bounds/feature.h"
#include "sim/bounds/pipeline.h"

namespace stepcast {

// For every direction, the longest path to the end of the slots of each group. A round adds the
// part of the path that returns to the same pass of the same chunk one round of micro-batches
// later, while every stage is between its fill and its drain (there, orders repeat every round). A
// path without such a part adds nothing. Result: [direction][group].
std::vector<std::vector<PipelinePath>> longest_paths(const PipelineKey& key,
                                                     const Workload& workload,
                                                     std::span<const std::vector<int>> group_stages,
                                                     std::span<const TimesOfDirection> directions);

}  // namespace stepcast
