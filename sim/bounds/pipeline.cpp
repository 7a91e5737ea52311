#include "sim/bounds/pipeline.h"

#include <algorithm>
#include <functional>
#include <map>
#include <ranges>
#include <string>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/transformer/counts.h"
#include "sim/bounds/chains.h"
#include "sim/bounds/paths.h"
#include "sim/bounds/turns.h"

namespace stepcast {
namespace {

// Chunks with the same signature hold the same ends and, layer by layer, the same kind of layer,
// recomputed or not.
std::string signature(const Workload& w, const Chunk& chunk) {
    std::string text{chunk.embedding ? 'e' : '-', chunk.head ? 'h' : '-'};
    for (int l = chunk.first; l < chunk.last; ++l)
        text += static_cast<char>('0' + (has_experts(w, l) ? 2 : 0) + (l < chunk.again ? 1 : 0));
    return text;
}

// Whether a takes no less time or memory than b, whatever the times of the features and the sizes
// of the chunks are.
bool covers(const std::ranges::range auto& a, const std::ranges::range auto& b) {
    return std::ranges::equal(a, b, std::ranges::greater_equal{});
}
bool covers(const PipelinePath& a, const PipelinePath& b) {
    return a.through_pairs == b.through_pairs && covers(a.once.values, b.once.values) &&
           covers(a.round.values, b.round.values) &&
           covers(a.turns_once.values, b.turns_once.values) &&
           covers(a.turns_round.values, b.turns_round.values);
}
// A stage with its moments, of which MemoryStage keeps the numbers.
struct StageMoments {
    UnitCounts units;
    std::vector<MemoryMoment> moments;
};
bool covers(const StageMoments& a, const StageMoments& b) {
    return a.units == b.units && std::ranges::all_of(b.moments, [&](const MemoryMoment& moment) {
               return std::ranges::any_of(a.moments,
                                          [&](const auto& other) { return covers(other, moment); });
           });
}

// Adds an element unless a known one covers it, and removes those that it covers. Of equals the
// first stays.
template <class T>
void add(std::vector<T>& all, T more) {
    if (std::ranges::any_of(all, [&](const T& known) { return covers(known, more); })) return;
    std::erase_if(all, [&](const T& known) { return covers(more, known); });
    all.push_back(std::move(more));
}

std::vector<MemoryMoment> moments_of(const Order& order, const std::vector<std::size_t>& kind_of,
                                     std::size_t kinds) {
    std::vector<MemoryMoment> moments;
    MemoryMoment held(4 * kinds);
    for (const Slot& slot : order) {
        const std::size_t kept = kind_of[at(slot.chunk)], put_off = kept + kinds,
                          whole = put_off + kinds, half = whole + kinds;
        const bool forward = slot.pass == Pass::forward;
        forward ? ++held[kept] : --held[slot.pass == Pass::weight_backward ? put_off : kept];
        MemoryMoment now = held;
        if (!forward) ++now[slot.pass == Pass::backward ? whole : half];
        add(moments, std::move(now));
        if (slot.pass == Pass::input_backward) ++held[put_off];
    }
    return moments;
}

using StageChunkLists = std::vector<std::vector<Chunk>>;  // by stage

void find_memory(Pipeline& pipeline, const Workload& w, const StageChunkLists& stages,
                 const std::vector<Order>& orders) {
    std::map<std::string, std::size_t> kinds;
    std::vector<std::vector<std::size_t>> kind_of(stages.size());
    for (std::size_t s = 0; s < stages.size(); ++s)
        for (const Chunk& chunk : stages[s]) {
            const auto [known, fresh] = kinds.try_emplace(signature(w, chunk), kinds.size());
            if (fresh) pipeline.kinds.push_back(chunk);
            kind_of[s].push_back(known->second);
        }
    std::vector<StageMoments> fullest;
    for (std::size_t s = 0; s < stages.size(); ++s)
        add(fullest, {units_of(w, stages[s]), moments_of(orders[s], kind_of[s], kinds.size())});
    const bool puts_off = std::ranges::any_of(orders, [](const Order& order) {
        return contains(order, Pass::weight_backward, &Slot::pass);
    });
    pipeline.held = puts_off ? 2 * kinds.size() : kinds.size();
    for (const StageMoments& stage : fullest) {
        MemoryStage& kept = pipeline.memory.emplace_back(MemoryStage{stage.units, {}, {}});
        for (const MemoryMoment& moment : stage.moments) {
            const auto held_end = moment.begin() + static_cast<std::ptrdiff_t>(pipeline.held),
                       runs = std::find_if(moment.begin() + 2 * as_int(kinds.size()), moment.end(),
                                           [](int count) { return count > 0; });
            kept.held.insert(kept.held.end(), moment.begin(), held_end);
            kept.runs.push_back(runs == moment.end() ? -1 : as_int(runs - moment.begin()));
        }
    }
}

// For each stage, how many weight-gradient slots end its order.
std::vector<int> trailing_weights(const std::vector<Order>& orders) {
    std::vector<int> counts;
    for (const Order& order : orders) {
        const auto other = std::ranges::find_if(
            order.rbegin(), order.rend(), [](Pass pass) { return pass != Pass::weight_backward; },
            &Slot::pass);
        counts.push_back(as_int(other - order.rbegin()));
    }
    return counts;
}

// Of stages whose orders end with weight gradients, those that end with the most form their own
// group: they are done before the others.
std::vector<StageGroup> groups_of(const Workload& w, const StageChunkLists& stages,
                                  const std::vector<int>& last_weights) {
    std::vector<StageGroup> groups;
    std::map<UnitCounts, int> most_weights;  // by the ends of a stage
    std::vector<UnitCounts> units, ends;
    for (std::size_t s = 0; s < stages.size(); ++s) {
        ends.push_back(units.emplace_back(units_of(w, stages[s])));
        ends[s][0] = ends[s][1] = 0;
        int& most = most_weights[ends[s]];
        most = std::max(most, last_weights[s]);
    }
    // by ends, and whether no stage with these ends has more such slots
    std::map<std::pair<UnitCounts, bool>, std::size_t> known;
    for (std::size_t s = 0; s < stages.size(); ++s) {
        const auto [found, fresh] =
            known.try_emplace({ends[s], last_weights[s] == most_weights[ends[s]]}, groups.size());
        if (fresh) groups.push_back({{}, units[s], units[s], last_weights[s]});
        StageGroup& group = groups[found->second];
        group.stages.push_back(as_int(s));
        group.last_weights = std::min(group.last_weights, last_weights[s]);
        for (std::size_t k = 0; k < unit_kinds; ++k)
            group.fewest[k] = std::min(group.fewest[k], units[s][k]);
        const auto weight = [](const UnitCounts& u) { return std::pair(all_layers(u), u[1]); };
        if (weight(units[s]) > weight(group.most)) group.most = units[s];
    }
    return groups;
}

}  // namespace

PipelineKey pipeline_key(const Experiment& e, const RankGroups& groups) {
    const Parallelism& p = e.parallelism;
    PipelineKey key{.schedule = p.schedule,
                    .pp = p.pp,
                    .chunks = chunks_per_stage(p),
                    .micro_batches = rounds_of(p).least,
                    .recompute_layers = recomputes_layers(p) ? p.recompute_layers : 0,
                    .overlap_p2p = e.runtime.exchanges.sends,
                    .overlap_experts = p.overlap_experts,
                    .node = e.cluster.gpus_per_node,
                    .stride = groups.pipeline_neighbour.stride,
                    .stage_layers = p.layout == StageLayout::even ? p.stage_layers
                                                                  : chunk_layers(e.workload, p)};
    int near = 0;
    for (int s = 0; s + 1 < p.pp; ++s) near += near_link(key, s);
    if (near == 0 || near == p.pp - 1) key.node = key.stride = 0;
    return key;
}

bool near_link(const PipelineKey& key, int stage) {
    return key.node == 0 || stage * key.stride / key.node == (stage + 1) * key.stride / key.node;
}

// A path repeats when it returns to its stage: after pp micro-batches at the latest, or twice as
// many if they go both ways. Fill and drain take less than three rounds, or five with zb-v, which
// looks two rounds ahead. GPipe runs all its forwards first, so its path never repeats.
Rounds rounds_of(Schedule schedule, int pp, int micro_batches) {
    const ScheduleTraits& s = traits(schedule);
    if (s.forwards_first) return {micro_batches, 0, micro_batches};
    const int round = s.copies * pp, from = s.steady_rounds * round + micro_batches % round;
    if (micro_batches <= from) return {micro_batches, 0, round};
    return {from, (micro_batches - from) / round, round};
}

Parallelism parallelism_of(const PipelineKey& key) {
    Parallelism p;
    p.schedule = key.schedule;
    p.pp = key.pp;
    p.vp = key.chunks;
    p.global_batch = key.micro_batches;
    p.recompute_layers = key.recompute_layers;
    p.stage_layers = key.stage_layers;
    p.overlap_experts = key.overlap_experts;
    return p;
}

Pipeline find_pipeline(const PipelineKey& key, const Workload& workload) {
    const Parallelism p = parallelism_of(key);
    const std::vector<Path> paths = paths_of(workload, p);
    Pipeline pipeline;
    pipeline.model = units_of(workload, paths.front());
    pipeline.shortest_chunk = workload.layers;
    for (const Chunk& chunk : paths.front())
        pipeline.shortest_chunk = std::min(pipeline.shortest_chunk, chunk.last - chunk.first);
    const std::vector<Order> orders = schedule_orders(p);
    const StageChunkLists stages = chunks_by_stage(paths, p.pp);
    find_memory(pipeline, workload, stages, orders);
    pipeline.chains = stage_chains(key, workload, orders);
    pipeline.groups = groups_of(workload, stages, trailing_weights(orders));
    return pipeline;
}

std::vector<GroupPaths> find_paths(const PipelineKey& key, const Workload& workload,
                                   const std::vector<StageGroup>& groups,
                                   const Directions& directions) {
    std::vector<GroupPaths> found(groups.size());
    std::vector<std::vector<int>> stages;
    for (const StageGroup& group : groups) stages.push_back(group.stages);
    for (std::size_t g = 0; key.overlap_experts && g < groups.size(); ++g)
        for (const int stage : stages[g])
            for (PipelinePath& path : paths_by_turns(key, workload, stage))
                add(found[g].paths, std::move(path));
    const auto paths = longest_paths(key, workload, stages, directions.times);
    for (std::size_t d = 0; d < paths.size(); ++d)
        for (std::size_t g = 0; g < groups.size(); ++g)
            add(d < directions.sharded ? found[g].paths : found[g].sharded, paths[d][g]);
    return found;
}

}  // namespace stepcast
