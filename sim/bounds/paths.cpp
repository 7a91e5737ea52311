// The slots of all stages as a graph, once for each direction: with F a slot's end and S the end of its send,
//   F(i) = max(F + filled or opened, or S of the slot before it on its stage, S of the slot it waits for + arrival) + entry + duration,
//          but no less than the host's time for all slots of the stage so far
//   S(i) = max(F(i), S of the sends before it on the sender's and on the receiver's lane) + send
// S before F where sends are not overlapped. Leaves out what hosts spend between plans and the sends' own hosts.
#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>

#include "model/transformer/counts.h"
#include "sim/bounds/pipeline.h"

namespace stepcast {
namespace {

struct Node {
    int before = -1;       // slot before it on the stage
    int source = -1;       // slot that it waits for
    int lane_before = -1;  // slot whose send was the one before on the sender's lane,
    int in_before = -1;    // on the receiver's
    int kind = 0;          // of its features
    int send = -1;         // feature of its send, if any
    int stage = 0;
    int micro_batch = 0;  // of its direction
    int position = 0;     // in the order of its stage
};

// A step of a way: a slot, or the send that follows it.
struct Step {
    int node = -1;
    bool sent = false;
};

class Slots {
public:
    Slots(const PipelineKey& key, const Workload& workload);
    [[nodiscard]] std::vector<PipelinePath> longest(const Features& direction,
                                                    std::span<const std::vector<int>> group_stages);

private:
    struct StageState {
        std::size_t next = 0;
        int last = -1;
        std::array<int, 2> out{-1, -1}, in{-1, -1};  // [down] slots that sent last on a lane
    };
    void add_kinds();
    void write();
    void find_steady(std::span<const Order> orders);
    [[nodiscard]] bool steady(int node) const {
        const auto [begin, end] = steady_[at(nodes_[at(node)].stage)];
        return nodes_[at(node)].position >= begin && nodes_[at(node)].position < end;
    }
    bool write_slot(int stage, const Slot& slot);
    [[nodiscard]] int send_feature(int a, int b) const;
    [[nodiscard]] bool sends(int node) const { return nodes_[at(node)].send >= 0; }
    [[nodiscard]] PipelinePath trace(Step last, const std::vector<double>& host) const;
    Step add_step(const Step& step, Features& way) const;
    [[nodiscard]] Features hosts_until(int node) const;
    [[nodiscard]] Features repeated(const std::vector<Step>& way, const std::vector<double>& host) const;
    [[nodiscard]] bool by_host(const Step& step) const { return !step.sent && cause_[at(step.node)] == from_host; }
    static std::size_t at(int i) { return static_cast<std::size_t>(i); }
    // What its stage waits for after a slot, if anything: a feature, or device_end.
    [[nodiscard]] std::size_t after(int node) const {
        const int kind = nodes_[at(node)].kind;
        const auto pass = static_cast<Pass>(kind % 4);
        if (pass == Pass::forward) return feature::opened;
        if (pass == Pass::input_backward) return at(feature::device_end);
        return kinds_[at(kind)][feature::filling_single] > 0 ? feature::filled_single : feature::filled;
    }
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
    int shift_ = 0;                            // micro-batches of a round, of one direction
    std::vector<std::pair<int, int>> steady_;  // by stage: positions at which its order is the same a round later
    std::vector<int> written_;                 // node that ended at (direction, position, micro-batch, back), or -1
    // Of the last direction, by node: ends, and what decided them.
    std::vector<double> end_, sent_;
    enum Cause : std::uint8_t { from_stage, from_own_send, from_source, from_host };
    std::vector<std::uint8_t> cause_;
    std::vector<int> lane_waited_;  // slot whose send was waited for, or -1
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
                const bool single = piece.last - piece.first == 1 && !piece.embedding && !piece.head;
                if (as == Pass::backward || as == Pass::weight_backward)
                    ++f[single ? feature::filling_single : feature::filling];
                if (as == Pass::forward) --f[feature::opened];
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
    find_steady(orders);
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

// The longest run of slots that come again a round later, with that round.
void Slots::find_steady(std::span<const Order> orders) {
    shift_ = rounds_of(key_.schedule, key_.pp, key_.micro_batches).round / static_cast<int>(paths_.size());
    for (const Order& order : orders) {
        const int round =
            static_cast<int>(order.size()) / key_.micro_batches * shift_ * static_cast<int>(paths_.size());
        std::pair<int, int> longest{}, run{};
        for (int i = 0; i + round < static_cast<int>(order.size()); ++i) {
            const Slot &now = order[at(i)], &later = order[at(i + round)];
            if (later == Slot{now.micro_batch + shift_, now.piece, now.pass})
                run.second = i + 1;
            else
                run = {i + 1, i + 1};
            if (run.second - run.first > longest.second - longest.first) longest = run;
        }
        if (longest.second > longest.first) longest.second += round;
        steady_.push_back(longest);
    }
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
    Node node{.before = state.last,
              .kind = piece * 4 + static_cast<int>(slot.pass),
              .stage = stage,
              .micro_batch = slot.micro_batch,
              .position = static_cast<int>(state.next)};
    if (d == 1) node.micro_batch -= (key_.micro_batches + 1) / 2;
    if (const int from = position - step; !weights && from >= 0 && from <= end) {
        node.source = written_[where(from)];
        if (node.source < 0) return false;
    }
    const int id = static_cast<int>(nodes_.size());
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
    nodes_.push_back(node);
    return true;
}

std::vector<PipelinePath> Slots::longest(const Features& direction, std::span<const std::vector<int>> group_stages) {
    std::vector<double> device(kinds_.size()), host(kinds_.size()), hosts(at(key_.pp));
    for (std::size_t k = 0; k < kinds_.size(); ++k)
        for (std::size_t i = 0; i < direction.size(); ++i)
            (i < at(feature::device_end) ? device : host)[k] += kinds_[k][i] * direction[i];
    std::vector<std::pair<double, int>> last(at(key_.pp), {0, -1});
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
        const Node& n = nodes_[at(i)];
        double ready = 0;
        if (n.before >= 0) {
            ready = end_[at(n.before)];
            if (const std::size_t f = after(n.before); f < at(feature::device_end)) ready += direction[f];
        }
        Cause cause = from_stage;
        if (n.before >= 0 && leaves_by_send(n.before) && sent_[at(n.before)] > ready) {
            ready = sent_[at(n.before)];
            cause = from_own_send;
        }
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
            int waited = -1;
            double free = end;
            for (const int before : {n.lane_before, n.in_before})
                if (before >= 0 && sent_[at(before)] > free) {
                    waited = before;
                    free = sent_[at(before)];
                }
            lane_waited_[at(i)] = waited;
            sent_[at(i)] = free + direction[at(n.send)];
        }
        last[at(n.stage)] = {end, i};
    }
    std::vector<PipelinePath> ways;
    for (const auto& stages : group_stages) {
        std::pair<double, int> latest{-1, -1};
        for (const int s : stages)
            if (last[at(s)].first > latest.first) latest = last[at(s)];
        ways.push_back(trace({latest.second, false}, host));
    }
    return ways;
}

// Adds a step that no host decided to a way; returns the one before it.
Step Slots::add_step(const Step& step, Features& way) const {
    const Node& n = nodes_[at(step.node)];
    if (step.sent) {
        ++way[at(n.send)];
        const int waited = lane_waited_[at(step.node)];
        return waited >= 0 ? Step{waited, true} : Step{step.node, false};
    }
    for (std::size_t f = 0; f < at(feature::device_end); ++f) way[f] += kinds_[at(n.kind)][f];
    if (n.source >= 0 && sends(n.source)) ++way[feature::entry];
    if (cause_[at(step.node)] == from_own_send) return {n.before, true};
    if (cause_[at(step.node)] == from_stage) {
        if (n.before >= 0)
            if (const std::size_t f = after(n.before); f < at(feature::device_end)) ++way[f];
        return {n.before, false};
    }
    if (sends(n.source)) ++way[feature::arrival];
    return {n.source, sends(n.source)};
}

Features Slots::hosts_until(int node) const {
    Features way{};
    for (; node >= 0; node = nodes_[at(node)].before)
        for (std::size_t f = at(feature::device_end); f < way.size(); ++f)
            way[f] += kinds_[at(nodes_[at(node)].kind)][f];
    return way;
}

PipelinePath Slots::trace(Step last, const std::vector<double>& host) const {
    PipelinePath path;
    std::vector<Step> way;
    for (Step step = last; step.node >= 0;) {
        way.push_back(step);
        if (by_host(step)) {
            const Features hosts = hosts_until(step.node);
            for (std::size_t f = 0; f < hosts.size(); ++f) path.once[f] += hosts[f];
            break;
        }
        step = add_step(step, path.once);
    }
    path.round = repeated(way, host);
    return path;
}

// Of all parts of the way that are one round long the one that takes longest, or a round of the host that it begins with.
Features Slots::repeated(const std::vector<Step>& way, const std::vector<double>& host) const {
    std::map<std::pair<int, int>, std::size_t> met;  // (kind, micro-batch) -> position
    std::pair<std::size_t, std::size_t> best{};
    double longest = 0;
    for (std::size_t i = 0; i < way.size(); ++i) {  // from the end
        const Node& n = nodes_[at(way[i].node)];
        if (!steady(way[i].node)) met.clear();
        if (way[i].sent || by_host(way[i]) || !steady(way[i].node)) continue;
        met.emplace(std::pair(n.kind, n.micro_batch), i);
        const auto found = met.find({n.kind, n.micro_batch + shift_});
        if (found == met.end()) continue;
        const double length = end_[at(way[found->second].node)] - end_[at(way[i].node)];
        if (length <= longest) continue;
        longest = length;
        best = {found->second, i};
    }
    Features round{};
    if (const auto& begun = nodes_[at(way.back().node)]; by_host(way.back()) &&
                                                         begun.position >= steady_[at(begun.stage)].first &&
                                                         steady_[at(begun.stage)].second > 0) {
        const int stage = nodes_[at(way.back().node)].stage;
        std::vector<int> times(kinds_.size());
        double hosts = 0;
        for (const Node& n : nodes_)
            if (n.stage == stage && n.micro_batch >= shift_ && n.micro_batch < 2 * shift_) {
                ++times[at(n.kind)];
                hosts += host[at(n.kind)];
            }
        if (hosts > longest) {
            for (std::size_t k = 0; k < kinds_.size(); ++k)
                for (std::size_t f = at(feature::device_end); f < round.size(); ++f)
                    round[f] += times[k] * kinds_[k][f];
            return round;
        }
    }
    if (longest == 0) return round;
    for (Step step = way[best.first]; !(step.node == way[best.second].node && !step.sent);)
        step = add_step(step, round);
    return round;
}

}  // namespace

std::vector<std::vector<PipelinePath>> longest_ways(const PipelineKey& key, const Workload& workload,
                                                    std::span<const std::vector<int>> group_stages,
                                                    std::span<const Features> directions) {
    Slots slots(key, workload);
    std::vector<std::vector<PipelinePath>> ways;
    for (const Features& direction : directions) ways.push_back(slots.longest(direction, group_stages));
    return ways;
}

}  // namespace stepcast
