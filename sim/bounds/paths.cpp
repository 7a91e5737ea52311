// The longest ways through the slots of all stages (sim/bounds/slots.h), once for each direction: with F a slot's end and S
// the end of its send,
//   F(i) = max(F + filled or opened, or S of the slot before it on its stage, S of the slot it waits for + arrival) + entry + duration,
//          but no less than the host's time for all slots of the stage so far
//   S(i) = max(F(i), S of the sends before it on the sender's and on the receiver's lane) + send
// S before F where sends are not overlapped. Leaves out what hosts spend between plans and the sends' own hosts.
#include <algorithm>
#include <map>

#include "sim/bounds/slots.h"

namespace stepcast {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// A step of a way: a slot, or the send that follows it.
struct Step {
    int node = -1;
    bool sent = false;
};

class LongestWays {
public:
    LongestWays(const PipelineKey& key, const Workload& workload)
        : key_(key),
          slots_(slot_graph(key, workload)),
          end_(slots_.nodes.size()),
          sent_(end_.size()),
          cause_(end_.size()),
          lane_waited_(end_.size()) {}
    [[nodiscard]] std::vector<PipelinePath> find(const Features& direction,
                                                 std::span<const std::vector<int>> group_stages);

private:
    [[nodiscard]] const SlotNode& node(int i) const { return slots_.nodes[at(i)]; }
    [[nodiscard]] bool sends(int i) const { return node(i).send >= 0; }
    [[nodiscard]] PipelinePath trace(Step last, const std::vector<double>& host) const;
    Step add_step(const Step& step, Features& way) const;
    [[nodiscard]] Features hosts_until(int i) const;
    [[nodiscard]] Features repeated(const std::vector<Step>& way, const std::vector<double>& host) const;
    [[nodiscard]] bool by_host(const Step& step) const { return !step.sent && cause_[at(step.node)] == from_host; }
    // What its stage waits for after a slot, if anything: a feature, or device_end.
    [[nodiscard]] std::size_t after(int i) const {
        const Pass pass = SlotGraph::pass_of(node(i));
        if (pass == Pass::forward) return feature::opened;
        if (pass == Pass::input_backward) return at(feature::device_end);
        return slots_.features(node(i))[feature::filling_single] > 0 ? feature::filled_single : feature::filled;
    }
    // When the stage goes on after a slot.
    [[nodiscard]] bool leaves_by_send(int i) const { return !key_.overlap_p2p && sends(i); }

    const PipelineKey& key_;
    SlotGraph slots_;
    // Of the last direction, by node: ends, and what decided them.
    std::vector<double> end_, sent_;
    enum Cause : std::uint8_t { from_stage, from_own_send, from_source, from_host };
    std::vector<std::uint8_t> cause_;
    std::vector<int> lane_waited_;  // slot whose send was waited for, or -1
};

std::vector<PipelinePath> LongestWays::find(const Features& direction, std::span<const std::vector<int>> group_stages) {
    std::vector<double> device(slots_.kinds.size()), host(slots_.kinds.size()), hosts(at(key_.pp));
    for (std::size_t k = 0; k < slots_.kinds.size(); ++k)
        for (std::size_t i = 0; i < direction.size(); ++i)
            (i < at(feature::device_end) ? device : host)[k] += slots_.kinds[k][i] * direction[i];
    std::vector<std::pair<double, int>> last(at(key_.pp), {0, -1});
    for (int i = 0; i < static_cast<int>(slots_.nodes.size()); ++i) {
        const SlotNode& n = node(i);
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
Step LongestWays::add_step(const Step& step, Features& way) const {
    const SlotNode& n = node(step.node);
    if (step.sent) {
        ++way[at(n.send)];
        const int waited = lane_waited_[at(step.node)];
        return waited >= 0 ? Step{waited, true} : Step{step.node, false};
    }
    for (std::size_t f = 0; f < at(feature::device_end); ++f) way[f] += slots_.kinds[at(n.kind)][f];
    if (n.fills_last) way[feature::inside_last] += slots_.layers_of(n) - 1;
    if (n.source >= 0 && sends(n.source)) ++way[feature::entry];
    if (cause_[at(step.node)] == from_own_send) return {n.before, true};
    if (cause_[at(step.node)] == from_stage) {
        if (n.before >= 0) {
            if (const std::size_t f = after(n.before); f < at(feature::device_end)) ++way[f];
            if (node(n.before).fills_last) ++way[feature::after_last];
        }
        return {n.before, false};
    }
    if (sends(n.source)) ++way[feature::arrival];
    return {n.source, sends(n.source)};
}

Features LongestWays::hosts_until(int i) const {
    Features way{};
    for (; i >= 0; i = node(i).before)
        for (std::size_t f = at(feature::device_end); f < way.size(); ++f) way[f] += slots_.features(node(i))[f];
    return way;
}

PipelinePath LongestWays::trace(Step last, const std::vector<double>& host) const {
    PipelinePath path;
    std::vector<Step> way;
    for (Step step = last; step.node >= 0;) {
        way.push_back(step);
        if (by_host(step)) {
            const Features hosts = hosts_until(step.node);
            for (std::size_t f = 0; f < hosts.size(); ++f) path.once[f] += hosts[f];
            path.by_host = true;
            break;
        }
        step = add_step(step, path.once);
    }
    path.round = repeated(way, host);
    return path;
}

// Of all parts of the way that are one round long the one that takes longest, or a round of the host that it begins with.
Features LongestWays::repeated(const std::vector<Step>& way, const std::vector<double>& host) const {
    std::map<std::pair<int, int>, std::size_t> met;  // (kind, micro-batch) -> position
    std::pair<std::size_t, std::size_t> best{};
    double longest = 0;
    for (std::size_t i = 0; i < way.size(); ++i) {  // from the end
        const SlotNode& n = node(way[i].node);
        if (!slots_.is_steady(n)) met.clear();
        if (way[i].sent || by_host(way[i]) || !slots_.is_steady(n)) continue;
        met.emplace(std::pair(n.kind, n.micro_batch), i);
        const auto found = met.find({n.kind, n.micro_batch + slots_.shift});
        if (found == met.end()) continue;
        const double length = end_[at(way[found->second].node)] - end_[at(way[i].node)];
        if (length <= longest) continue;
        longest = length;
        best = {found->second, i};
    }
    Features round{};
    if (const SlotNode& begun = node(way.back().node); by_host(way.back()) &&
                                                       begun.position >= slots_.steady[at(begun.stage)].first &&
                                                       slots_.steady[at(begun.stage)].second > 0) {
        const int stage = begun.stage;
        std::vector<int> times(slots_.kinds.size());
        double hosts = 0;
        for (const SlotNode& n : slots_.nodes)
            if (n.stage == stage && n.micro_batch >= slots_.shift && n.micro_batch < 2 * slots_.shift) {
                ++times[at(n.kind)];
                hosts += host[at(n.kind)];
            }
        if (hosts > longest) {
            for (std::size_t k = 0; k < slots_.kinds.size(); ++k)
                for (std::size_t f = at(feature::device_end); f < round.size(); ++f)
                    round[f] += times[k] * slots_.kinds[k][f];
            return round;
        }
    }
    if (longest == 0) return round;
    for (Step step = way[best.first]; !(step.node == way[best.second].node && !step.sent);)
        step = add_step(step, round);
    round[feature::inside_last] = round[feature::after_last] = 0;  // what comes once comes once in more rounds too
    return round;
}

}  // namespace

std::vector<std::vector<PipelinePath>> longest_ways(const PipelineKey& key, const Workload& workload,
                                                    std::span<const std::vector<int>> group_stages,
                                                    std::span<const Features> directions) {
    LongestWays slots(key, workload);
    std::vector<std::vector<PipelinePath>> ways;
    for (const Features& direction : directions) ways.push_back(slots.find(direction, group_stages));
    return ways;
}

}  // namespace stepcast
