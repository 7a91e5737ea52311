// The directions in which the longest paths of a pipeline are searched.
#pragma once

#include "sim/bounds/pipeline.h"

namespace stepcast {

// Times of a workload's own layers on one rank (`reference`), in which sends, recompute, backwards
// or hosts weigh more or less. A path that is the longest under a split's own times is found if it
// is the longest under one of these too; one that is missed makes the bound lower and never wrong.
Directions search_directions(const PipelineKey& key, const Workload& workload,
                             const FeatureTimes& reference);

}  // namespace stepcast
