#include "sim/noise.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace stepcast {
namespace {

double spread_factor(double spread, std::mt19937_64& random) {
    std::normal_distribution<double> normal;
    return std::exp(spread * normal(random));
}

void add_jitter(const Noise& noise, std::mt19937_64& random, Costs& costs) {
    if (noise.op == 0) return;
    std::normal_distribution<double> normal;
    for (Seconds& duration : costs.duration) duration *= std::exp(noise.op * normal(random));
}

void add_host_load(const TaskGraph& graph, const Noise& noise, std::mt19937_64& random,
                   Costs& costs) {
    if (noise.host == 0) return;
    const double load = spread_factor(noise.host, random);
    for (TaskId t = 0; t < graph.size(); ++t) {
        costs.issue[t] *= load;
        if (graph.on_host(t)) costs.duration[t] *= load;
    }
}

bool on_compute_lane(const TaskGraph& graph, TaskId t) {
    return graph.places(t).front().lane() == Lane::compute;
}

// A burst slows one node from a random moment for `burst_length`. Bursts are a Poisson process in
// time, so the step sees on average (step + length) / every of them for each node. While a burst
// lasts, a kernel takes 1 + slowdown times as long.
void add_bursts(const TaskGraph& graph, const Cluster& cluster, const Timeline& quiet,
                std::mt19937_64& random, Costs& costs) {
    const Noise& noise = cluster.noise;
    if (noise.burst_slowdown == 0 || noise.burst_every <= Seconds(0)) return;
    const Seconds from = Seconds(0) - noise.burst_length;
    std::poisson_distribution<int> number(cluster.nodes * ((quiet.end - from) / noise.burst_every));
    std::uniform_real_distribution<double> share;
    std::vector<std::pair<Seconds, Seconds>> bursts;
    for (int i = number(random); i > 0; --i) {
        const Seconds start = from + share(random) * (quiet.end - from);
        bursts.emplace_back(start, start + noise.burst_length);
    }
    for (TaskId t = 0; t < graph.size(); ++t) {
        const Seconds length = quiet.finish[t] - quiet.start[t];
        if (!on_compute_lane(graph, t) || length <= Seconds(0)) continue;
        Seconds inside;
        for (const auto& [start, finish] : bursts)
            inside += std::max(Seconds(0),
                               std::min(finish, quiet.finish[t]) - std::max(start, quiet.start[t]));
        costs.duration[t] *= 1 + noise.burst_slowdown * std::min(1.0, inside / length);
    }
}

// The first collective that begins after `moment`. If there is none, the first of the step: the
// wait reaches the next step.
std::optional<TaskId> next_collective(const TaskGraph& graph, const Timeline& quiet,
                                      Seconds moment) {
    std::optional<TaskId> next, first;
    for (TaskId t = 0; t < graph.size(); ++t) {
        if (!is_collective(graph.op(t))) continue;
        if (!first || quiet.start[t] < quiet.start[*first]) first = t;
        if (quiet.start[t] >= moment && (!next || quiet.start[t] < quiet.start[*next])) next = t;
    }
    return next ? next : first;
}

// The task that a late rank delays. A collective overlapped with the backward cannot hide the
// delay, because the late rank's own kernels are late too. There the last kernel before the
// collective gets the delay.
TaskId where_it_shows(const TaskGraph& graph, const Timeline& quiet, TaskId collective) {
    const bool overlapped = graph.phase(collective) == Phase::backward &&
                            graph.places(collective).front().lane() == Lane::data;
    if (!overlapped) return collective;
    TaskId before = collective;
    for (TaskId t = 0; t < graph.size(); ++t)
        if (on_compute_lane(graph, t) && quiet.finish[t] <= quiet.start[collective] &&
            (before == collective || quiet.finish[t] >= quiet.finish[before]))
            before = t;
    return before;
}

// What a delay that was seen in steps of `straggler_step` is in this one. A log tells of one length
// of steps; the same share of a step leaves late ranks the same part of the mean step.
double share_of_delay(const Noise& noise, Seconds step) {
    return noise.straggler_step > Seconds(0) ? step / noise.straggler_step : 1;
}

// Each rank is late with probability `straggler_rate`, from a random moment of the step on and by a
// log-normal time. The other ranks wait for the latest one in the next collective. Source:
// docs/model.md.
void add_stragglers(const TaskGraph& graph, const Cluster& cluster, const Timeline& quiet,
                    std::mt19937_64& random, Costs& costs) {
    const Noise& noise = cluster.noise;
    if (noise.straggler_rate == 0 || noise.straggler_delay <= Seconds(0)) return;
    std::binomial_distribution<int> number(rank_count(cluster), noise.straggler_rate);
    Seconds latest;
    for (int i = number(random); i > 0; --i)
        latest =
            std::max(latest, spread_factor(noise.straggler_spread, random) * noise.straggler_delay);
    latest *= share_of_delay(noise, quiet.end);
    if (latest <= Seconds(0)) return;
    std::uniform_real_distribution<double> share;
    const auto collective = next_collective(graph, quiet, share(random) * quiet.end);
    if (collective) costs.duration[where_it_shows(graph, quiet, *collective)] += latest;
}

}  // namespace

std::mt19937_64 random_of(const Experiment& experiment, int draw) {
    std::seed_seq sequence{static_cast<std::uint32_t>(experiment.run.seed),
                           static_cast<std::uint32_t>(draw)};
    return std::mt19937_64(sequence);
}

bool needs_timeline(const Noise& noise) {
    return (noise.burst_slowdown > 0 && noise.burst_every > Seconds(0)) ||
           (noise.straggler_rate > 0 && noise.straggler_delay > Seconds(0));
}

bool has_noise(const Noise& noise) {
    return noise.op > 0 || noise.host > 0 || needs_timeline(noise);
}

void add_noise(const TaskGraph& graph, const Cluster& cluster, const Timeline& quiet,
               std::mt19937_64& random, Costs& costs) {
    add_bursts(graph, cluster, quiet, random, costs);
    add_stragglers(graph, cluster, quiet, random, costs);
    add_host_load(graph, cluster.noise, random, costs);
    add_jitter(cluster.noise, random, costs);
}

}  // namespace stepcast
