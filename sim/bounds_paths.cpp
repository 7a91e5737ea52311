// The slots of all stages as a graph, once for each direction: with F a slot's end and S the end of its send,
//   F(i) = max(F or S of the slot before it on its stage, S of the slot it waits for + arrival) + entry + duration,
//          but no less than the host's time for all slots of the stage so far
//   S(i) = max(F(i), S of the send before it on its lane) + send
// S before F where sends are not overlapped. Leaves out what hosts spend between plans and the sends' own hosts.
#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>

#include "model/transformer/counts.h"
#include "sim/bounds_pipeline.h"

namespace stepcast {
namespace {

struct Node {
    int before = -1;       // slot before it on the stage
    int source = -1;       // slot that it waits for
    int lane_before = -1;  // slot whose send was the one before on the lane
    int kind = 0;          // of its features
    int send = -1;         // feature of its send, if any
    int stage = 0;
};

class Slots {
public:
    Slots(const PipelineKey& key, const Workload& workload);
    [[nodiscard]] std::vector<Features> longest(const Features& direction,
                                                std::span<const std::vector<int>> group_stages);

private:
    struct StageState {
        std::size_t next = 0;
        int last = -1;
        std::array<int, 2> lane{-1, -1};
    };
    void add_kinds();
    void write();
    bool write_slot(int stage, const Slot& slot);
    [[nodiscard]] int send_feature(int a, int b) const;
    [[nodiscard]] bool sends(int node) const { return nodes_[at(node)].send >= 0; }
    [[nodiscard]] Features trace(int node, bool sent) const;
    static std::size_t at(int i) { return static_cast<std::size_t>(i); }
    // When the stage goes on after a slot.
    [[nodiscard]] bool leaves_by_send(int node) const { return !key_.overlap_p2p && sends(node); }

    const PipelineKey& key_;
    const Workload& workload_;
    Parallelism p_;
    std::vector<std::vector<Piece>> paths_;
    std::vector<Features> kinds_;             // [(stage * pieces + piece) * 4 + pass]
    std::vector<std::vector<int>> position_;  // [direction][stage * pieces + piece]
    std::vector<Node> nodes_;
    std::vector<StageState> stages_;
    std::vector<int> written_;  // node that ended at (direction, position, micro-batch, back), or -1
    // Of the last direction, by node: ends, and what decided them.
    std::vector<double> end_, sent_;
    enum Cause : std::uint8_t { from_stage, from_source, from_host };
    std::vector<std::uint8_t> cause_;
    std::vector<std::uint8_t> lane_waited_;
};

Slots::Slots(const PipelineKey& key, const Workload& workload)
    : key_(key), workload_(workload), p_(parallelism_of(key)), stages_(at(key.pp)) {
    for (int d = 0; d < directions(p_); ++d) paths_.push_back(pieces_of(workload, p_, d));
    add_kinds();
    write();
    end_.resize(nodes_.size());
    sent_.resize(nodes_.size());
    cause_.resize(nodes_.size());
    lane_waited_.resize(nodes_.size());
}

void Slots::add_kinds() {
    const auto slots = at(key_.pp * key_.pieces);
    kinds_.assign(slots * 4, Features{});
    position_.assign(paths_.size(), std::vector<int>(slots, -1));
    std::vector<int> layers_before(at(key_.pp));
    for (std::size_t d = 0; d < paths_.size(); ++d)
        for (std::size_t i = 0; i < paths_[d].size(); ++i) {
            const Piece& piece = paths_[d][i];
            const auto slot = at(piece.stage * key_.pieces + piece.index);
            position_[d][slot] = static_cast<int>(i);
            for (int pass = 0; pass < 4; ++pass) {
                Features& f = kinds_[slot * 4 + at(pass)];
                const auto as = static_cast<Pass>(pass);
                if (piece.embedding) ++f[feature::unit(UnitKind::embedding, as)];
                if (piece.head) ++f[feature::unit(UnitKind::head, as)];
                for (int l = piece.first; l < piece.last; ++l) {
                    const UnitKind kind = has_experts(workload_, l) ? UnitKind::experts : UnitKind::dense;
                    ++f[feature::unit(kind, as)];
                    ++f[feature::host(kind, as)];
                    const int of_stage = layers_before[at(piece.stage)] + l - piece.first;
                    if ((as != Pass::backward && as != Pass::input_backward) ||
                        (key_.recompute_layers > 0 && of_stage >= key_.recompute_layers))
                        continue;
                    ++f[feature::again(kind)];
                    ++f[feature::host_again(kind)];
                }
            }
            layers_before[at(piece.stage)] += piece.last - piece.first;
        }
}

int Slots::send_feature(int a, int b) const {
    const int low = std::min(a, b), high = std::max(a, b);
    if (high - low > 1) return static_cast<int>(feature::send_wrap);
    return static_cast<int>(near_link(key_, low) ? feature::send_near : feature::send_far);
}

void Slots::write() {
    const auto orders = schedule_orders(key_.schedule, key_.pp, key_.pieces, key_.micro_batches);
    written_.assign(paths_.size() * paths_[0].size() * at(key_.micro_batches) * 2, -1);
    std::size_t slots = 0;
    for (const Order& order : orders) slots += order.size();
    nodes_.reserve(slots);
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
    if (nodes_.size() != slots) throw std::logic_error("bounds: the schedule waits for itself");
}

bool Slots::write_slot(int stage, const Slot& slot) {
    const std::size_t d = paths_.size() == 2 ? at(slot.piece) : 0;
    const auto& path = paths_[d];
    const int piece = stage * key_.pieces + slot.piece, position = position_[d][at(piece)];
    const bool weights = slot.pass == Pass::weight_backward, back = slot.pass != Pass::forward;
    const int end = static_cast<int>(path.size()) - 1, step = back ? -1 : 1;
    const auto where = [&](int i) {
        return ((d * path.size() + at(i)) * at(key_.micro_batches) + at(slot.micro_batch)) * 2 + (back ? 1 : 0);
    };
    StageState& state = stages_[at(stage)];
    Node node{.before = state.last, .kind = piece * 4 + static_cast<int>(slot.pass), .stage = stage};
    if (const int from = position - step; !weights && from >= 0 && from <= end) {
        node.source = written_[where(from)];
        if (node.source < 0) return false;
    }
    const int id = static_cast<int>(nodes_.size());
    if (const int to = position + step; !weights && to >= 0 && to <= end) {
        const int target = path[at(to)].stage;
        if (target != stage) {
            node.send = send_feature(stage, target);
            int& lane = state.lane[(step > 0) == (d == 0) ? 0 : 1];
            node.lane_before = std::exchange(lane, id);
        }
    }
    if (!weights) written_[where(position)] = id;
    state.last = id;
    nodes_.push_back(node);
    return true;
}

std::vector<Features> Slots::longest(const Features& direction, std::span<const std::vector<int>> group_stages) {
    std::vector<double> device(kinds_.size()), host(kinds_.size()), hosts(at(key_.pp));
    for (std::size_t k = 0; k < kinds_.size(); ++k)
        for (std::size_t i = 0; i < direction.size(); ++i)
            (i < at(feature::device_end) ? device : host)[k] += kinds_[k][i] * direction[i];
    std::vector<std::pair<double, int>> last(at(key_.pp), {0, -1});
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
        const Node& n = nodes_[at(i)];
        double ready = n.before < 0 ? 0 : leaves_by_send(n.before) ? sent_[at(n.before)] : end_[at(n.before)];
        Cause cause = from_stage;
        if (n.source >= 0) {
            const double arrived =
                sends(n.source) ? sent_[at(n.source)] + direction[feature::arrival] : end_[at(n.source)];
            if (arrived > ready) {
                ready = arrived;
                cause = from_source;
            }
            if (sends(n.source)) ready += direction[feature::entry];
        }
        double end = ready + device[at(n.kind)];
        double& issued = hosts[at(n.stage)];
        issued += host[at(n.kind)];
        if (issued > end) {
            end = issued;
            cause = from_host;
        }
        end_[at(i)] = end;
        cause_[at(i)] = cause;
        if (n.send >= 0) {
            const bool waits = n.lane_before >= 0 && sent_[at(n.lane_before)] > end;
            lane_waited_[at(i)] = waits;
            sent_[at(i)] = (waits ? sent_[at(n.lane_before)] : end) + direction[at(n.send)];
        }
        last[at(n.stage)] = {leaves_by_send(i) ? sent_[at(i)] : end, i};
    }
    std::vector<Features> ways;
    for (const auto& stages : group_stages) {
        std::pair<double, int> latest{-1, -1};
        for (const int s : stages)
            if (last[at(s)].first > latest.first) latest = last[at(s)];
        ways.push_back(trace(latest.second, leaves_by_send(latest.second)));
    }
    return ways;
}

Features Slots::trace(int node, bool sent) const {
    Features way{};
    while (node >= 0) {
        const Node& n = nodes_[at(node)];
        if (sent) {
            ++way[at(n.send)];
            if (lane_waited_[at(node)]) {
                node = n.lane_before;
                continue;
            }
            sent = false;
        }
        if (cause_[at(node)] == from_host) {
            for (int i = node; i >= 0; i = nodes_[at(i)].before)
                for (std::size_t f = at(feature::device_end); f < way.size(); ++f)
                    way[f] += kinds_[at(nodes_[at(i)].kind)][f];
            return way;
        }
        for (std::size_t f = 0; f < at(feature::device_end); ++f) way[f] += kinds_[at(n.kind)][f];
        if (n.source >= 0 && sends(n.source)) ++way[feature::entry];
        const bool came = cause_[at(node)] == from_source;
        if (came && sends(n.source)) ++way[feature::arrival];
        node = came ? n.source : n.before;
        sent = node >= 0 && (came ? sends(node) : leaves_by_send(node));
    }
    return way;
}

}  // namespace

std::vector<std::vector<Features>> longest_ways(const PipelineKey& key, const Workload& workload,
                                                std::span<const std::vector<int>> group_stages,
                                                std::span<const Features> directions) {
    Slots slots(key, workload);
    std::vector<std::vector<Features>> ways;
    for (const Features& direction : directions) ways.push_back(slots.longest(direction, group_stages));
    return ways;
}

}  // namespace stepcast
