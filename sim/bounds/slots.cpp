#include "sim/bounds/slots.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <ranges>
#include <tuple>

#include "model/base/numbers.h"
#include "model/transformer/counts.h"
#include "model/transformer/data_flow.h"
#include "model/transformer/schedule.h"
#include "model/transformer/walk.h"
#include "sim/bounds/chains.h"
#include "sim/bounds/turns.h"

namespace stepcast {
namespace {

class SlotWriter {
public:
    SlotWriter(const PipelineKey& key, const Workload& workload)
        : key_(key),
          workload_(workload),
          flow_(workload, parallelism_of(key)),
          stages_(at(key.pp)) {
        add_kinds();
    }
    SlotGraph write() {
        const auto orders = schedule_orders(parallelism_of(key_));
        find_steady(orders);
        written_.assign(flow_.paths().size() * flow_.paths()[0].size() * at(key_.micro_batches) * 2,
                        -1);
        std::size_t slots = 0;
        for (const Order& order : orders) slots += order.size();
        graph_.nodes.reserve(slots);
        walk_schedule(
            orders,
            [&](std::size_t stage, std::size_t position) -> std::size_t {
                const Slot* slot = &orders[stage][position];
                if (slot->paired) return write_pair(stage, slot[0], slot[1], position) ? 2 : 0;
                return write_slot(stage, *slot, position) ? 1 : 0;
            },
            [](const auto&) { return false; });
        mark_last();
        return std::move(graph_);
    }

private:
    struct StageState {
        int last = -1;                               // the slot that was written last
        std::optional<Pair> pair;                    // which it belongs to
        std::array<int, 2> out{-1, -1}, in{-1, -1};  // [down]: the slot that last sent on a lane
    };

    void add_kinds() {
        for (const auto& of_stage : flow_.chunks())
            for (const Chunk& chunk : of_stage)
                for (const Pass pass : all_passes)
                    count_slot(chunk, pass, graph_.kinds.emplace_back().alone);
    }

    void count_slot(const Chunk& chunk, Pass pass, FeatureCounts& f) const {
        const bool single = chunk.last - chunk.first == 1 && !chunk.embedding && !chunk.head;
        if (makes_weight_gradients(pass)) ++f[single ? feature::filling_single : feature::filling];
        if (pass == Pass::forward) --f[feature::opened];
        count_units(workload_, chunk, pass, f);
        for (const UnitKind kind : layer_kinds) {
            f[feature::host(kind, pass)] = f[feature::unit(kind, pass)];
            f[feature::host_again(kind)] = f[feature::again(kind)];
        }
        if (pass != Pass::weight_backward) count_stalls(chunk, pass, f);
    }

    void count_stalls(const Chunk& chunk, Pass pass, FeatureCounts& f) const {
        const int last = pass == Pass::forward ? chunk.last : std::min(chunk.last, chunk.again);
        for (int l = chunk.first; l + 1 < last; ++l)
            if (has_experts(workload_, l) && has_experts(workload_, l + 1))
                ++f[feature::stall(pass)];
    }

    [[nodiscard]] bool begins_in_experts(const Chunk& chunk) const {
        return !chunk.embedding && chunk.last > chunk.first && has_experts(workload_, chunk.first);
    }
    [[nodiscard]] bool ends_in_experts(const Chunk& chunk) const {
        return !chunk.head && chunk.last > chunk.first && has_experts(workload_, chunk.last - 1);
    }

    [[nodiscard]] std::size_t send_feature(int a, int b) const {
        const int low = std::min(a, b), high = std::max(a, b);
        if (high - low > 1) return feature::send_wrap;
        return near_link(key_, low) ? feature::send_near : feature::send_far;
    }

    // Marks in each chunk the last slot that makes gradients.
    void mark_last() {
        std::vector<bool> met(at(key_.pp * key_.chunks));
        for (SlotNode& n : std::views::reverse(graph_.nodes))
            if (makes_weight_gradients(n.pass) && !met[at(n.chunk)]) {
                met[at(n.chunk)] = true;
                n.fills_last = !n.turns;
            }
    }

    // For each stage, the longest run of slots that repeat a round later, including that round.
    void find_steady(std::span<const Order> orders) {
        graph_.shift = rounds_of(parallelism_of(key_)).round / as_int(flow_.paths().size());
        for (const Order& order : orders) {
            const int round = as_int(order.size()) / key_.micro_batches * graph_.shift *
                              as_int(flow_.paths().size());
            std::pair<int, int> longest{}, run{};
            for (int i = 0; i + round < as_int(order.size()); ++i) {
                Slot later = order[at(i)];
                later.micro_batch += graph_.shift;
                if (order[at(i + round)] == later)
                    run.second = i + 1;
                else
                    run = {i + 1, i + 1};
                if (run.second - run.first > longest.second - longest.first) longest = run;
            }
            if (longest.second > longest.first) longest.second += round;
            graph_.steady.push_back(longest);
        }
    }

    [[nodiscard]] int& written(const At& a) {
        const std::size_t place = at(a.direction) * flow_.paths().front().size() + at(a.position);
        return written_[(place * at(key_.micro_batches) + at(a.micro_batch)) * 2 +
                        (a.back ? 1 : 0)];
    }

    [[nodiscard]] SlotNode node_of(std::size_t stage, const Slot& slot, std::size_t position) {
        const int chunk = as_int(stage) * key_.chunks + slot.chunk;
        SlotNode node{.before = stages_[stage].last,
                      .kind = chunk * 4 + as_int(slot.pass),
                      .chunk = chunk,
                      .pass = slot.pass,
                      .stage = as_int(stage),
                      .micro_batch = slot.micro_batch,
                      .position = as_int(position)};
        if (flow_.at(stage, slot).direction == 1) node.micro_batch -= (key_.micro_batches + 1) / 2;
        return node;
    }

    // The slot whose result this one takes, or -1; nothing if that is not written yet.
    [[nodiscard]] std::optional<int> source_of(std::size_t stage, const Slot& slot) {
        const auto source = flow_.source(slot, flow_.at(stage, slot));
        if (!source) return -1;
        const int node = written(*source);
        return node < 0 ? std::nullopt : std::optional(node);
    }

    bool write_slot(std::size_t stage, const Slot& slot, std::size_t position) {
        const auto source = source_of(stage, slot);
        if (!source) return false;
        SlotNode node = node_of(stage, slot, position);
        node.source = *source;
        const Chunk& chunk = flow_.chunks()[stage][at(slot.chunk)];
        node.ends_in_experts = ends_in_experts(chunk);
        node.goes_on = slot.pass == Pass::forward && node.before >= 0 && begins_in_experts(chunk) &&
                       graph_.node(node.before).ends_in_experts &&
                       graph_.node(node.before).pass == Pass::forward;
        stages_[stage].last = add(stage, slot, node);
        stages_[stage].pair.reset();
        return true;
    }

    // The backward's node comes first, as its send does.
    bool write_pair(std::size_t stage, const Slot& forward, const Slot& backward,
                    std::size_t position) {
        const auto source = source_of(stage, backward), of_forward = source_of(stage, forward);
        if (!source || !of_forward) return false;
        const Pair pair{flow_.chunks()[stage][at(forward.chunk)],
                        flow_.chunks()[stage][at(backward.chunk)]};
        SlotNode ahead = node_of(stage, forward, position),
                 back = node_of(stage, backward, position + 1);
        back.source = *source;
        ahead.source = *of_forward;
        for (SlotNode* node : {&back, &ahead}) {
            if (awaits_both(workload_, pair, node->pass)) {
                node->source = *source;
                node->forward = *of_forward;
            }
            node->turns = true;
            if (const auto& before = stages_[stage].pair)
                node->behind = behind(workload_, *before, pair);
            node->kind = pair_kind(ahead.chunk, back.chunk, node->pass, pair);
        }
        const int first = add(stage, backward, back), second = add(stage, forward, ahead);
        stages_[stage].last = forward_ends_last(pair) ? second : first;
        stages_[stage].pair.emplace(pair);
        return true;
    }

    int pair_kind(int ahead, int back, Pass ends, const Pair& pair) {
        const auto [known, fresh] =
            pairs_.try_emplace({ahead, back, ends}, as_int(graph_.kinds.size()));
        if (fresh)
            for (const bool forward_last : {false, true})
                graph_.kinds.push_back(pair_counts(workload_, pair, ends, forward_last));
        return known->second;
    }

    int add(std::size_t stage, const Slot& slot, SlotNode node) {
        const At here = flow_.at(stage, slot);
        StageState& state = stages_[stage];
        const int id = as_int(graph_.nodes.size());
        if (const auto target = flow_.target(slot, here)) {
            const int to = flow_.stage(*target);
            if (to != node.stage) {
                node.send = send_feature(node.stage, to);
                const std::size_t down = flow_.goes_up(here) ? 0 : 1;
                node.lane_before = std::exchange(state.out[down], id);
                node.in_before = std::exchange(stages_[at(to)].in[down], id);
            }
        }
        if (slot.pass != Pass::weight_backward) written(here) = id;
        graph_.nodes.push_back(node);
        return id;
    }

    const PipelineKey& key_;
    const Workload& workload_;
    DataFlow flow_;
    std::vector<StageState> stages_;
    std::map<std::tuple<int, int, Pass>, int>
        pairs_;                 // the kind of two chunks, and which pass ends
    std::vector<int> written_;  // the node for (direction, position, micro-batch, back), or -1
    SlotGraph graph_;
};

}  // namespace

SlotGraph slot_graph(const PipelineKey& key, const Workload& workload) {
    return SlotWriter(key, workload).write();
}

std::size_t SlotTimes::after(int i) const {
    const SlotNode& n = slots_.node(i);
    if (n.turns) return feature::none;
    if (n.pass == Pass::forward) return feature::opened;
    if (n.pass == Pass::input_backward) return feature::none;
    return slots_.features(n)[feature::filling_single] > 0 ? feature::filled_single
                                                           : feature::filled;
}

bool SlotTimes::turns(int i) const {
    const SlotNode& n = slots_.node(i);
    if (n.before < 0 || !n.ends_in_experts) return false;
    const SlotNode& before = slots_.node(n.before);
    return before.ends_in_experts && before.pass == Pass::forward &&
           (n.pass == Pass::backward || n.pass == Pass::input_backward);
}

SlotTimes::SlotTimes(const PipelineKey& key, const SlotGraph& slots)
    : key_(key), slots_(slots), end_(slots.nodes.size()), sent_(slots.nodes.size()) {
    // most chunks hold what the chunk before holds
    constexpr std::size_t passes = all_passes.size();
    for (std::size_t k = 0; k < slots.kinds.size(); ++k)
        alike_.push_back(
            k >= passes && slots.kinds[k] == slots.kinds[k - passes] ? alike_[k - passes] : k);
}

void SlotTimes::set(std::span<const TimesOfDirection> directions) {
    device_.assign(slots_.kinds.size(), {});
    host_.assign(slots_.kinds.size(), {});
    for (std::size_t d = 0; d < directions.size(); ++d) {
        const auto& [times, turns] = directions[d];
        for (std::size_t f = 0; f < feature::none; ++f) feature_[f][d] = times[f];
        for (const std::size_t f : by_turns::edges) turns_[f][d] = turns[f];
        turns_[by_turns::behind][d] += turns[by_turns::apart];
        for (std::size_t k = 0; k < slots_.kinds.size(); ++k) {
            const SlotCounts& counts = slots_.kinds[k];
            if (const std::size_t same = alike_[k]; same < k) {
                device_[k][d] = device_[same][d];
                host_[k][d] = host_[same][d];
                continue;
            }
            for (std::size_t f = 0; f < feature::count; ++f)
                (f < feature::hosts ? device_ : host_)[k][d] += counts.alone[f] * times[f];
            if (!key_.overlap_experts) continue;
            device_[k][d] += length_of(counts.turns, turns);
            host_[k][d] = 0;
        }
    }
}

// For all that a slot waits for: call(cause, when it ends, the time between that end and the slot),
// each of what part(lanes) takes: all lanes, or one of them.
template <class Part, class Call>
void SlotTimes::each_wait(int i, const Part& part, const Call& call) const {
    const SlotNode& n = slots_.node(i);
    const auto nothing = part(feature_[feature::none]);
    if (n.before >= 0) {
        auto more = part(feature_[after(n.before)]) + part(turns_[n.behind]);
        if (slots_.node(n.before).fills_last) more = more + part(feature_[feature::after_last]);
        if (n.goes_on) more = more + part(feature_[feature::stall(Pass::forward)]);
        call(from_stage, part(end_[at(n.before)]), more);
        if (!key_.overlap_p2p && slots_.node(n.before).sends())
            call(from_own_send, part(sent_[at(n.before)]), nothing);
    }
    const auto take = [&](Cause cause, int source, const auto& left) {
        if (source < 0) return;
        if (slots_.node(source).sends())
            call(cause, part(sent_[at(source)]), left + part(feature_[feature::arrival]));
        else
            call(cause, part(end_[at(source)]), left);
    };
    take(from_source, n.source, nothing);
    if (n.forward >= 0)
        take(from_forward, n.forward, part(device_[at(n.kind + 1)]) - part(device_[at(n.kind)]));
}

const SlotTimes::Lanes& SlotTimes::entry(const SlotNode& n) const {
    const bool enters = !n.turns && n.source >= 0 && slots_.node(n.source).sends();
    return feature_[enters ? feature::entry : feature::none];
}

void SlotTimes::run(std::span<const TimesOfDirection> directions) {
    set(directions);
    std::vector<Lanes> hosts(at(key_.pp));  // when the host of a stage has issued its slots so far
    for (std::size_t i = 0; i < slots_.nodes.size(); ++i) {
        const SlotNode& n = slots_.nodes[i];
        Lanes ready{};
        each_wait(as_int(i), std::identity{}, [&](Cause, const Lanes& end, const Lanes& more) {
            for (std::size_t d = 0; d < width; ++d) ready[d] = std::max(ready[d], end[d] + more[d]);
        });
        const Lanes &before = entry(n), &host = host_[at(n.kind)];
        for (std::size_t d = 0; d < width; ++d) {
            hosts[at(n.stage)][d] += host[d];
            end_[i][d] = std::max(ready[d] + before[d] + device(n, d), hosts[at(n.stage)][d]);
        }
        if (!n.sends()) continue;
        sent_[i] = end_[i];
        for (const int earlier : {n.lane_before, n.in_before})
            for (std::size_t d = 0; earlier >= 0 && d < width; ++d)
                sent_[i][d] = std::max(sent_[i][d], sent_[at(earlier)][d]);
        for (std::size_t d = 0; d < width; ++d) sent_[i][d] += feature_[n.send][d];
    }
}

// Of several causes that end at the same time, the first counts.
SlotTimes::Cause SlotTimes::cause(int i, std::size_t direction) const {
    const SlotNode& n = slots_.node(i);
    double ready = 0;
    Cause cause = from_stage;
    const auto lane = [&](const Lanes& lanes) { return lanes[direction]; };
    each_wait(i, lane, [&](Cause by, double end, double more) {
        if (end + more > ready) ready = end + more, cause = by;
    });
    return end_[at(i)][direction] > ready + entry(n)[direction] + device(n, direction) ? from_host
                                                                                       : cause;
}

int SlotTimes::send_waited_for(int i, std::size_t direction) const {
    int waited = -1;
    double free = end_[at(i)][direction];
    for (const int before : {slots_.node(i).lane_before, slots_.node(i).in_before})
        if (before >= 0 && sent_[at(before)][direction] > free) {
            waited = before;
            free = sent_[at(before)][direction];
        }
    return waited;
}

}  // namespace stepcast
