// The groups of ranks that work together under a Parallelism, laid out by its rank order.
#pragma once

#include <vector>

#include "model/experiment.h"
#include "model/graph/group.h"
#include "model/parallelism.h"

namespace stepcast {

// A group of one rank is Group{}. `first` is 0 in all groups.
struct RankGroups {
    Group tensor, context, data;
    // dp x cp: gradients and ZeRO shards of all parameters except experts
    Group data_context;
    // the ep ranks that together hold all experts of a layer, innermost first
    Group expert;
    Group expert_data;  // the replicas of one expert
    // What parallelism.shard makes of the two groups above; without it they are one shard each.
    Group shard;           // the ranks that together hold one copy, innermost of dp x cp first
    Group shard_replicas;  // the ranks that hold the same piece
    Group expert_shard;    // the part of expert_data among the ranks of one copy
    Group expert_shard_replicas;
    Group pipeline_neighbour;  // a stage and the next one
    Group embedding;           // first and last stage
    friend bool operator==(const RankGroups&, const RankGroups&) = default;
};

// Experts are spread over the ranks of dp x cp, and also of tp if experts are not split over
// tensor-parallel ranks. Throws ConfigError with the key if rank_order is no order of tp, cp, dp
// and pp, if ep or shard does not divide its ranks, or if one of their groups has no regular
// pattern of rank numbers.
RankGroups rank_groups(const Parallelism& parallelism, bool splits_experts = true);
RankGroups rank_groups(const Experiment& experiment);

// The rank with these coordinates, which count from 0.
int rank_of(const Parallelism& parallelism, int tp, int cp, int dp, int pp);

// The ranks of the group of this shape that begins at `first`, in the group's order.
std::vector<int> members(const Group& group, int first);

// True if all groups of this shape have the same placement on nodes of `ranks_per_node` ranks:
// equal numbers of members on equal places. For a group with `block` (pairs of stages) this
// concerns the ranks of one stage.
bool lies_alike(const Group& group, int ranks_per_node);

}  // namespace stepcast
