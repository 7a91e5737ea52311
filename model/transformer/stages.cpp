#include "model/transformer/stages.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/base/lists.h"
#include "model/base/numbers.h"

namespace stepcast {
namespace {

std::vector<int> all_ranks(const Parallelism& p, int stage) {
    std::vector<int> ranks;
    for (int dp = 0; dp < p.dp; ++dp)
        for (int cp = 0; cp < p.cp; ++cp)
            for (int tp = 0; tp < p.tp; ++tp) ranks.push_back(rank_of(p, tp, cp, dp, stage));
    return ranks;
}

// The ranks of the stage that are written, ascending.
std::vector<int> ranks_of(const LayerContext& c, int stage, StageRanks written) {
    const Parallelism& p = c.experiment.parallelism;
    const int first = rank_of(p, 0, 0, 0, stage);
    std::vector<int> ranks = written == StageRanks::all   ? all_ranks(p, stage)
                             : written == StageRanks::one ? std::vector<int>{first}
                                                          : members(c.groups.expert, first);
    std::ranges::sort(ranks);
    return ranks;
}

// What the graph calls them.
std::vector<int> graph_ranks_of(std::vector<int> ranks, int stage, StageRanks written) {
    if (written != StageRanks::all)
        std::iota(ranks.begin(), ranks.end(), stage * as_int(ranks.size()));
    return ranks;
}

// For each rank its expert-parallel rank, which is its position in its group.
std::vector<int> expert_indices(const Group& expert, const std::vector<int>& ranks) {
    std::vector<int> indices(ranks.size());
    for (const auto& group : groups_in(ranks, expert))
        for (const std::size_t i : indices_of(group)) indices[group[i]] = as_int(i);
    return indices;
}

std::vector<Unit> units_of(const Chunk& chunk, const LayerContext& c, const LayerPlans& plans) {
    const Parallelism& p = c.experiment.parallelism;
    std::vector<Unit> units;
    int system_layers = 0;
    if (chunk.embedding)
        units.push_back({.plans = &plans.embedding, .weights = embedding_weights(c)});
    if (chunk.begins_inside)
        units.push_back(
            {.plans = &plans.rest, .weights = {rest_weights(c), {}}, .layer = chunk.first - 1});
    for (int l = chunk.first; l < chunk.last; ++l) {
        if (chunk.ends_inside && l + 1 == chunk.last) {
            units.push_back(
                {.plans = &plans.opened, .weights = {opened_weights(c, l), {}}, .layer = l});
            break;
        }
        const bool experts = has_experts(c.experiment.workload, l);
        units.push_back({&plans.of_layer(c.experiment.workload, l), layer_weights(c, l),
                         recomputes_layers(p) && l < chunk.again, l});
        if (experts && p.moe_system != MoeSystem::alltoall)
            units.back().system_layer = system_layers++;
    }
    if (chunk.head) units.push_back({.plans = &plans.head, .weights = head_weights(c)});
    return units;
}

}  // namespace

int ranks_of_stage(const Parallelism& p) { return p.tp * ranks_of_weights(p); }

int count_of(const Parallelism& p, StageRanks written) {
    return written == StageRanks::one            ? 1
           : written == StageRanks::expert_group ? p.ep
                                                 : ranks_of_stage(p);
}

Stages make_stages(TaskGraph& graph, const LayerContext& c, const LayerPlans& plans,
                   const DataFlow& flow, StageRanks written) {
    const Parallelism& p = c.experiment.parallelism;
    Stages stages;
    for (int s = 0; s < p.pp; ++s) {
        const std::vector<int> ranks = ranks_of(c, s, written);
        stages.push_back(
            std::make_unique<StageState>(graph, c, s,
                                         Stage(graph, ranks, expert_indices(c.groups.expert, ranks),
                                               graph_ranks_of(ranks, s, written))));
        StageState& state = *stages.back();
        for (const Chunk& chunk : flow.chunks()[as_index(s)]) {
            for (const Unit& unit : state.chunks.emplace_back(units_of(chunk, c, plans))) {
                state.data.count(unit.weights.trained);
                if (c.experiment.workload.optimizer == Optimizer::muon && unit.layer >= 0)
                    state.data.count_matrices(unit.layer);
            }
            state.backwards_left.push_back(0);
        }
    }
    return stages;
}

Group between_stages(const LayerContext& c, int a, int b) {
    return {.ranks = 2,
            .stride = std::abs(b - a) * c.groups.pipeline_neighbour.stride,
            .first = rank_of(c.experiment.parallelism, 0, 0, 0, std::min(a, b))};
}

}  // namespace stepcast
