#include <catch2/catch.hpp>

#include "sim/noise.h"
#include "tests/graphs.h"

using namespace stepcast;
using namespace stepcast::graphs;
using namespace stepcast::literals;

namespace {

Costs whole_seconds(std::vector<Seconds> durations) {
    std::vector<Seconds> issue(durations.size(), Seconds(0));
    return {std::move(durations), std::move(issue)};
}

// The draws of one process over the quiet costs of a graph.
template <class Look>
void for_draws(int draws, const TaskGraph& graph, const Cluster& cluster, const Costs& quiet, Look look) {
    Timeline timeline;
    run_in_order(graph, quiet, timeline);
    std::mt19937_64 random(1);
    for (int d = 0; d < draws; ++d) {
        Costs costs = quiet;
        add_noise(graph, cluster, timeline, random, costs);
        look(costs);
    }
}

}  // namespace

// Bursts of 1e6 s, one in 1e6 s: the 6 s of a step lie wholly inside one with 1 - exp(-1) = 63.2 %, kernels then take
// 1.5 times as long.
TEST_CASE("a burst that covers the step slows every kernel, as often as its rate says") {
    Cluster cluster;
    cluster.noise.burst_slowdown = 0.5;
    cluster.noise.burst_every = cluster.noise.burst_length = 1e6_s;
    int struck = 0;
    for_draws(4000, chain(), cluster, whole_seconds({1_s, 2_s, 3_s}), [&](const Costs& costs) {
        const bool slow = costs.duration[2].si() > 3.1;
        struck += slow;
        CHECK(costs.duration[2].si() == Approx(slow ? 4.5 : 3.0).epsilon(1e-4));
        CHECK(costs.duration[0].si() == Approx(slow ? 1.5 : 1.0).epsilon(1e-4));
    });
    CHECK(struck / 4000.0 == Approx(0.632).margin(0.03));
}

// Bursts of 1 s every 10 s slow a tenth of the time by a half: the kernels' mean grows by 5 %.
TEST_CASE("short bursts slow the share of time that they fill") {
    Cluster cluster;
    cluster.noise.burst_slowdown = 0.5;
    cluster.noise.burst_every = 10_s;
    cluster.noise.burst_length = 1_s;
    double sum = 0;
    for_draws(20000, chain(), cluster, whole_seconds({1_s, 2_s, 3_s}),
              [&](const Costs& c) { sum += (c.duration[0] + c.duration[1] + c.duration[2]).si(); });
    CHECK(sum / 20000 == Approx(6 * 1.05).epsilon(0.005));
}

// Each of two ranks is late by 2 s with 50 %: one is, with 75 %, and one of the two collectives (ids 4, 5) is longer.
TEST_CASE("a late rank lengthens one collective, as often as any of the ranks is late") {
    Cluster cluster;
    cluster.gpus_per_node = 2;
    cluster.noise.straggler_rate = 0.5;
    cluster.noise.straggler_delay = 2_s;
    const Costs quiet = whole_seconds({1_s, 1_s, 1_s, 1_s, 1_s, 1_s, 1_s, 1_s});
    int late = 0;
    for_draws(4000, two_ranks_all_reduce(), cluster, quiet, [&](const Costs& costs) {
        const bool first = costs.duration[4] == 3_s, second = costs.duration[5] == 3_s;
        CHECK_FALSE((first && second));
        late += first || second;
        for (const TaskId t : {0, 1, 2, 3, 6, 7}) CHECK(costs.duration[t] == 1_s);
    });
    CHECK(late / 4000.0 == Approx(0.75).margin(0.03));
}

// The exchange runs beside the backward, so the wait shows in the kernel before it: a0 is the only one that has finished.
TEST_CASE("an exchange beside the backward hides no late rank") {
    TaskGraph graph(1);
    const TaskId a = graph.add("a", Phase::backward, small_gemm(), {compute(0)}, {});
    graph.add("bucket", Phase::backward, AllReduce{Bytes(4096)}, {{0, Lane::data}}, {a});
    graph.add("b", Phase::backward, small_gemm(), {compute(0)}, {a});
    Cluster cluster;
    cluster.gpus_per_node = 2;
    cluster.noise.straggler_rate = 1;
    cluster.noise.straggler_delay = 2_s;
    for_draws(10, graph, cluster, whole_seconds({1_s, 1_s, 5_s}), [&](const Costs& costs) {
        CHECK(costs.duration == std::vector<Seconds>{3_s, 1_s, 5_s});
    });
}

TEST_CASE("the host's noise is of what the host does, and common to it") {
    TaskGraph graph(1);
    graph.add("call", Phase::forward, HostWork{}, {host(0)}, {}, 0);
    graph.add("kernel", Phase::forward, small_gemm(), {compute(0)}, {});
    Cluster cluster;
    cluster.noise.host = 0.3;
    Costs quiet = whole_seconds({2_s, 5_s});
    quiet.issue = {0_s, 4_s};
    double logs = 0;
    for_draws(2000, graph, cluster, quiet, [&](const Costs& costs) {
        CHECK(costs.duration[1] == 5_s);
        CHECK(costs.issue[1].si() == Approx(2 * costs.duration[0].si()));
        logs += std::pow(std::log(costs.duration[0].si() / 2), 2);
    });
    CHECK(std::sqrt(logs / 2000) == Approx(0.3).epsilon(0.06));
}

TEST_CASE("the host's load lengthens its calls and its work, and no kernel") {
    TaskGraph graph(1);
    graph.add("call", Phase::forward, HostWork{}, {host(0)}, {}, 0);
    graph.add("kernel", Phase::forward, Barrier{}, {compute(0)}, {}, 3);
    Cluster cluster;
    cluster.intra.bandwidth = 1_GBps;
    cluster.gpu.memory_bandwidth = 1_GBps;
    const Costs plain = price(graph, cluster);
    cluster.host.load = 2;
    const Costs loaded = price(graph, cluster);
    CHECK(loaded.duration[0] == 2 * plain.duration[0]);
    CHECK(loaded.duration[1] == plain.duration[1]);
    CHECK(loaded.issue[1] == 2 * plain.issue[1]);
}

TEST_CASE("which processes need what") {
    Noise noise;
    CHECK_FALSE(has_noise(noise));
    noise.step = 0.1;
    CHECK_FALSE(has_noise(noise));  // of the interval, not of draws
    noise.straggler_rate = 0.1;
    CHECK_FALSE(has_noise(noise));  // late by nothing
    noise.straggler_delay = 1_s;
    CHECK(needs_timeline(noise));
    CHECK(has_noise(noise));
}
