#pragma once
#include <vector>
#include "model/group.h"
#include "model/parallelism.h"
namespace stepcast {
struct RankGroups {
    Group tensor, context, data, data_context, expert, expert_data, shard, shard_replicas, pipeline_neighbour, embedding;
};
RankGroups rank_groups(const Parallelism& p);
std::vector<int> members(const Group& group, int first);
}
