#include "sim/bounds/slots.h"

#include <algorithm>
#include <stdexcept>

#include "model/transformer/counts.h"

namespace stepcast {
namespace {

class SlotWriter {
public:
    SlotWriter(const PipelineKey& key, const Workload& workload)
        : key_(key), workload_(workload), p_(parallelism_of(key)), stages_(at(key.pp)) {
        for (int d = 0; d < directions(p_); ++d) paths_.push_back(chunks_of(workload, p_, d));
        add_kinds();
    }
    SlotGraph write() {
        const auto orders = schedule_orders(key_.schedule, key_.pp, key_.chunks, key_.micro_batches);
        find_steady(orders);
        find_last(orders);
        written_.assign(paths_.size() * paths_[0].size() * at(key_.micro_batches) * 2, -1);
        std::size_t slots = 0;
        for (const Order& order : orders) slots += order.size();
        graph_.nodes.reserve(slots);
        for (bool moved = true; moved;) {
            moved = false;
            for (int s = 0; s < key_.pp; ++s) {
                auto& next = stages_[at(s)].next;
                while (next < orders[at(s)].size() && write_slot(s, orders[at(s)][next])) {
                    ++next;
                    moved = true;
                }
            }
        }
        if (graph_.nodes.size() != slots) throw std::logic_error("bounds: the schedule waits for itself");
        return std::move(graph_);
    }

private:
    struct StageState {
        std::size_t next = 0;
        int last = -1;
        std::array<int, 2> out{-1, -1}, in{-1, -1};  // [down] slots that sent last on a lane
    };

    void add_kinds() {
        const auto slots = at(key_.pp * key_.chunks);
        graph_.kinds.assign(slots * 4, Features{});
        graph_.layers.assign(slots, 0);
        position_.assign(paths_.size(), std::vector<int>(slots, -1));
        std::vector<int> layers_before(at(key_.pp));
        for (std::size_t d = 0; d < paths_.size(); ++d)
            for (std::size_t i = 0; i < paths_[d].size(); ++i) {
                const Chunk& chunk = paths_[d][i];
                const auto slot = at(chunk.stage * key_.chunks + chunk.index);
                position_[d][slot] = static_cast<int>(i);
                graph_.layers[slot] = chunk.last - chunk.first;
                for (int pass = 0; pass < 4; ++pass) {
                    Features& f = graph_.kinds[slot * 4 + at(pass)];
                    const auto as = static_cast<Pass>(pass);
                    const bool single = chunk.last - chunk.first == 1 && !chunk.embedding && !chunk.head;
                    if (as == Pass::backward || as == Pass::weight_backward)
                        ++f[single ? feature::filling_single : feature::filling];
                    if (as == Pass::forward) --f[feature::opened];
                    if (chunk.embedding) ++f[feature::unit(UnitKind::embedding, as)];
                    if (chunk.head) ++f[feature::unit(UnitKind::head, as)];
                    for (int l = chunk.first; l < chunk.last; ++l) {
                        const UnitKind kind = has_experts(workload_, l) ? UnitKind::experts : UnitKind::dense;
                        ++f[feature::unit(kind, as)];
                        ++f[feature::host(kind, as)];
                        const int of_stage = layers_before[at(chunk.stage)] + l - chunk.first;
                        if ((as != Pass::backward && as != Pass::input_backward) ||
                            (key_.recompute_layers > 0 && of_stage >= key_.recompute_layers))
                            continue;
                        ++f[feature::again(kind)];
                        ++f[feature::host_again(kind)];
                    }
                }
                layers_before[at(chunk.stage)] += chunk.last - chunk.first;
            }
    }

    int send_feature(int a, int b) const {
        const int low = std::min(a, b), high = std::max(a, b);
        if (high - low > 1) return static_cast<int>(feature::send_wrap);
        return static_cast<int>(near_link(key_, low) ? feature::send_near : feature::send_far);
    }

    void find_last(std::span<const Order> orders) {
        last_filling_.assign(at(key_.pp * key_.chunks), -1);
        for (std::size_t s = 0; s < orders.size(); ++s)
            for (std::size_t i = 0; i < orders[s].size(); ++i)
                if (const Slot& slot = orders[s][i]; slot.pass == Pass::backward || slot.pass == Pass::weight_backward)
                    last_filling_[s * at(key_.chunks) + at(slot.chunk)] = static_cast<int>(i);
    }

    // The longest run of slots that come again a round later, with that round.
    void find_steady(std::span<const Order> orders) {
        graph_.shift = rounds_of(key_.schedule, key_.pp, key_.micro_batches).round / static_cast<int>(paths_.size());
        for (const Order& order : orders) {
            const int round =
                static_cast<int>(order.size()) / key_.micro_batches * graph_.shift * static_cast<int>(paths_.size());
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
        const int chunk = stage * key_.chunks + slot.chunk, position = position_[d][at(chunk)];
        const bool weights = slot.pass == Pass::weight_backward, back = slot.pass != Pass::forward;
        const int end = static_cast<int>(path.size()) - 1, step = back ? -1 : 1;
        const auto where = [&](int i) {
            return ((d * path.size() + at(i)) * at(key_.micro_batches) + at(slot.micro_batch)) * 2 + (back ? 1 : 0);
        };
        StageState& state = stages_[at(stage)];
        SlotNode node{.before = state.last,
                      .kind = chunk * 4 + static_cast<int>(slot.pass),
                      .stage = stage,
                      .micro_batch = slot.micro_batch,
                      .position = static_cast<int>(state.next),
                      .fills_last = last_filling_[at(chunk)] == static_cast<int>(state.next)};
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
                const std::size_t down = (step > 0) == (d == 0) ? 0 : 1;
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
    Parallelism p_;
    std::vector<std::vector<Chunk>> paths_;
    std::vector<std::vector<int>> position_;  // [direction][stage * chunks + chunk]
    std::vector<int> last_filling_;           // [stage * chunks + chunk] position in the order
    std::vector<StageState> stages_;
    std::vector<int> written_;  // node that ended at (direction, position, micro-batch, back), or -1
    SlotGraph graph_;
};

}  // namespace

SlotGraph slot_graph(const PipelineKey& key, const Workload& workload) { return SlotWriter(key, workload).write(); }

void SlotTimes::set(std::span<const Features> directions) {
    device_.assign(slots_.kinds.size(), {});
    host_.assign(slots_.kinds.size(), {});
    for (std::size_t d = 0; d < directions.size(); ++d) {
        for (std::size_t f = 0; f < at(feature::device_end); ++f) feature_[f][d] = directions[d][f];
        for (std::size_t k = 0; k < slots_.kinds.size(); ++k)
            for (std::size_t f = 0; f < directions[d].size(); ++f)
                (f < at(feature::device_end) ? device_ : host_)[k][d] += slots_.kinds[k][f] * directions[d][f];
    }
}

void SlotTimes::run(std::span<const Features> directions) {
    set(directions);
    std::vector<Lanes> hosts(at(key_.pp));
    for (std::size_t i = 0; i < slots_.nodes.size(); ++i) {
        const SlotNode& n = slots_.nodes[i];
        run_slot(n, end_[i], hosts[at(n.stage)]);
        if (n.send >= 0) run_send(n, end_[i], sent_[i]);
    }
}

void SlotTimes::run_slot(const SlotNode& n, Lanes& end, Lanes& hosts) const {
    Lanes ready{};
    const auto wait = [&](const Lanes& until, const Lanes& more) {
        for (std::size_t d = 0; d < width; ++d) ready[d] = std::max(ready[d], until[d] + more[d]);
    };
    const Lanes& none = feature_[at(feature::device_end)];
    if (n.before >= 0) {
        wait(end_[at(n.before)], feature_[after(n.before)]);
        if (leaves_by_send(n.before)) wait(sent_[at(n.before)], none);
    }
    const bool sent = n.source >= 0 && sends(n.source);
    if (n.source >= 0) wait(sent ? sent_[at(n.source)] : end_[at(n.source)], sent ? feature_[feature::arrival] : none);
    const Lanes &entry = sent ? feature_[feature::entry] : none, &device = device_[at(n.kind)],
                &host = host_[at(n.kind)];
    for (std::size_t d = 0; d < width; ++d) {
        hosts[d] += host[d];
        end[d] = std::max(ready[d] + entry[d] + device[d], hosts[d]);
    }
}

void SlotTimes::run_send(const SlotNode& n, const Lanes& end, Lanes& sent) const {
    sent = end;
    for (const int before : {n.lane_before, n.in_before})
        if (before >= 0)
            for (std::size_t d = 0; d < width; ++d) sent[d] = std::max(sent[d], sent_[at(before)][d]);
    for (std::size_t d = 0; d < width; ++d) sent[d] += feature_[at(n.send)][d];
}

// As run_slot() decided; of equal ones the first.
SlotTimes::Cause SlotTimes::cause(int i, std::size_t direction) const {
    const SlotNode& n = node(i);
    double ready =
        n.before >= 0 ? std::max(0.0, end_[at(n.before)][direction] + feature_[after(n.before)][direction]) : 0;
    Cause cause = from_stage;
    if (n.before >= 0 && leaves_by_send(n.before) && sent_[at(n.before)][direction] > ready) {
        ready = sent_[at(n.before)][direction];
        cause = from_own_send;
    }
    const bool sent = n.source >= 0 && sends(n.source);
    if (n.source >= 0) {
        const double arrived = sent ? sent_[at(n.source)][direction] + feature_[feature::arrival][direction]
                                    : end_[at(n.source)][direction];
        if (arrived > ready) {
            ready = arrived;
            cause = from_source;
        }
    }
    const double end = ready + (sent ? feature_[feature::entry][direction] : 0) + device_[at(n.kind)][direction];
    return end_[at(i)][direction] > end ? from_host : cause;
}

int SlotTimes::send_waited_for(int i, std::size_t direction) const {
    int waited = -1;
    double free = end_[at(i)][direction];
    for (const int before : {node(i).lane_before, node(i).in_before})
        if (before >= 0 && sent_[at(before)][direction] > free) {
            waited = before;
            free = sent_[at(before)][direction];
        }
    return waited;
}

}  // namespace stepcast
