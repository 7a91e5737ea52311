#include "sim/bounds/pipeline.h"

#include <algorithm>
#include <map>
#include <string>

#include "model/transformer/counts.h"

namespace stepcast {
namespace {

// Two chunks of one signature hold the same: ends, and layer by layer whether it has experts and is computed again.
std::string signature(const Workload& w, const Chunk& chunk, int layers_before, int recompute_layers) {
    std::string text{chunk.embedding ? 'e' : '-', chunk.head ? 'h' : '-'};
    for (int l = chunk.first; l < chunk.last; ++l) {
        const bool again = recompute_layers == 0 || layers_before + l - chunk.first < recompute_layers;
        text += static_cast<char>('0' + (has_experts(w, l) ? 2 : 0) + (again ? 1 : 0));
    }
    return text;
}

bool covers(const MemoryMoment& a, const MemoryMoment& b) {
    if (a.backward != b.backward && b.backward >= 0) return false;
    if (a.backward >= 0 && b.backward < 0) return false;
    for (std::size_t k = 0; k < a.held.size(); ++k)
        if (a.held[k] < b.held[k]) return false;
    return true;
}

// a takes no less than b whatever the times are.
bool covers(const PipelinePath& a, const PipelinePath& b) {
    for (std::size_t f = 0; f < a.once.size(); ++f)
        if (a.once[f] < b.once[f] || a.round[f] < b.round[f]) return false;
    return true;
}

// Nor does a stage.
bool covers(const MemoryStage& a, const MemoryStage& b) {
    return a.units == b.units && std::ranges::all_of(b.moments, [&](const MemoryMoment& moment) {
               return std::ranges::any_of(a.moments, [&](const auto& other) { return covers(other, moment); });
           });
}

// Of what covers another alone stays, the first of equals.
template <class T>
void add(std::vector<T>& all, T more) {
    if (std::ranges::any_of(all, [&](const T& known) { return covers(known, more); })) return;
    std::erase_if(all, [&](const T& known) { return covers(more, known); });
    all.push_back(std::move(more));
}

class Finder {
public:
    Finder(const PipelineKey& key, const Workload& workload)
        : key_(key), w_(workload), p_(parallelism_of(key)), stages_(chunks_by_stage(workload, p_)),
          orders_(schedule_orders(key.schedule, key.pp, key.chunks, key.micro_batches)) {}

    void find_memory(Pipeline& pipeline) {
        std::map<std::string, int> kinds;
        std::vector<std::vector<int>> kind_of(stages_.size());
        for (std::size_t s = 0; s < stages_.size(); ++s) {
            int layers = 0;
            // Under dualpipe the layers of a stage are counted direction by direction, as chunks are.
            for (const Chunk& chunk : stages_[s]) {
                const auto [known, fresh] = kinds.try_emplace(signature(w_, chunk, layers, key_.recompute_layers),
                                                              static_cast<int>(kinds.size()));
                if (fresh) pipeline.kinds.push_back({chunk, layers});
                kind_of[s].push_back(known->second);
                layers += chunk.last - chunk.first;
            }
        }
        for (std::size_t s = 0; s < stages_.size(); ++s)
            add(pipeline.memory, {units_of(w_, stages_[s]), moments_of(orders_[s], kind_of[s], kinds.size())});
    }

    void find_chunks(Pipeline& pipeline) {
        const std::vector<Chunk> copy = chunks_of(w_, p_, 0);
        pipeline.model = units_of(w_, copy);
        pipeline.shortest_chunk = w_.layers;
        for (const Chunk& chunk : copy) pipeline.shortest_chunk = std::min(pipeline.shortest_chunk, chunk.last - chunk.first);
    }

    // Where orders end with weight gradients, the stages that end with the most of them are a group of their own: they
    // are done before the others.
    void find_groups(Pipeline& pipeline, const Directions& directions) {
        std::vector<std::vector<int>> members;
        std::vector<UnitCounts> units;
        for (const auto& stage : stages_) units.push_back(units_of(w_, stage));
        const std::vector<int> last_weights = trailing_weights();
        const auto alike = [&](std::size_t s, std::size_t other) {
            const auto ends = [&](std::size_t of) { return std::span(units[of]).subspan(at(UnitKind::embedding)); };
            return std::ranges::equal(ends(s), ends(other));
        };
        const auto has_most = [&](std::size_t s) {
            for (std::size_t other = 0; other < stages_.size(); ++other)
                if (alike(s, other) && last_weights[other] > last_weights[s]) return false;
            return true;
        };
        for (std::size_t s = 0; s < stages_.size(); ++s) {
            const auto same = [&](const std::vector<int>& group) {
                return alike(s, at(group.front())) && has_most(s) == has_most(at(group.front()));
            };
            const auto g = static_cast<std::size_t>(std::ranges::find_if(members, same) - members.begin());
            if (g == members.size()) {
                members.emplace_back();
                pipeline.groups.push_back({static_cast<int>(s), units[s], units[s], {}, {}, last_weights[s]});
            }
            members[g].push_back(static_cast<int>(s));
            StageGroup& group = pipeline.groups[g];
            group.last_weights = std::min(group.last_weights, last_weights[s]);
            for (std::size_t k = 0; k < unit_kinds; ++k) group.fewest[k] = std::min(group.fewest[k], units[s][k]);
            const auto weight = [](const UnitCounts& u) { return std::pair(all_layers(u), u[1]); };
            if (weight(units[s]) > weight(group.most)) group.most = units[s];
        }
        const auto found = longest_paths(key_, w_, members, directions.times);
        for (std::size_t d = 0; d < found.size(); ++d)
            for (std::size_t g = 0; g < members.size(); ++g) {
                StageGroup& group = pipeline.groups[g];
                add(d < directions.sharded ? group.paths : group.sharded_paths, found[d][g]);
            }
    }

private:
    [[nodiscard]] std::vector<int> trailing_weights() const {
        std::vector<int> counts;
        for (const Order& order : orders_) {
            const auto other = std::ranges::find_if(
                order.rbegin(), order.rend(), [](Pass pass) { return pass != Pass::weight_backward; }, &Slot::pass);
            counts.push_back(static_cast<int>(other - order.rbegin()));
        }
        return counts;
    }

    [[nodiscard]] std::vector<MemoryMoment> moments_of(const Order& order, const std::vector<int>& kind_of,
                                                       std::size_t kinds) const {
        std::vector<MemoryMoment> moments;
        MemoryMoment now{std::vector<int>(2 * kinds), -1};
        for (const Slot& slot : order) {
            const int kind = kind_of[at(slot.chunk)], half = kind + static_cast<int>(kinds);
            if (slot.pass == Pass::forward)
                ++now.held[at(kind)];
            else
                --now.held[at(slot.pass == Pass::weight_backward ? half : kind)];
            now.backward = slot.pass == Pass::forward ? -1 : slot.pass == Pass::backward ? kind : half;
            add(moments, now);
            if (slot.pass == Pass::input_backward) ++now.held[at(half)];
        }
        return moments;
    }

    const PipelineKey& key_;
    const Workload& w_;
    Parallelism p_;
    std::vector<std::vector<Chunk>> stages_;
    std::vector<Order> orders_;
};

}  // namespace

bool near_link(const PipelineKey& key, int stage) {
    return key.node == 0 || stage * key.stride / key.node == (stage + 1) * key.stride / key.node;
}

// A path repeats when it comes back to its stage: after pp micro-batches at the latest, twice as many where they go both
// ways. Fill and drain take less than three rounds; with zb-v, which looks two rounds ahead, five. GPipe's forwards and
// backwards are apart: no part of a path covers a round.
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
    p.overlap_p2p = key.overlap_p2p;
    p.recompute_layers = key.recompute_layers;
    p.stage_layers = key.stage_layers;
    return p;
}

Pipeline find_pipeline(const PipelineKey& key, const Workload& workload, const Directions& directions) {
    Pipeline pipeline;
    Finder finder(key, workload);
    finder.find_chunks(pipeline);
    finder.find_memory(pipeline);
    finder.find_groups(pipeline, directions);
    return pipeline;
}

}  // namespace stepcast
