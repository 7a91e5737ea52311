// The longest paths through the slots of all stages, once for each direction: traced back from their ends (SlotTimes).
#include <algorithm>

#include "sim/bounds/slots.h"

namespace stepcast {
namespace {

// A step of a path: a slot, or the send that follows it.
struct Step {
    int node = -1;
    bool sent = false;
};

class LongestPaths {
public:
    LongestPaths(const PipelineKey& key, const Workload& workload)
        : key_(key), slots_(slot_graph(key, workload)), times_(key_, slots_) {}
    // [direction][group]
    std::vector<std::vector<PipelinePath>> find(std::span<const Features> directions,
                                                std::span<const std::vector<int>> group_stages) {
        std::vector<int> last(at(key_.pp), -1);
        for (int i = 0; i < static_cast<int>(slots_.nodes.size()); ++i) last[at(node(i).stage)] = i;
        std::vector<std::vector<PipelinePath>> paths;
        for (std::size_t first = 0; first < directions.size(); first += SlotTimes::width) {
            const auto some = directions.subspan(first, std::min(SlotTimes::width, directions.size() - first));
            times_.run(some);
            for (direction_ = 0; direction_ < some.size(); ++direction_) {
                auto& of_direction = paths.emplace_back();
                for (const auto& stages : group_stages) {
                    int latest = last[at(stages.front())];
                    for (const int s : stages)
                        if (end(last[at(s)]) > end(latest)) latest = last[at(s)];
                    of_direction.push_back(trace({latest, false}));
                }
            }
        }
        return paths;
    }

private:
    [[nodiscard]] const SlotNode& node(int i) const { return slots_.nodes[at(i)]; }
    [[nodiscard]] bool sends(int i) const { return node(i).send >= 0; }
    [[nodiscard]] double end(int i) const { return times_.end(i, direction_); }
    [[nodiscard]] bool by_host(const Step& step) const {
        return !step.sent && times_.cause(step.node, direction_) == SlotTimes::from_host;
    }

    // Adds a step that no host decided to a path; returns the one before it.
    Step add_step(const Step& step, Features& path) const {
        const SlotNode& n = node(step.node);
        if (step.sent) {
            ++path[at(n.send)];
            const int waited = times_.send_waited_for(step.node, direction_);
            return waited >= 0 ? Step{waited, true} : Step{step.node, false};
        }
        for (std::size_t f = 0; f < at(feature::device_end); ++f) path[f] += slots_.kinds[at(n.kind)][f];
        if (n.fills_last) path[feature::inside_last] += slots_.layers_of(n) - 1;
        if (n.source >= 0 && sends(n.source)) ++path[feature::entry];
        const SlotTimes::Cause cause = times_.cause(step.node, direction_);
        if (cause == SlotTimes::from_own_send) return {n.before, true};
        if (cause == SlotTimes::from_stage) {
            if (n.before >= 0) {
                if (const std::size_t f = times_.after(n.before); f < at(feature::device_end)) ++path[f];
                if (node(n.before).fills_last) ++path[feature::after_last];
            }
            return {n.before, false};
        }
        if (sends(n.source)) ++path[feature::arrival];
        return {n.source, sends(n.source)};
    }

    void add_hosts_until(int i, Features& path) const {
        for (; i >= 0; i = node(i).before)
            for (std::size_t f = at(feature::device_end); f < path.size(); ++f) path[f] += slots_.features(node(i))[f];
    }

    PipelinePath trace(Step last) const {
        PipelinePath path;
        std::vector<Step> steps;
        for (Step step = last; step.node >= 0;) {
            steps.push_back(step);
            if (by_host(step)) {
                add_hosts_until(step.node, path.once);
                path.by_host = true;
                break;
            }
            step = add_step(step, path.once);
        }
        path.round = repeated(steps);
        return path;
    }

    // What the host of a stage issues in a round, where its slot is of the steady part and that takes longer than `longest`.
    bool host_round(const SlotNode& begun, double longest, Features& round) const {
        const auto [first, last] = slots_.steady[at(begun.stage)];
        if (begun.position < first || last <= 0) return false;
        std::vector<int> times(slots_.kinds.size());
        double hosts = 0;
        for (const SlotNode& n : slots_.nodes)
            if (n.stage == begun.stage && n.micro_batch >= slots_.shift && n.micro_batch < 2 * slots_.shift) {
                ++times[at(n.kind)];
                hosts += times_.host(n.kind, direction_);
            }
        if (hosts <= longest) return false;
        for (std::size_t k = 0; k < slots_.kinds.size(); ++k)
            for (std::size_t f = at(feature::device_end); f < round.size(); ++f) round[f] += times[k] * slots_.kinds[k][f];
        return true;
    }

    // Of all parts of the path that are one round long the one that takes longest,
    // or a round of the host that it begins with.
    Features repeated(const std::vector<Step>& steps) const {
        // By kind and micro-batch: position, of the run of steady steps that has this
        // number.
        std::vector<std::pair<int, std::size_t>> met(slots_.kinds.size() * at(key_.micro_batches));
        int run = 1;
        std::pair<std::size_t, std::size_t> best{};
        double longest = 0;
        for (std::size_t i = 0; i < steps.size(); ++i) {  // from the end
            const SlotNode& n = node(steps[i].node);
            const bool steady = slots_.is_steady(n);
            if (!steady) ++run;
            if (!steady || steps[i].sent || by_host(steps[i])) continue;
            const std::size_t place = at(n.kind) * at(key_.micro_batches) + at(n.micro_batch);
            met[place] = {run, i};
            if (n.micro_batch + slots_.shift >= key_.micro_batches) continue;
            const auto [of_run, found] = met[place + at(slots_.shift)];
            if (of_run != run) continue;
            const double length = end(steps[found].node) - end(steps[i].node);
            if (length <= longest) continue;
            longest = length;
            best = {found, i};
        }
        Features round{};
        if (by_host(steps.back()) && host_round(node(steps.back().node), longest, round)) return round;
        if (longest == 0) return round;
        for (Step step = steps[best.first]; !(step.node == steps[best.second].node && !step.sent);)
            step = add_step(step, round);
        round[feature::inside_last] = round[feature::after_last] = 0;  // what comes once comes once in more rounds too
        return round;
    }

    const PipelineKey& key_;
    SlotGraph slots_;
    SlotTimes times_;
    std::size_t direction_ = 0;  // whose path is traced
};

}  // namespace

std::vector<std::vector<PipelinePath>> longest_paths(const PipelineKey& key, const Workload& workload,
                                                    std::span<const std::vector<int>> group_stages,
                                                    std::span<const Features> directions) {
    return LongestPaths(key, workload).find(directions, group_stages);
}

}  // namespace stepcast
