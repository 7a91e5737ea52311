#include "sim/bounds/chains.h"

#include <algorithm>
#include <ranges>

#include "model/transformer/counts.h"
#include "model/transformer/data_flow.h"
#include "model/transformer/schedule.h"
#include "model/transformer/slot_gathers.h"

namespace stepcast {
namespace {

// Without what they gather: stages gather nearly alike, and a chain less proves nothing wrong.
bool covers(const StageChain& a, const StageChain& b) {
    return std::ranges::equal(a.once.values, b.once.values, std::ranges::greater_equal{}) &&
           std::ranges::equal(a.round.values, b.round.values, std::ranges::greater_equal{});
}

class ChainWriter {
public:
    ChainWriter(const PipelineKey& key, const Workload& workload, const std::vector<Order>& orders)
        : key_(key),
          workload_(workload),
          orders_(orders),
          flow_(workload, parallelism_of(key)),
          round_(rounds_of(parallelism_of(key)).round) {
        if (traits(key.schedule).forwards_first) return;
        PipelineKey longer = key;
        longer.micro_batches += round_;
        longer_ = schedule_orders(parallelism_of(longer));
    }

    std::vector<StageChain> write() {
        for (std::size_t stage = 0; stage < orders_.size(); ++stage) {
            const Order& order = orders_[stage];
            const auto behind_last =
                std::ranges::find_if(order | std::views::reverse, [](const Slot& s) {
                    return s.pass != Pass::weight_backward;
                }).base();
            StageChain all{of_slots(stage, {order.begin(), order.end()}), {}},
                passed{of_slots(stage, {order.begin(), behind_last}), {}};
            add_round(stage, all);
            passed.round = all.round;
            add_gathers(stage, all);
            passed.gathered = all.gathered;
            passed.gathered_round = all.gathered_round;
            passed.ahead = all.ahead;
            add_others(stage, order.front(), all.once);
            add_others(stage, order.front(), passed.once);
            add_others(stage, *std::prev(behind_last), passed.once);
            add(std::move(passed));
            if (behind_last != order.end()) add(std::move(all));
        }
        return std::move(chains_);
    }

private:
    [[nodiscard]] FeatureCounts of_slots(std::size_t stage,
                                         std::ranges::subrange<Order::const_iterator> slots) const {
        const std::vector<Chunk>& chunks = flow_.chunks()[stage];
        std::vector<std::array<int, all_passes.size()>> times(chunks.size());  // by chunk and pass
        for (const Slot& slot : slots) ++times[as_index(slot.chunk)][as_index(slot.pass)];
        FeatureCounts counts{};
        for (std::size_t c = 0; c < chunks.size(); ++c)
            for (const Pass pass : all_passes) {
                FeatureCounts one{};
                count_units(workload_, chunks[c], pass, one);
                for (std::size_t f = 0; f < feature::count; ++f)
                    counts[f] += times[c][as_index(pass)] * one[f];
            }
        return counts;
    }

    // A round need not be like the others: dualpipe splits backwards in its fill and drain alone.
    void add_round(std::size_t stage, StageChain& all) const {
        if (longer_.empty()) return;
        const Order& order = longer_[stage];
        all.round = of_slots(stage, {order.begin(), order.end()});
        for (std::size_t f = 0; f < feature::count; ++f) all.round[f] -= all.once[f];
    }

    // How often a stage gathers each kind of unit in this order. The second slot that computes may
    // gather while the first does, and the first before that: with `ahead`, these alone.
    [[nodiscard]] UnitCounts gathers_of(std::size_t stage, const Order& order, bool ahead) const {
        std::vector<UnitCounts> units;  // by chunk
        for (const Chunk& chunk : flow_.chunks()[stage])
            units.push_back(units_of(workload_, std::span(&chunk, 1)));
        SlotGathers gathers(key_.pp, units.size());
        UnitCounts counts{};
        int begun = 0;
        for (const Slot& slot : order) {
            const UnitCounts& of = units[as_index(slot.chunk)];
            begun += of == UnitCounts{} ? 0 : 1;
            if (ahead && begun > 2) break;
            if (!gathers.next(slot)) continue;
            for (std::size_t k = 0; k < unit_kinds; ++k) counts[k] += of[k];
        }
        return counts;
    }

    void add_gathers(std::size_t stage, StageChain& chain) const {
        chain.gathered = gathers_of(stage, orders_[stage], false);
        chain.ahead = gathers_of(stage, orders_[stage], true);
        if (longer_.empty()) return;
        chain.gathered_round = gathers_of(stage, longer_[stage], false);
        for (std::size_t k = 0; k < unit_kinds; ++k) chain.gathered_round[k] -= chain.gathered[k];
    }

    // Before a forward, the forwards of the chunks before it; after a backward, the backwards of
    // these.
    void add_others(std::size_t stage, const Slot& slot, FeatureCounts& counts) const {
        const At here = flow_.at(stage, slot);
        const Path& path = flow_.path(here);
        for (int position = 0; position < here.position; ++position) {
            const Chunk& other = path[as_index(position)];
            Pass pass = Pass::forward;
            if (here.back) {
                const Order& order = orders_[as_index(other.stage)];
                pass = std::ranges::find_if(order, [&](const Slot& s) {
                           return s.micro_batch == slot.micro_batch && s.chunk == other.index &&
                                  (s.pass == Pass::backward || s.pass == Pass::input_backward);
                       })->pass;
            }
            count_units(workload_, other, pass, counts);
        }
    }

    void add(StageChain chain) {
        if (std::ranges::any_of(chains_, [&](const auto& known) { return covers(known, chain); }))
            return;
        std::erase_if(chains_, [&](const auto& known) { return covers(chain, known); });
        chains_.push_back(std::move(chain));
    }

    const PipelineKey& key_;
    const Workload& workload_;
    const std::vector<Order>& orders_;
    std::vector<Order> longer_;  // with one round more, where rounds repeat
    DataFlow flow_;
    int round_;
    std::vector<StageChain> chains_;
};

}  // namespace

void count_units(const Workload& workload, const Chunk& chunk, Pass pass, FeatureCounts& counts) {
    if (chunk.embedding) ++counts[feature::unit(UnitKind::embedding, pass)];
    if (chunk.head) ++counts[feature::unit(UnitKind::head, pass)];
    const bool repeats = pass == Pass::backward || pass == Pass::input_backward;
    for (int l = chunk.first; l < chunk.last; ++l) {
        const UnitKind kind = has_experts(workload, l) ? UnitKind::experts : UnitKind::dense;
        ++counts[feature::unit(kind, pass)];
        if (repeats && l < chunk.again) ++counts[feature::again(kind)];
    }
}

std::vector<StageChain> stage_chains(const PipelineKey& key, const Workload& workload,
                                     const std::vector<Order>& orders) {
    if (key.overlap_experts) return {};
    return ChainWriter(key, workload, orders).write();
}

GatherTimes gather_times(const StageChain& chain, int rounds,
                         const std::array<double, unit_kinds>& unit) {
    GatherTimes times;
    for (std::size_t k = 0; k < unit_kinds; ++k) {
        const int all = chain.gathered[k] + rounds * chain.gathered_round[k];
        times.all += all * unit[k];
        times.inside += (all - chain.ahead[k]) * unit[k];
    }
    return times;
}

double length_of(const StageChain& chain, int rounds, const FeatureTimes& times, bool recomputes) {
    const double once = length_of<feature::units, feature::filled>(chain.once, times),
                 round = length_of<feature::units, feature::filled>(chain.round, times);
    double length = once + rounds * round;
    for (const UnitKind kind : layer_kinds) {
        const std::size_t again = feature::again(kind);
        if (recomputes) length += (chain.once[again] + rounds * chain.round[again]) * times[again];
    }
    return length;
}

}  // namespace stepcast
