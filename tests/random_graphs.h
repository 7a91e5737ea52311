// Graphs and costs drawn from a seed: for laws that must hold on any graph. The same on every
// machine.
#pragma once

#include <random>
#include <vector>

#include "sim/costs/costs.h"
#include "tests/graphs.h"

namespace stepcast::graphs {

class RandomSource {
public:
    explicit RandomSource(std::uint64_t seed) : engine_(seed) {}
    int below(int n) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(n)); }
    bool one_in(int n) { return below(n) == 0; }
    double fraction() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

private:
    std::mt19937_64 engine_;
};

inline std::vector<Place> random_participants(RandomSource& random, int rank_count) {
    std::vector<Place> places;
    for (int r = 0; r < rank_count; ++r)
        if (!random.one_in(3)) places.push_back(collective(r));
    if (places.empty()) places.push_back(collective(random.below(rank_count)));
    return places;
}

// Mostly one host; now and then a meeting of all.
inline std::vector<Place> random_hosts(RandomSource& random, int rank_count) {
    if (!random.one_in(4)) return {host(random.below(rank_count))};
    std::vector<Place> places;
    for (int r = 0; r < rank_count; ++r) places.push_back(host(r));
    return places;
}

// Either lane may come first, which decides what the task counts as under contention.
inline std::vector<Place> two_lanes(RandomSource& random, int rank) {
    if (random.one_in(2)) return {compute(rank), collective(rank)};
    return {collective(rank), compute(rank)};
}

// Kernels, collectives of random groups, kernels on two lanes of a rank, sends between neighbours
// and, on every second graph, host work, also of several hosts at once.
inline TaskGraph random_graph(std::uint64_t seed, bool with_hosts) {
    RandomSource random(seed);
    const int ranks = 1 + random.below(4), tasks = 5 + random.below(60);
    TaskGraph graph(ranks, with_hosts && random.one_in(2));
    for (int t = 0; t < tasks; ++t) {
        std::vector<TaskId> after;
        for (int e = random.below(4); e > 0 && t > 0; --e)
            after.push_back(static_cast<TaskId>(t - 1 - random.below(std::min(t, 12))));
        const auto phase = static_cast<Phase>(random.below(phase_count));
        const int rank = random.below(ranks), kind = random.below(with_hosts ? 7 : 6);
        if (kind == 6)
            graph.add(graph.task_of("host", phase, HostWork{}, 0), random_hosts(random, ranks),
                      after);
        else if (kind == 5)
            graph.add("fused", phase, small_gemm(), two_lanes(random, rank), after);
        else if (kind == 4)
            graph.add("sum", phase, AllReduce{Bytes(1024)}, random_participants(random, ranks),
                      after);
        else if (kind == 3 && ranks > 1) {
            const int to = (rank + 1) % ranks;
            graph.add("send", phase, SendRecv{Bytes(512)},
                      std::vector{Place(rank, Lane::send_up), Place(to, Lane::receive_up)}, after);
        } else if (kind == 2)
            graph.add("pass", phase, small_pass(), std::vector{compute(rank)}, after);
        else
            graph.add("gemm", phase, small_gemm(), std::vector{compute(rank)}, after);
    }
    return graph;
}

// Durations up to a second, one in eight zero; issue costs likewise when asked for.
inline Costs random_costs(const TaskGraph& graph, std::uint64_t seed, bool with_issue) {
    RandomSource random(seed);
    const auto draw = [&] { return Seconds(random.one_in(8) ? 0 : random.fraction()); };
    Costs costs;
    for (TaskId t = 0; t < graph.size(); ++t) {
        costs.duration.push_back(draw());
        costs.issue.push_back(with_issue && !graph.on_host(t) ? 0.2 * draw() : Seconds(0));
    }
    return costs;
}

}  // namespace stepcast::graphs
