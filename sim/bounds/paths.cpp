#include "sim/bounds/paths.h"

#include <algorithm>
#include <optional>

#include "model/base/numbers.h"
#include "sim/bounds/slots.h"
#include "sim/bounds/turns.h"

namespace stepcast {
namespace {

// A step of a path: a slot with what decided its end, or the send that follows a slot.
struct Step {
    int node = -1;
    bool sent = false;
    SlotTimes::Cause cause = SlotTimes::from_stage;
    [[nodiscard]] bool by_host() const { return cause == SlotTimes::from_host; }
};

class LongestPaths {
public:
    LongestPaths(const PipelineKey& key, const Workload& workload)
        : key_(key), slots_(slot_graph(key, workload)), times_(key_, slots_) {}
    // [direction][group]
    std::vector<std::vector<PipelinePath>> find(std::span<const TimesOfDirection> directions,
                                                std::span<const std::vector<int>> group_stages) {
        std::vector<int> last(at(key_.pp), -1);
        for (int i = 0; i < as_int(slots_.nodes.size()); ++i) last[at(node(i).stage)] = i;
        std::vector<std::vector<PipelinePath>> paths;
        for (std::size_t first = 0; first < directions.size(); first += SlotTimes::width) {
            const auto some =
                directions.subspan(first, std::min(SlotTimes::width, directions.size() - first));
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
    [[nodiscard]] const SlotNode& node(int i) const { return slots_.node(i); }
    [[nodiscard]] double end(int i) const { return times_.end(i, direction_); }

    // What a path counts: `met` its slots, by kind, and `beside` all else.
    struct Counted {
        SlotCounts beside;
        std::vector<int> met;
    };
    [[nodiscard]] Counted nothing() const { return {{}, std::vector<int>(slots_.kinds.size())}; }
    [[nodiscard]] SlotCounts all_of(Counted counted) const {
        SlotCounts& sum = counted.beside;
        for (std::size_t k = 0; k < counted.met.size(); ++k) {
            const int met = counted.met[k];
            if (met == 0) continue;
            const auto& [alone, turns] = slots_.kinds[k];
            for (std::size_t f = 0; f < feature::none; ++f) sum.alone[f] += met * alone[f];
            if (!key_.overlap_experts) continue;
            for (std::size_t f = 0; f < feature::none; ++f) sum.turns[f] += met * turns[f];
        }
        return sum;
    }

    // Adds to the path a step that no host decided. Returns the step before it, whose cause is not
    // set yet.
    Step add_step(const Step& step, Counted& counts) const {
        const SlotNode& n = node(step.node);
        FeatureCounts& path = counts.beside.alone;
        if (step.sent) {
            ++path[n.send];
            const int waited = times_.send_waited_for(step.node, direction_);
            return waited >= 0 ? Step{waited, true} : Step{step.node, false};
        }
        const bool forward_last = step.cause == SlotTimes::from_forward;
        ++counts.met[times_.alike(n.kind + (forward_last ? 1 : 0))];
        path[feature::inside_last] += times_.filled_inside(n);
        const int source = forward_last ? n.forward : n.source;
        const bool was_sent = source >= 0 && node(source).sends();
        if (was_sent && !n.turns) ++path[feature::entry];
        if (step.cause == SlotTimes::from_own_send) return {n.before, true};
        if (step.cause == SlotTimes::from_source || forward_last) {
            if (was_sent) ++path[feature::arrival];
            return {source, was_sent};
        }
        if (n.before < 0) return {};
        count_behind(n.behind, counts.beside.turns);
        if (n.goes_on) ++path[feature::stall(Pass::forward)];
        if (const std::size_t f = times_.after(n.before); f != feature::none) ++path[f];
        if (times_.turns(step.node)) ++path[feature::turn];
        if (node(n.before).fills_last) ++path[feature::after_last];
        return {n.before, false};
    }

    void add_host(const SlotNode& n, FeatureCounts& path) const {
        for (std::size_t f = feature::hosts; f < feature::count; ++f)
            path[f] += slots_.features(n)[f];
    }

    PipelinePath trace(Step last) const {
        PipelinePath path;
        Counted counted = nothing();
        std::vector<Step> steps;
        for (Step step = last; step.node >= 0 && !path.by_host;) {
            if (!step.sent) step.cause = times_.cause(step.node, direction_);
            steps.push_back(step);
            path.by_host = step.by_host();
            if (!path.by_host) step = add_step(step, counted);
        }
        const SlotCounts once = all_of(std::move(counted));
        path.once = once.alone;
        path.turns_once = once.turns;
        path.through_pairs = key_.overlap_experts;
        for (int i = path.by_host ? steps.back().node : -1; i >= 0; i = node(i).before)
            add_host(node(i), path.once);
        const SlotCounts round = repeated(steps);
        path.round = round.alone;
        path.turns_round = round.turns;
        return path;
    }

    // What a stage's host issues in a round. Nothing if `begun` is before the stage's steady part,
    // or if the round takes at most `longest`.
    std::optional<FeatureCounts> host_round(const SlotNode& begun, double longest) const {
        const auto [first, last] = slots_.steady[at(begun.stage)];
        if (begun.position < first || last <= 0) return std::nullopt;
        FeatureCounts round{};
        double hosts = 0;
        for (const SlotNode& n : slots_.nodes) {
            if (n.stage != begun.stage || n.micro_batch < slots_.shift ||
                n.micro_batch >= 2 * slots_.shift)
                continue;
            add_host(n, round);
            hosts += times_.host(n.kind, direction_);
        }
        return hosts > longest ? std::optional(round) : std::nullopt;
    }

    // The longest part of the path that spans one round, or a round of the host if the path begins
    // with it and that takes longer.
    SlotCounts repeated(const std::vector<Step>& steps) const {
        // By kind and micro-batch: the number of the run of steady steps in which the path last met
        // this slot, and its index in `steps`.
        std::vector<std::pair<int, std::size_t>> met(slots_.kinds.size() * at(key_.micro_batches));
        int run = 1;
        std::pair<std::size_t, std::size_t> best{};
        double longest = 0;
        for (std::size_t i = 0; i < steps.size(); ++i) {  // from the end of the path
            const SlotNode& n = node(steps[i].node);
            const auto [first, last] = slots_.steady[at(n.stage)];
            const bool steady = n.position >= first && n.position < last;
            if (!steady) ++run;
            if (!steady || steps[i].sent || steps[i].by_host()) continue;
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
        if (steps.back().by_host())
            if (const auto issued = host_round(node(steps.back().node), longest))
                return {*issued, {}};
        Counted counted = nothing();
        for (std::size_t i = best.first; i < best.second; ++i) add_step(steps[i], counted);
        SlotCounts round = all_of(std::move(counted));
        // these happen once, no matter how many rounds there are
        round.alone[feature::inside_last] = round.alone[feature::after_last] = 0;
        return round;
    }

    const PipelineKey& key_;
    SlotGraph slots_;
    SlotTimes times_;
    std::size_t direction_ = 0;  // the direction that is traced
};

}  // namespace

std::vector<std::vector<PipelinePath>> longest_paths(const PipelineKey& key,
                                                     const Workload& workload,
                                                     std::span<const std::vector<int>> group_stages,
                                                     std::span<const TimesOfDirection> directions) {
    return LongestPaths(key, workload).find(directions, group_stages);
}

}  // namespace stepcast
