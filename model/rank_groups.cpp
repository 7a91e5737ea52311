#include "model/rank_groups.h"
namespace stepcast {
RankGroups rank_groups(const Parallelism& p) {
    const int stage = p.tp * p.cp * p.dp, dc = p.dp * p.cp, shard = p.shard > 0 ? p.shard : dc;
    RankGroups g;
    g.tensor = {p.tp, 1};
    g.context = {p.cp, p.tp};
    g.data = {p.dp, p.tp * p.cp};
    g.data_context = {dc, p.tp};
    g.expert = {p.ep, p.tp};
    g.expert_data = {dc / p.ep, p.tp * p.ep};
    g.shard = {shard, p.tp};
    g.shard_replicas = {dc / shard, p.tp * shard};
    g.pipeline_neighbour = {2, stage};
    g.embedding = {2, stage * (p.pp - 1)};
    return g;
}
std::vector<int> members(const Group& group, int first) {
    std::vector<int> m;
    for (int j = 0; j < group.outer_ranks; ++j)
        for (int i = 0; i < group.ranks; ++i) m.push_back(first + i * group.stride + j * group.outer_stride);
    return m;
}
}
