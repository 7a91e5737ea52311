#include <catch2/catch.hpp>

#include <tuple>

#include "sim/noise.h"
#include "tests/graphs.h"
#include "tests/literals.h"

using namespace stepcast;
using namespace stepcast::graphs;
using namespace stepcast::literals;

namespace {

Costs whole_seconds(std::vector<Seconds> durations) {
    std::vector<Seconds> issue(durations.size(), Seconds(0));
    return {std::move(durations), std::move(issue)};
}

// Calls `look` with each of the draws of the cluster's noise over the quiet costs of a graph.
template <class Look>
void for_draws(int draws, const TaskGraph& graph, const Cluster& cluster, const Costs& quiet,
               Look look) {
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

// Bursts of 1e6 s, one every 1e6 s: the 6 s of a step lie wholly inside one with probability 1 -
// exp(-1) = 63.2 %, and kernels then take 1.5 times as long.
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

// Bursts of 1 s every 10 s slow a tenth of the time by a half, so the kernels' mean grows by 5 %.
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

// One burst of 1 s in 100 s on each of three nodes: the step sees the bursts of all of them, 3 % of
// the time, and takes 1.5 times as long then. Host work and sends are not slowed.
TEST_CASE("the bursts of every node strike the step's kernels and nothing else") {
    TaskGraph graph = chain();
    graph.add(graph.task_of("call", Phase::backward, HostWork{}, 0), {host(0)}, {2});
    graph.add("sum", Phase::backward, AllReduce{Bytes(8)}, {collective(0)}, {3});
    Cluster cluster;
    cluster.nodes = 3;
    cluster.noise.burst_slowdown = 0.5;
    cluster.noise.burst_every = 100_s;
    cluster.noise.burst_length = 1_s;
    double sum = 0;
    for_draws(20000, graph, cluster, whole_seconds({1_s, 2_s, 3_s, 5_s, 7_s}), [&](const Costs& c) {
        sum += (c.duration[0] + c.duration[1] + c.duration[2]).si();
        if (c.duration[3] != 5_s || c.duration[4] != 7_s) FAIL("what is no kernel is slowed");
    });
    CHECK(sum / 20000 - 6 == Approx(6 * 0.03 * 0.5).epsilon(0.05));
    cluster.noise.burst_every = 0_s;  // none
    for_draws(10, graph, cluster, whole_seconds({1_s, 2_s, 3_s, 5_s, 7_s}), [&](const Costs& c) {
        CHECK(c.duration == std::vector<Seconds>{1_s, 2_s, 3_s, 5_s, 7_s});
    });
}

// Each of two ranks is late by 2 s with 50 %, so at least one is with 75 %, and then one of the two
// collectives (ids 4, 5) is longer. The step takes 4 s and the collectives begin after 1 and 2 s.
// The second is the next one for one moment in four; the first is for the moments before it and,
// wrapping round, for those after both.
TEST_CASE("a late rank lengthens one collective, as often as any of the ranks is late") {
    Cluster cluster;
    cluster.gpus_per_node = 2;
    cluster.noise.straggler_rate = 0.5;
    cluster.noise.straggler_delay = 2_s;
    const Costs quiet = whole_seconds({1_s, 1_s, 1_s, 1_s, 1_s, 1_s, 1_s, 1_s});
    int late = 0, in_second = 0;
    for_draws(4000, two_ranks_all_reduce(), cluster, quiet, [&](const Costs& costs) {
        const bool first = costs.duration[4] == 3_s, second = costs.duration[5] == 3_s;
        CHECK_FALSE((first && second));
        late += first || second;
        in_second += second;
        for (const TaskId t : {0U, 1U, 2U, 3U, 6U, 7U}) CHECK(costs.duration[t] == 1_s);
    });
    CHECK(late / 4000.0 == Approx(0.75).margin(0.03));
    CHECK(in_second / 4000.0 == Approx(0.75 / 4).margin(0.03));
}

// The step takes 4 s. A delay of 2 s that was seen in steps of 16 s is a quarter of that here, in
// steps of 2 s twice.
TEST_CASE("a delay is the same share of any step") {
    Cluster cluster;
    cluster.gpus_per_node = 2;
    cluster.noise.straggler_rate = 1;
    cluster.noise.straggler_delay = 2_s;
    for (const auto& [seen_in, late] : {std::pair(16_s, 0.5), {4_s, 2.0}, {2_s, 4.0}, {0_s, 2.0}}) {
        cluster.noise.straggler_step = seen_in;
        for_draws(5, two_ranks_all_reduce(), cluster,
                  whole_seconds({1_s, 1_s, 1_s, 1_s, 1_s, 1_s, 1_s, 1_s}), [&](const Costs& c) {
                      CHECK((c.duration[4] + c.duration[5] - 2_s).si() == Approx(late));
                  });
    }
}

// Both of two ranks are late by 2 s times exp(0.3 x), x normal. All wait for the later: the larger
// of two x is 1 / sqrt(pi) on average.
TEST_CASE("the latest rank is waited for, by its own lateness") {
    Cluster cluster;
    cluster.gpus_per_node = 2;
    cluster.noise.straggler_rate = 1;
    cluster.noise.straggler_delay = 2_s;
    cluster.noise.straggler_spread = 0.3;
    double logs = 0;
    for_draws(4000, two_ranks_all_reduce(), cluster,
              whole_seconds({1_s, 1_s, 1_s, 1_s, 1_s, 1_s, 1_s, 1_s}), [&](const Costs& c) {
                  logs += std::log((c.duration[4] + c.duration[5] - 2_s).si() / 2);
              });
    CHECK(logs / 4000 == Approx(0.3 / std::sqrt(3.14159265)).epsilon(0.05));
}

// The exchange runs beside the backward, so the wait shows in the kernel before it: a0 is the only
// one that has finished.
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

// Before the bucket, a ends on the same rank, 0.5 s of d on the other, and b last, so the wait
// shows in b. An all-reduce that its own layer awaits, or one after the backward, shows the wait
// itself.
TEST_CASE(
    "a wait shows in the last kernel before an exchange beside the backward, else in the "
    "exchange") {
    Cluster cluster;
    cluster.gpus_per_node = 2;
    cluster.noise.straggler_rate = 1;
    cluster.noise.straggler_delay = 2_s;
    for (const auto& [phase, lane, late] : {std::tuple(Phase::backward, Lane::data, 1),
                                            {Phase::backward, Lane::collective, 3},
                                            {Phase::gradient_sync, Lane::data, 3}}) {
        TaskGraph graph(2);
        const TaskId a = graph.add("a", Phase::backward, small_gemm(), {compute(0)}, {});
        const TaskId b = graph.add("b", Phase::backward, small_gemm(), {compute(0)}, {a});
        graph.add("d", Phase::backward, small_gemm(), {compute(1)}, {});
        graph.add("sum", phase, AllReduce{Bytes(4096)}, {{0, lane}, {1, lane}}, {b});
        graph.add("c", Phase::backward, small_gemm(), {compute(0)}, {b});
        std::vector<Seconds> expected{1_s, 1_s, Seconds(0.5), 1_s, 5_s};
        const Costs quiet = whole_seconds(expected);
        expected[static_cast<std::size_t>(late)] += 2_s;
        for_draws(5, graph, cluster, quiet,
                  [&](const Costs& costs) { CHECK(costs.duration == expected); });
    }
}

// Tasks draw independently: the logarithms of two tasks spread by 0.2 each and are uncorrelated.
TEST_CASE("the noise of tasks is each one's own") {
    Cluster cluster;
    cluster.noise.op = 0.2;
    double squares = 0, products = 0;
    Costs quiet = whole_seconds({1_s, 2_s, 3_s});
    quiet.issue = {5_s, 7_s, 11_s};
    for_draws(4000, chain(), cluster, quiet, [&](const Costs& c) {
        const double first = std::log(c.duration[0].si()),
                     second = std::log(c.duration[1].si() / 2);
        squares += second * second;
        products += first * second;
        if (c.issue != std::vector<Seconds>{5_s, 7_s, 11_s}) FAIL("the host is another noise's");
    });
    CHECK(std::sqrt(squares / 4000) == Approx(0.2).epsilon(0.05));
    CHECK(products / 4000 == Approx(0).margin(0.003));
}

TEST_CASE("draws have their own noise, the same in every run of a seed") {
    Experiment e;
    const auto first = [&](int draw) { return random_of(e, draw)(); };
    const auto of_seed_1 = first(0);
    CHECK(first(0) == of_seed_1);
    CHECK(first(1) != of_seed_1);
    e.run.seed = 2;
    CHECK(first(0) != of_seed_1);
}

TEST_CASE("the host's noise is of what the host does, and common to it") {
    TaskGraph graph(1);
    graph.add(graph.task_of("call", Phase::forward, HostWork{}, 0), {host(0)}, {});
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
    graph.add(graph.task_of("call", Phase::forward, HostWork{}, 0), {host(0)}, {});
    graph.add(graph.task_of("kernel", Phase::forward, Barrier{}, 3), {compute(0)}, {});
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
    CHECK_FALSE(has_noise(noise));  // affects the interval, not the draws
    noise.straggler_rate = 0.1;
    CHECK_FALSE(has_noise(noise));  // late by nothing
    noise.straggler_delay = 1_s;
    CHECK(needs_timeline(noise));
    CHECK(has_noise(noise));
    noise.straggler_rate = 0;  // nobody is late
    CHECK_FALSE(has_noise(noise));
    noise.burst_slowdown = 0.1;  // no burst comes
    CHECK_FALSE(has_noise(noise));
    noise.burst_every = 1_s;
    CHECK(needs_timeline(noise));
    noise.burst_slowdown = 0;
    CHECK_FALSE(needs_timeline(noise));
    for (double Noise::*part : {&Noise::op, &Noise::host}) {
        Noise one;
        one.*part = 0.1;
        CHECK(has_noise(one));
        CHECK_FALSE(needs_timeline(one));
    }
}
