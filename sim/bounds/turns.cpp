#include "sim/bounds/turns.h"

#include <algorithm>

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
        bool second = false;  // of a pair
        for (std::size_t i = 0; i < order.size(); ++i) {
            FeatureCounts& counts = order[i].paired || second ? device.turns_once : device.once;
            const Chunk& own = chunk(stage, order[i]);
            count_pass(w_, own, order[i].pass, counts, host.once);
            if (!order[i].paired && !second && order[i].pass == Pass::forward)
                counts[feature::stall(Pass::forward)] += neighbours(own);
            if (order[i].paired)
                count_pair(chunk(stage, order[i]), chunk(stage, order[i + 1]),
                           i + 2 < order.size() && order[i + 2].paired, counts);
            second = order[i].paired;
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

    [[nodiscard]] int neighbours(const Chunk& chunk) const {
        int count = 0;
        for (int l = chunk.first; l + 1 < chunk.last; ++l)
            count += has_experts(w_, l) && has_experts(w_, l + 1);
        return count;
    }

    // Where all layers of both chunks have experts.
    void count_pair(const Chunk& forward, const Chunk& backward, bool another,
                    FeatureCounts& device) const {
        const int ahead = forward.last - forward.first, back = backward.last - backward.first;
        if (!has_only_experts(forward) || !has_only_experts(backward)) return;
        device[feature::stall(Pass::forward)] += std::max(0, std::min(ahead, back) - 1);
        const bool ends = forward.embedding || forward.head || backward.embedding || backward.head;
        if (ahead == back && ahead > 0 && !ends && another) ++device[feature::turn];
    }
    [[nodiscard]] bool has_only_experts(const Chunk& chunk) const {
        for (int l = chunk.first; l < chunk.last; ++l)
            if (!has_experts(w_, l)) return false;
        return true;
    }

    const PipelineKey& key_;
    const Workload& w_;
    std::vector<Path> paths_;
    std::vector<std::vector<Chunk>> chunks_;
    std::vector<Order> orders_;
};

}  // namespace

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
