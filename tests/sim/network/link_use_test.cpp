#include <cmath>

#include <catch2/catch.hpp>

#include "sim/engine/contention.h"
#include "sim/engine/simulate.h"
#include "sim/network/link_use.h"
#include "tests/graphs.h"
#include "tests/literals.h"
#include "tests/transformers.h"

using namespace stepcast;
using namespace stepcast::graphs;
using namespace stepcast::literals;

namespace {

double level(std::initializer_list<double> demands) {
    const std::vector<double> all(demands);
    return fair_level(all);
}

const Place data(0, Lane::data), other_data(1, Lane::data);

// Two exchanges that begin together: an all-reduce of both ranks and a message from rank 0 to
// rank 1.
TaskGraph sum_beside_message() {
    TaskGraph graph(2);
    graph.add("sum", Phase::gradient_sync, AllReduce{1024_B}, {data, other_data}, {});
    graph.add("send", Phase::forward, SendRecv{512_B},
              {Place(0, Lane::send_down), Place(1, Lane::receive_down)}, {});
    return graph;
}

// Costs with each task's use of the links between nodes when it runs alone.
Costs with_links(std::vector<Seconds> durations, std::vector<LinkUse> uses) {
    Costs costs{std::move(durations), {}, {}};
    costs.issue.resize(costs.duration.size());
    costs.links.uses.push_back({});
    for (const LinkUse& use : uses) {
        costs.links.of_task.push_back(static_cast<std::uint16_t>(costs.links.uses.size()));
        costs.links.uses.push_back(use);
    }
    return costs;
}
LinkUse ring(double part) { return {{part, part, 0, 0}, false}; }
LinkUse message(double part) { return {{part, part, 0, 0}, true}; }

Timeline shared(const TaskGraph& graph, const Costs& costs) {
    Timeline timeline;
    run_with_contention(graph, costs, {}, timeline);
    return timeline;
}

// One rank on each of two nodes; only bandwidth costs time.
Cluster two_nodes() {
    Cluster c = small_gpt().cluster;
    c.nodes = 2;
    c.gpus_per_node = 1;
    c.interference.shared_links = true;
    return c;
}

}  // namespace

// Two exchanges that fill a link get half each. One that wants 0.25 leaves 0.75. Of 0.2, 0.6 and
// 0.9 the first leaves 0.8, half for each.
TEST_CASE("a link is shared evenly, but for what somebody does not want") {
    CHECK(std::isinf(level({0.5, 0.5})));
    CHECK(std::isinf(level({})));
    CHECK(level({1, 1}) == Approx(0.5));
    CHECK(level({1, 0.25}) == Approx(0.75));
    CHECK(level({0.2, 0.6, 0.9}) == Approx(0.4));
}

// Both run at half speed until the message, 2 s of work, ends at 4; then 2 of the all-reduce's 4 s
// remain.
TEST_CASE("two exchanges that fill a link take turns while both run") {
    const Timeline t = shared(sum_beside_message(), with_links({4_s, 2_s}, {ring(1), message(1)}));
    CHECK(t.finish == std::vector{6_s, 4_s});
}

// The all-reduce wants a quarter and gets it: 4 s. The message gets three quarters meanwhile, does
// 3 of its 6 s and needs 3 more.
TEST_CASE("an exchange that wants less than its part of a link is not slowed") {
    const Timeline t =
        shared(sum_beside_message(), with_links({4_s, 6_s}, {ring(0.25), message(1)}));
    CHECK(t.finish[0] == 4_s);
    CHECK(t.finish[1].si() == Approx(4 + 3));
}

TEST_CASE("messages in opposite directions do not share a link") {
    TaskGraph graph(2);
    graph.add("down", Phase::forward, SendRecv{512_B},
              {Place(0, Lane::send_down), Place(1, Lane::receive_down)}, {});
    graph.add("up", Phase::backward, SendRecv{512_B},
              {Place(1, Lane::send_up), Place(0, Lane::receive_up)}, {});
    CHECK(shared(graph, with_links({2_s, 3_s}, {message(1), message(1)})).finish ==
          std::vector{2_s, 3_s});
}

// Both messages go to rank 2, from other nodes or from its own node: half speed each.
TEST_CASE("messages that come to one rank share the link to it") {
    TaskGraph graph(3);
    graph.add("one", Phase::forward, SendRecv{512_B},
              {Place(0, Lane::send_down), Place(2, Lane::receive_down)}, {});
    graph.add("other", Phase::backward, SendRecv{512_B},
              {Place(1, Lane::send_up), Place(2, Lane::receive_up)}, {});
    const LinkUse inside{{0, 0, 1, 1}, true};
    CHECK(shared(graph, with_links({2_s, 2_s}, {message(1), message(1)})).finish ==
          std::vector{4_s, 4_s});
    CHECK(shared(graph, with_links({2_s, 2_s}, {inside, inside})).finish == std::vector{4_s, 4_s});
    CHECK(shared(graph, with_links({2_s, 2_s}, {inside, message(1)})).finish ==
          std::vector{2_s, 2_s});
}

// Rank 1 runs only the all-reduce. On rank 0 a message joins at 1, after a gemm, and both run at
// half speed. The message's 1 s ends at 3, when the all-reduce has done 1 + 1 of 4: it ends at 5.
TEST_CASE("a collective is as slow as on the rank that leaves it least") {
    TaskGraph graph(3);
    graph.add("sum", Phase::gradient_sync, AllReduce{1024_B}, {data, other_data}, {});
    const TaskId gemm = graph.add("gemm", Phase::forward, small_gemm(), {compute(0)}, {});
    graph.add("send", Phase::forward, SendRecv{512_B},
              {Place(0, Lane::send_down), Place(2, Lane::receive_down)}, {gemm});
    Costs costs = with_links({4_s, 1_s, 1_s}, {ring(1), LinkUse{}, message(1)});
    costs.links.of_task[1] = 0;
    CHECK(shared(graph, costs).finish == std::vector{5_s, 1_s, 3_s});
}

// Large transfers, so that bandwidth is all of their time, as in the tests with a use of 1.
TEST_CASE("exchanges between nodes that run at once share the NIC where the cluster says so") {
    TaskGraph graph(2);
    graph.add("sum", Phase::gradient_sync, AllReduce{Bytes(40e9)}, {data, other_data}, {});
    graph.add("send", Phase::forward, SendRecv{Bytes(20e9)},
              {Place(0, Lane::send_down), Place(1, Lane::receive_down)}, {});
    Cluster cluster = two_nodes();
    const Costs costs = price(graph, cluster);
    const double sum = costs.duration[0].si(), send = costs.duration[1].si();
    REQUIRE(send < sum);
    Timeline t;
    run(graph, costs, cluster.interference, t);
    CHECK(t.finish[1].si() == Approx(2 * send).epsilon(0.005));
    CHECK(t.finish[0].si() == Approx(sum + send).epsilon(0.005));
    cluster.interference.shared_links = false;
    run(graph, price(graph, cluster), cluster.interference, t);
    CHECK(t.finish[0].si() == Approx(sum));
}

TEST_CASE(
    "a graph whose exchanges have links of their own is run in order, to the same last digit") {
    const TaskGraph graph = two_ranks_all_reduce();
    const Costs costs = price(graph, two_nodes());
    CHECK(costs.links.empty());
    Timeline in_order, t;
    run_in_order(graph, costs, in_order);
    run(graph, costs, two_nodes().interference, t);
    CHECK(t == in_order);
}
