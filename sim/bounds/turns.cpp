#include "sim/bounds/turns.h"

#include <algorithm>
#include <optional>

#include "model/transformer/chunks.h"
#include "model/transformer/counts.h"

namespace stepcast {
namespace {

void count_pass(const Workload& w, const Chunk& chunk, Pass pass, FeatureCounts& device,
                FeatureCounts& host) {
    if (chunk.embedding) ++device[feature::unit(UnitKind::embedding, pass)];
    if (chunk.head) ++device[feature::unit(UnitKind::head, pass)];
    for (int l = chunk.first; l < chunk.last; ++l) {
        const UnitKind kind = has_experts(w, l) ? UnitKind::experts : UnitKind::dense;
        ++device[feature::unit(kind, pass)];
        ++host[feature::host(kind, pass)];
    }
}

void count_send(const PipelineKey& key, int a, int b, FeatureCounts& device) {
    if (a == b) return;
    const bool wraps = std::abs(a - b) > 1;
    ++device[wraps                            ? feature::send_wrap
             : near_link(key, std::min(a, b)) ? feature::send_near
                                              : feature::send_far];
}

int layers_of(const Chunk& chunk) { return chunk.last - chunk.first; }
// How many layers of both passes go by turns.
int turns_of(const Pair& pair) {
    return std::min(layers_of(pair.forward), layers_of(pair.backward));
}

class StagesByTurns {
public:
    StagesByTurns(const PipelineKey& key, const Workload& w)
        : key_(key),
          w_(w),
          paths_(paths_of(w, parallelism_of(key))),
          chunks_(chunks_by_stage(paths_, key.pp)),
          orders_(schedule_orders(parallelism_of(key))) {}

    // All that the stage does, and its host.
    [[nodiscard]] std::pair<PipelinePath, PipelinePath> passes(int stage) const {
        PipelinePath device, host{.by_host = true};
        const Order& order = orders_[at(stage)];
        std::optional<Pair> before;
        for (std::size_t i = 0; i < order.size(); ++i) {
            FeatureCounts unused{};
            const Chunk& own = chunk(stage, order[i]);
            if (!order[i].paired) {
                count_pass(w_, own, order[i].pass, device.once, host.once);
                if (order[i].pass == Pass::forward)
                    device.once[feature::stall(Pass::forward)] += neighbours(own);
                if (i > 0 && order[i].pass == Pass::forward && goes_on(stage, order[i - 1], own))
                    ++device.once[feature::stall(Pass::forward)];
                before.reset();
                continue;
            }
            const Pair pair{own, chunk(stage, order[i + 1])};
            count_pass(w_, pair.forward, Pass::forward, unused, host.once);
            count_pass(w_, pair.backward, Pass::backward, unused, host.once);
            count_pair(pair, device);
            if (before) count_behind(behind(w_, *before, pair), device.turns_once);
            before.emplace(pair);
            ++i;
        }
        return {device, host};
    }

    [[nodiscard]] bool has_one_direction() const { return paths_.size() == 1; }
    // in the path of a micro-batch, of the chunks that the stage begins and ends with
    [[nodiscard]] int first_position(int stage) const {
        return chunk(stage, orders_[at(stage)].front()).position;
    }
    [[nodiscard]] int last_position(int stage) const {
        return chunk(stage, orders_[at(stage)].back()).position;
    }

    // Passes of the chunks [first, last) of the path one by one, with the sends between them and to
    // chunk `last`, or from it.
    void count_chain(int first, int last, Pass pass, FeatureCounts& device) const {
        FeatureCounts unused{};
        const Path& path = paths_.front();
        for (int i = first; i < last; ++i) {
            count_pass(w_, path[at(i)], pass, device, unused);
            count_send(key_, path[at(i)].stage, path[at(i + 1)].stage, device);
        }
    }

private:
    [[nodiscard]] const Chunk& chunk(int stage, const Slot& slot) const {
        return chunks_[at(stage)][at(slot.chunk)];
    }

    // Whether an expert layer of a forward of this chunk is behind one of the slot before.
    [[nodiscard]] bool goes_on(int stage, const Slot& before, const Chunk& own) const {
        const Chunk& other = chunk(stage, before);
        return before.pass == Pass::forward && !own.embedding && own.last > own.first &&
               !other.head && other.last > other.first && has_experts(w_, own.first) &&
               has_experts(w_, other.last - 1);
    }

    [[nodiscard]] int neighbours(const Chunk& chunk) const {
        int count = 0;
        for (int l = chunk.first; l + 1 < chunk.last; ++l)
            count += has_experts(w_, l) && has_experts(w_, l + 1);
        return count;
    }

    void count_pair(const Pair& pair, PipelinePath& device) const {
        FeatureCounts unused{};
        const Pass last = forward_ends_last(pair) ? Pass::forward : Pass::backward;
        if (!awaits_both(w_, pair, last)) {
            count_pass(w_, pair.forward, Pass::forward, device.turns_once, unused);
            count_pass(w_, pair.backward, Pass::backward, device.turns_once, unused);
            return;
        }
        const SlotCounts both = pair_counts(w_, pair, last, false);
        for (std::size_t f = 0; f < feature::count; ++f) {
            device.once[f] += both.alone[f];
            device.turns_once[f] += both.turns[f];
        }
    }

    const PipelineKey& key_;
    const Workload& w_;
    std::vector<Path> paths_;
    std::vector<std::vector<Chunk>> chunks_;
    std::vector<Order> orders_;
};

bool has_only_experts(const Workload& workload, const Pair& pair) {
    for (const Chunk* chunk : {&pair.forward, &pair.backward})
        for (int l = chunk->first; l < chunk->last; ++l)
            if (!has_experts(workload, l)) return false;
    return true;
}

std::size_t unit(UnitKind kind, Pass pass) { return feature::unit(kind, pass); }

// What comes before the layers that go by turns, and what follows them.
void count_rest(const Pair& pair, Pass ends, bool forward_last, SlotCounts& counts) {
    const auto& [forward, backward] = pair;
    FeatureCounts &rest = counts.alone, &turns = counts.turns;
    if (forward.embedding) ++rest[unit(UnitKind::embedding, Pass::forward)];
    if (backward.head && !forward_last) ++rest[unit(UnitKind::head, Pass::backward)];
    if (forward.head && ends == Pass::forward) ++rest[unit(UnitKind::head, Pass::forward)];
    const bool ahead = ends == Pass::forward;
    if (ahead != forward_ends_last(pair)) return;  // it ends with the last turn
    const int layers = layers_of(ahead ? forward : backward) - turns_of(pair);
    if (layers == 0) return;
    rest[unit(UnitKind::experts, ends)] += layers;
    if (ahead) {
        rest[feature::stall(ends)] += layers - 1;
        ++turns[by_turns::forward_alone];
    } else if (!forward.head) {
        ++turns[by_turns::backward_alone];
    } else {  // the head comes between the first parts of the next layer
        --rest[unit(UnitKind::experts, ends)];
        ++turns[unit(UnitKind::experts, ends)];
        ++turns[unit(UnitKind::head, Pass::forward)];
    }
}

// Of a pair of which one pass has no layers: its ends come before the other's second part. A
// backward's head comes first.
void count_with_ends(const Pair& pair, Pass own, bool forward_last, SlotCounts& counts) {
    const bool ahead = own == Pass::forward, begun = !ahead && forward_last;
    const int layers = layers_of(ahead ? pair.forward : pair.backward);
    const bool embeds = pair.backward.embedding && (!ahead || layers_of(pair.backward) == 0);
    FeatureCounts& turns = counts.turns;
    turns[unit(UnitKind::embedding, Pass::forward)] = pair.forward.embedding;
    turns[unit(UnitKind::head, Pass::forward)] = pair.forward.head;
    turns[unit(UnitKind::embedding, Pass::backward)] = embeds && !forward_last;
    turns[unit(UnitKind::head, Pass::backward)] = pair.backward.head && !forward_last;
    if (layers == 0) return;
    if (!begun) ++turns[unit(UnitKind::experts, own)];
    if (ahead && !pair.forward.embedding) turns[by_turns::forward_first] = 1;
    counts.alone[unit(UnitKind::experts, own)] = layers - 1;
    if (ahead) counts.alone[feature::stall(own)] = layers - 1;
}

}  // namespace

bool awaits_both(const Workload& workload, const Pair& pair, Pass ends) {
    return has_only_experts(workload, pair) &&
           (ends == Pass::forward || layers_of(pair.backward) > 0);
}

std::size_t behind(const Workload& workload, const Pair& before, const Pair& pair) {
    if (!has_only_experts(workload, before) || !has_only_experts(workload, pair) ||
        layers_of(before.forward) == 0 || turns_of(pair) == 0 || before.forward.head ||
        (before.backward.embedding && layers_of(before.backward) > 0) || pair.forward.embedding ||
        pair.backward.head)
        return feature::none;
    const int more = layers_of(before.forward) - layers_of(before.backward);
    if (more == 0) return by_turns::behind;
    if (more > 0) return by_turns::behind_forward;
    return more == -1 ? by_turns::behind_backward : feature::none;
}

SlotCounts pair_counts(const Workload& workload, const Pair& pair, Pass ends, bool forward_last) {
    SlotCounts counts;
    FeatureCounts unused{}, &turns = counts.turns;
    if (!awaits_both(workload, pair, ends)) {
        const Chunk& own = ends == Pass::forward ? pair.forward : pair.backward;
        count_pass(workload, own, ends, turns, unused);
        return counts;
    }
    const int layers = turns_of(pair);
    if (layers == 0) {
        count_with_ends(pair, ends, forward_last, counts);
        return counts;
    }
    for (const Pass pass : {Pass::forward, Pass::backward})
        turns[unit(UnitKind::experts, pass)] = layers;
    turns[by_turns::cycle] = layers - 1;
    turns[by_turns::apart] = -1;
    if (!pair.forward.embedding) turns[by_turns::pair] = 1;
    if (forward_last) turns[by_turns::enters] = -1;
    if (ends == Pass::backward && forward_ends_last(pair)) turns[by_turns::leaves] = -1;
    count_rest(pair, ends, forward_last, counts);
    return counts;
}

double length_by_turns(const FeatureCounts& turns, const TimesByTurns& times) {
    return std::max({length_of(turns, times.slowed), length_of(turns, times.exchanging),
                     length_of(turns, times.waiting)});
}

std::vector<PipelinePath> paths_by_turns(const PipelineKey& key, const Workload& workload,
                                         int stage) {
    PipelineKey longer = key;
    longer.micro_batches += rounds_of(key.schedule, key.pp, key.micro_batches).round;
    const StagesByTurns stages(key, workload), later(longer, workload);
    std::vector<PipelinePath> found;
    for (int busy = 0; busy < key.pp; ++busy) {
        auto [device, host] = stages.passes(busy);
        const auto [more, more_host] = later.passes(busy);
        for (std::size_t f = 0; f < feature::count; ++f) {
            device.round[f] = more.once[f] - device.once[f];
            device.turns_round[f] = more.turns_once[f] - device.turns_once[f];
            host.round[f] = more_host.once[f] - host.once[f];
        }
        if (busy == stage) found.push_back(std::move(host));
        if (!stages.has_one_direction()) {
            if (busy == stage) found.push_back(std::move(device));
            continue;
        }
        const int end = stages.last_position(stage), last = stages.last_position(busy);
        if (last < end) continue;
        stages.count_chain(0, stages.first_position(busy), Pass::forward, device.once);
        stages.count_chain(end, last, Pass::backward, device.once);
        found.push_back(std::move(device));
    }
    return found;
}

}  // namespace stepcast
