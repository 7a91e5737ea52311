#include "sim/bounds/slots.h"

#include <algorithm>
#include <ranges>
#include <stdexcept>

#include "model/transformer/counts.h"

namespace stepcast {
namespace {

bool makes_gradients(Pass pass) { return pass == Pass::backward || pass == Pass::weight_backward; }

class SlotWriter {
public:
    SlotWriter(const PipelineKey& key, const Workload& workload)
        : key_(key),
          workload_(workload),
          paths_(paths_of(workload, parallelism_of(key))),
          chunks_(chunks_by_stage(paths_, key.pp)),
          stages_(at(key.pp)) {
        add_kinds();
    }
    SlotGraph write() {
        const auto orders =
            schedule_orders(key_.schedule, key_.pp, key_.chunks, key_.micro_batches);
        find_steady(orders);
        written_.assign(paths_.size() * paths_[0].size() * at(key_.micro_batches) * 2, -1);
        std::size_t slots = 0;
        for (const Order& order : orders) slots += order.size();
        graph_.nodes.reserve(slots);
        for (bool moved = true; moved;) {
            moved = false;
            for (int s = 0; s < key_.pp; ++s)
                for (int& next = stages_[at(s)].next;
                     at(next) < orders[at(s)].size() && write_slot(s, orders[at(s)][at(next)]);
                     ++next)
                    moved = true;
        }
        if (graph_.nodes.size() != slots)
            throw std::logic_error("bounds: the schedule waits for itself");
        mark_last();
        return std::move(graph_);
    }

private:
    struct StageState {
        int next = 0, last = -1;  // position in its order; the slot before that position
        std::array<int, 2> out{-1, -1}, in{-1, -1};  // [down]: the slot that last sent on a lane
    };

    void add_kinds() {
        for (const auto& of_stage : chunks_)
            for (const Chunk& chunk : of_stage)
                for (const Pass pass : all_passes)
                    count_units(chunk, pass, graph_.kinds.emplace_back());
    }

    void count_units(const Chunk& chunk, Pass pass, Features& f) const {
        const bool single = chunk.last - chunk.first == 1 && !chunk.embedding && !chunk.head;
        if (makes_gradients(pass)) ++f[single ? feature::filling_single : feature::filling];
        if (pass == Pass::forward) --f[feature::opened];
        if (chunk.embedding) ++f[feature::unit(UnitKind::embedding, pass)];
        if (chunk.head) ++f[feature::unit(UnitKind::head, pass)];
        const bool repeats = pass == Pass::backward || pass == Pass::input_backward;
        for (int l = chunk.first; l < chunk.last; ++l) {
            const UnitKind kind = has_experts(workload_, l) ? UnitKind::experts : UnitKind::dense;
            ++f[feature::unit(kind, pass)];
            ++f[feature::host(kind, pass)];
            if (!repeats || l >= chunk.again) continue;
            ++f[feature::again(kind)];
            ++f[feature::host_again(kind)];
        }
    }

    std::size_t send_feature(int a, int b) const {
        const int low = std::min(a, b), high = std::max(a, b);
        if (high - low > 1) return feature::send_wrap;
        return near_link(key_, low) ? feature::send_near : feature::send_far;
    }

    // Marks in each chunk the last slot that makes gradients.
    void mark_last() {
        std::vector<bool> met(at(key_.pp * key_.chunks));
        for (SlotNode& n : std::views::reverse(graph_.nodes))
            if (makes_gradients(n.pass()) && !met[at(n.kind / 4)])
                met[at(n.kind / 4)] = n.fills_last = true;
    }

    // For each stage, the longest run of slots that repeat a round later, including that round.
    void find_steady(std::span<const Order> orders) {
        graph_.shift = rounds_of(key_.schedule, key_.pp, key_.micro_batches).round /
                       static_cast<int>(paths_.size());
        for (const Order& order : orders) {
            const int round = static_cast<int>(order.size()) / key_.micro_batches * graph_.shift *
                              static_cast<int>(paths_.size());
            std::pair<int, int> longest{}, run{};
            for (int i = 0; i + round < static_cast<int>(order.size()); ++i) {
                const Slot &now = order[at(i)], &later = order[at(i + round)];
                if (later == Slot{now.micro_batch + graph_.shift, now.chunk, now.pass})
                    run.second = i + 1;
                else
                    run = {i + 1, i + 1};
                if (run.second - run.first > longest.second - longest.first) longest = run;
            }
            if (longest.second > longest.first) longest.second += round;
            graph_.steady.push_back(longest);
        }
    }

    bool write_slot(int stage, const Slot& slot) {
        const std::size_t d = paths_.size() == 2 ? at(slot.chunk) : 0;
        const auto& path = paths_[d];
        const int chunk = stage * key_.chunks + slot.chunk,
                  position = chunks_[at(stage)][at(slot.chunk)].position;
        const bool weights = slot.pass == Pass::weight_backward, back = slot.pass != Pass::forward;
        const int end = static_cast<int>(path.size()) - 1, step = back ? -1 : 1;
        const auto where = [&](int i) {
            return ((d * path.size() + at(i)) * at(key_.micro_batches) + at(slot.micro_batch)) * 2 +
                   (back ? 1 : 0);
        };
        StageState& state = stages_[at(stage)];
        SlotNode node{.before = state.last,
                      .kind = chunk * 4 + static_cast<int>(slot.pass),
                      .stage = stage,
                      .micro_batch = slot.micro_batch,
                      .position = state.next};
        if (d == 1) node.micro_batch -= (key_.micro_batches + 1) / 2;
        if (const int from = position - step; !weights && from >= 0 && from <= end) {
            node.source = written_[where(from)];
            if (node.source < 0) return false;
        }
        const int id = static_cast<int>(graph_.nodes.size());
        if (const int to = position + step; !weights && to >= 0 && to <= end) {
            const int target = path[at(to)].stage;
            if (target != stage) {
                node.send = send_feature(stage, target);
                const std::size_t down =
                    hop_goes_up(path, static_cast<int>(d), std::min(position, to), back) ? 0 : 1;
                node.lane_before = std::exchange(state.out[down], id);
                node.in_before = std::exchange(stages_[at(target)].in[down], id);
            }
        }
        if (!weights) written_[where(position)] = id;
        state.last = id;
        graph_.nodes.push_back(node);
        return true;
    }

    const PipelineKey& key_;
    const Workload& workload_;
    std::vector<Path> paths_;
    std::vector<std::vector<Chunk>> chunks_;  // by stage
    std::vector<StageState> stages_;
    std::vector<int> written_;  // the node for (direction, position, micro-batch, back), or -1
    SlotGraph graph_;
};

}  // namespace

SlotGraph slot_graph(const PipelineKey& key, const Workload& workload) {
    return SlotWriter(key, workload).write();
}

std::size_t SlotTimes::after(int i) const {
    const SlotNode& n = slots_.node(i);
    if (n.pass() == Pass::forward) return feature::opened;
    if (n.pass() == Pass::input_backward) return feature::none;
    return slots_.features(n)[feature::filling_single] > 0 ? feature::filled_single
                                                           : feature::filled;
}

void SlotTimes::set(std::span<const Features> directions) {
    device_.assign(slots_.kinds.size(), {});
    host_.assign(slots_.kinds.size(), {});
    for (std::size_t d = 0; d < directions.size(); ++d) {
        for (std::size_t f = 0; f < feature::none; ++f) feature_[f][d] = directions[d][f];
        for (std::size_t k = 0; k < slots_.kinds.size(); ++k)
            for (std::size_t f = 0; f < feature::count; ++f)
                (f < feature::hosts ? device_ : host_)[k][d] +=
                    slots_.kinds[k][f] * directions[d][f];
    }
}

// For all that a slot waits for: call(cause, when it ends, the time between that end and the slot).
template <class Call>
void SlotTimes::each_wait(const SlotNode& n, const Call& call) const {
    const Lanes& nothing = feature_[feature::none];
    if (n.before >= 0) {
        call(from_stage, end_[at(n.before)], feature_[after(n.before)]);
        if (!key_.overlap_p2p && slots_.node(n.before).sends())
            call(from_own_send, sent_[at(n.before)], nothing);
    }
    if (n.source < 0) return;
    if (slots_.node(n.source).sends())
        call(from_source, sent_[at(n.source)], feature_[feature::arrival]);
    else
        call(from_source, end_[at(n.source)], nothing);
}

const SlotTimes::Lanes& SlotTimes::entry(const SlotNode& n) const {
    return feature_[n.source >= 0 && slots_.node(n.source).sends() ? feature::entry
                                                                   : feature::none];
}

void SlotTimes::run(std::span<const Features> directions) {
    set(directions);
    std::vector<Lanes> hosts(at(key_.pp));  // when the host of a stage has issued its slots so far
    for (std::size_t i = 0; i < slots_.nodes.size(); ++i) {
        const SlotNode& n = slots_.nodes[i];
        Lanes ready{};
        each_wait(n, [&](Cause, const Lanes& end, const Lanes& more) {
            for (std::size_t d = 0; d < width; ++d) ready[d] = std::max(ready[d], end[d] + more[d]);
        });
        const Lanes &before = entry(n), &device = device_[at(n.kind)], &host = host_[at(n.kind)];
        for (std::size_t d = 0; d < width; ++d) {
            hosts[at(n.stage)][d] += host[d];
            end_[i][d] = std::max(ready[d] + before[d] + device[d], hosts[at(n.stage)][d]);
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
    each_wait(n, [&](Cause by, const Lanes& end, const Lanes& more) {
        const double until = end[direction] + more[direction];
        if (until > ready) ready = until, cause = by;
    });
    return end_[at(i)][direction] > ready + entry(n)[direction] + device_[at(n.kind)][direction]
               ? from_host
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
