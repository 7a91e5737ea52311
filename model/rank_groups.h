// Which ranks work together under a Parallelism: the rank order laid out as groups.
#pragma once

#include <vector>

#include "model/graph/group.h"
#include "model/parallelism.h"

namespace stepcast {

// Groups of one rank are Group{}. `first` is 0 in all.
struct RankGroups {
    Group tensor, context, data;
    Group data_context;        // dp x cp: gradients and ZeRO shards of everything but experts
    Group expert;              // the ep ranks that hold all experts of a layer between them, innermost first
    Group expert_data;         // the replicas of one expert
    Group shard;               // zero 3: the ranks that hold one copy between them, innermost of dp x cp first
    Group shard_replicas;      // zero 3: the ranks that hold the same piece
    Group expert_shard;        // zero 3: of expert_data, those among the ranks of one copy
    Group expert_shard_replicas;
    Group pipeline_neighbour;  // a stage and the next
    Group embedding;           // first and last stage
    friend bool operator==(const RankGroups&, const RankGroups&) = default;
};

// Experts are spread over the ranks of dp x cp, and of tp too when experts are not split over the tensor-parallel
// ranks. Throws ConfigError naming the key when rank_order is no order of tp, cp, dp and pp, when ep or shard does not
// divide its ranks, or when a group of them would be no regular pattern of rank numbers.
RankGroups rank_groups(const Parallelism& parallelism);

// The rank with these coordinates; each counts from 0.
int rank_of(const Parallelism& parallelism, int tp, int cp, int dp, int pp);

// The ranks of the group of this shape that begins at `first`, in the group's order.
std::vector<int> members(const Group& group, int first);

// Whether all groups of this shape lie alike on nodes of so many ranks: the same numbers of members on the same places.
// Of a group with `block` (pairs of stages) the ranks of one stage are meant.
bool lies_alike(const Group& group, int ranks_per_node);

}  // namespace stepcast
