// What a process holds of a device's memory that no allocator of its tensors has.
#pragma once

#include <functional>
#include <string_view>

#include "model/experiment.h"
#include "model/rank_groups.h"

namespace stepcast {

// cluster.overheads.context, or else what libraries.toml says: the context of CUDA, and NCCL's
// buffers for the groups of ranks that a step uses. Groups that frameworks make beside these (a
// barrier of all ranks, say) are not known.
Bytes process_memory(const Experiment& experiment, const RankGroups& groups);
Bytes process_memory(const Experiment& experiment);

// Its parts, if the cluster does not state the whole; none of a device that has no compute
// capability.
using TakePart = std::function<void(std::string_view what, Bytes bytes)>;
void for_process_parts(const Experiment& experiment, const RankGroups& groups,
                       const TakePart& take);

// Ranks of the group that are on the node of its first one, where nodes have so many.
int ranks_on_node(const Group& group, int ranks_per_node);

}  // namespace stepcast
