#include <cmath>

#include <catch2/catch.hpp>

#include "sim/costs/collective_costs.h"
#include "sim/costs/dispatch_law.h"
#include "sim/costs/extrapolations.h"
#include "tests/literals.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

// 100 GB/s in a node of eight, one NIC of 10 GB/s per rank; rounds of 1 us and 10 us; no fixed
// costs.
Cluster plain() {
    Cluster c;
    c.nodes = 64;
    c.gpus_per_node = 8;
    c.intra.bandwidth = 100_GBps;
    c.intra.latency = 1_us;
    c.inter.bandwidth = 10_GBps;
    c.inter.latency = 10_us;
    return c;
}

double microseconds(const Op& op, const Group& group, const Cluster& c) {
    return collective_time(op, group, c).si() * 1e6;
}

}  // namespace

// Ring: 2 x 7 rounds of 1 us and 2 x 7/8 x 800 MB / 100 GB/s = 14 ms.
TEST_CASE("a ring all-reduce moves 2 (n-1)/n of the payload in 2 (n-1) rounds") {
    CHECK(microseconds(AllReduce{Bytes(800e6)}, {8, 1}, plain()) == Approx(14 + 14e3));
    CHECK(microseconds(AllGather{Bytes(800e6)}, {8, 1}, plain()) == Approx(7 + 7e3));
    CHECK(microseconds(ReduceScatter{Bytes(800e6)}, {8, 1}, plain()) == Approx(7 + 7e3));
}

// 64 nodes, one member each. 1 kB: a ring needs 2 x 63 rounds of 10 us = 1260 us; a tree needs 2 x
// 6 = 120 us and 2 kB at 10 GB/s = 0.2 us. 10 GB: the ring moves 2 x 63/64 x 10 GB in 1.96875 s,
// the tree 20 GB in 2 s.
TEST_CASE("a tree beats the ring at small payloads on many nodes and loses at large ones") {
    CHECK(microseconds(AllReduce{Bytes(1e3)}, {64, 8}, plain()) == Approx(120.2));
    CHECK(microseconds(AllReduce{Bytes(10e9)}, {64, 8}, plain()) == Approx(1260 + 1968750));
}

// Two nodes of eight: 15 rounds with a hand-over of 100 us each, 1500 us, and the rounds'
// latencies: 14 x 1 us and 10 us. 16 kB cross in less than 1 us. 15/16 of 800 MB over 8 NICs of 10
// GB/s take 9375 us; the root of both squares is 9494.2 us. One node has no hand-overs. A tree over
// 64 nodes of one member: 12 rounds of 10 us, 12 hand-overs, and 120 GB at 10 GB/s, since six
// levels run one after the other; the ring's 126 hand-overs take 12.6 ms beside 1.96875 s.
TEST_CASE("a network that hands over piece by piece makes every round wait, or transfer") {
    Cluster c = plain();
    c.inter.slot_latency = 100_us;
    CHECK(microseconds(AllGather{Bytes(16e3)}, {16, 1}, c) == Approx(24 + 1500));
    CHECK(microseconds(ReduceScatter{Bytes(800e6)}, {16, 1}, c) == Approx(24 + 9494.24));
    CHECK(microseconds(AllGather{Bytes(800e6)}, {8, 1}, c) == Approx(7 + 7e3));
    CHECK(microseconds(AllReduce{Bytes(1e3)}, {64, 8}, c) == Approx(120 + 1200));
    CHECK(microseconds(AllReduce{Bytes(10e9)}, {64, 8}, c) ==
          Approx(1260 + std::hypot(1968750, 12600)));
}

// In-switch reduction: each rank sends its 800 MB once at 80 GB/s: 10 ms and a start of 30 us,
// against 14 ms for the ring. Four or fewer ranks do not use it: 2 x 3/4 x 800 MB = 12 ms and 6 us.
// Nor do number types that the switch cannot add. At 800 B the ring's 14 us win.
TEST_CASE("NVLS moves the payload once per rank") {
    Cluster c = plain();
    c.intra.nvls_efficiency = 0.8;
    c.intra.nvls_launch = 30_us;
    CHECK(microseconds(AllReduce{Bytes(800e6)}, {8, 1}, c) == Approx(30 + 10e3));
    CHECK(microseconds(AllReduce{Bytes(800e6)}, {4, 1}, c) == Approx(6 + 12e3));
    CHECK(microseconds(AllReduce{Bytes(800e6), false}, {8, 1}, c) == Approx(14 + 14e3));
    CHECK(microseconds(AllReduce{Bytes(800)}, {8, 1}, c) == Approx(14 + 14e-3));
}

// Protocols compared with a ring that starts in 50 us. LL: 5 us + 14 x 0.5 us and 14 kB at 25 GB/s
// = 0.56 us. LL128 (8 ranks) for 8 MB: 10 us + 14 x 1 us and 14 MB at 70 GB/s = 200 us, against 50
// + 14 + 140.
TEST_CASE("small messages take the protocol with the shorter start, large ones the faster link") {
    Cluster c = plain();
    c.intra.launch = 50_us;
    c.intra.low_latency = {5_us, Seconds(0.5e-6), 0.25};
    CHECK(microseconds(AllReduce{Bytes(8e3)}, {8, 1}, c) == Approx(5 + 7 + 0.56));
    c.intra.low_latency.efficiency = 1;
    CHECK(microseconds(AllReduce{Bytes(8e3)}, {8, 1}, c) == Approx(5 + 7 + 0.14));
    c.intra.low_latency.efficiency = 0.25;
    c.intra.low_latency_128 = {10_us, 1_us, 0.7};
    CHECK(microseconds(AllReduce{Bytes(2.8e6)}, {8, 1}, c) == Approx(10 + 14 + 70));
    CHECK(microseconds(AllReduce{Bytes(800e6)}, {8, 1}, c) == Approx(50 + 14 + 14e3));
    // two ranks never use LL128: the ring's 50 + 2 + 28 stays below LL's 5 + 1 + 112
    CHECK(microseconds(AllReduce{Bytes(2.8e6)}, {2, 1}, c) == Approx(50 + 2 + 28));
    // pieces of 1 kB: half a slot costs half of 3 us, four slots all of it
    c.intra.slot = Bytes(2e3);
    c.intra.slot_latency = 3_us;
    CHECK(microseconds(AllReduce{Bytes(8e3)}, {8, 1}, c) == Approx(5 + 7 + 1.5 + 0.56));
    c.intra.slot = Bytes(250);
    CHECK(microseconds(AllReduce{Bytes(8e3)}, {8, 1}, c) == Approx(5 + 7 + 3 + 0.56));
}

// 8 ranks exchange 1 MB each with every rank: 7 MB at 50 GB/s = 140 us, 1 us, 20 us of start, 7
// peers of 2 us; each rank also copies its own megabyte beside it at 100 GB/s: 10 us.
TEST_CASE("an all-to-all costs its start, its peers and its bytes") {
    Cluster c = plain();
    c.intra.all_to_all_efficiency = 0.5;
    c.intra.exchange_launch = 20_us;
    c.intra.exchange.latency = 2_us;
    c.intra.exchange_copy = 1;
    const AllToAll op{std::vector<Bytes>(64, Bytes(1e6))};
    CHECK(microseconds(op, {8, 1}, c) == Approx(1 + 20 + 14 + 140 + 10));
}

// Small messages: 16 kB for each of 8 ranks at 1 % of 100 GB/s = 16 us, in parallel over 7 peers of
// 2 us, and 5 us of start. 4 ranks with messages of the same size save only the 8 us of four peers.
TEST_CASE("small messages of an all-to-all go to all peers at once") {
    Cluster c = plain();
    c.intra.exchange_launch = 500_us;
    c.intra.exchange = {5_us, 2_us, 0.01};
    CHECK(microseconds(AllToAll{std::vector<Bytes>(64, Bytes(16e3))}, {8, 1}, c) ==
          Approx(5 + 14 + 16));
    CHECK(microseconds(AllToAll{std::vector<Bytes>(16, Bytes(16e3))}, {4, 1}, c) ==
          Approx(5 + 6 + 16));
    // At half of the link's rate one message would take 0.32 us, but all seven, 112 kB, take 1.4 us
    // on the link at 80 %.
    c.intra.exchange.efficiency = 0.5;
    c.intra.all_to_all_efficiency = 0.8;
    CHECK(microseconds(AllToAll{std::vector<Bytes>(64, Bytes(16e3))}, {8, 1}, c) ==
          Approx(5 + 14 + 1.4));
}

// One rank on each of four nodes, 10 kB for each: 5 us of start, 3 peers of 2 us and 30 kB at a
// hundredth of 10 GB/s; none stays inside a node.
TEST_CASE("small messages between nodes alone go one after the other through the NIC") {
    Cluster c = plain();
    c.inter.exchange_launch = 5000_us;
    c.inter.exchange = {5_us, 2_us, 0.01};
    CHECK(microseconds(AllToAll{std::vector<Bytes>(16, Bytes(10e3))}, {4, 8}, c) ==
          Approx(5 + 3 * 2 + 300));
}

// 1000 rows of 4 kB for others, each counted as 1 kB longer, and 500 tokens for the own rank: W = 5
// MB + 0.5 x 2 MB = 6 MB. The link at 80 of 100 GB/s: 75 us; ten SMs of 1 GB/s: 600 us; (75^4 +
// 600^4)^(1/4) = 600.04 us; 30 us of start. A token that takes 1 us whatever its length adds 500 us
// to the soft maximum: (75^4 + 600^4 + 500^4)^(1/4) = 662.06 us.
TEST_CASE("kernels that dispatch tokens are as fast as their SMs or the link") {
    Dispatch d{.launch = 30_us,
               .efficiency = 0.8,
               .row = Bytes(1e3),
               .own = 0.5,
               .per_sm = 1_GBps,
               .sms = 20};
    CHECK(dispatch_law_time({1000, 500, Bytes(4e3)}, d, 100_GBps, 10).si() * 1e6 ==
          Approx(630.04).epsilon(1e-5));
    CHECK(dispatch_law_time({1000, 500, Bytes(4e3)}, d, 100_GBps, 0).si() * 1e6 == Approx(105));
    d.token = 1_us;
    CHECK(dispatch_law_time({1000, 500, Bytes(4e3)}, d, 100_GBps, 10).si() * 1e6 ==
          Approx(692.06).epsilon(1e-5));
}

// Two turns of 4 us on top of 30 us and of 4 MB at 80 GB/s, 50 us.
TEST_CASE("every turn of the SMs over the experts takes its time") {
    const Dispatch d{.launch = 30_us, .efficiency = 0.8, .wave = 4_us};
    CHECK(dispatch_law_time({1000, 500, Bytes(4e3), 2}, d, 100_GBps, 132).si() * 1e6 == Approx(88));
    CHECK(dispatch_law_time({1000, 500, Bytes(4e3)}, d, 100_GBps, 132).si() * 1e6 == Approx(80));
}

// Two of four experts on two ranks: both are on one rank with probability (4 x 1) / (4 x 3) = 1/3,
// so 5/3 ranks.
TEST_CASE("a token goes once to each rank that holds one of its experts") {
    CHECK(ranks_of_token(2, 4, 2) == Approx(5.0 / 3));
    CHECK(ranks_of_token(8, 8, 4) == 4);
}

// Tokens of 2 kB for each of 8 ranks, itself included, so 7 leave: the law with the constants' 20
// SMs.
TEST_CASE("an all-to-all by kernels follows their law where the cluster has its constants") {
    Cluster c = plain();
    c.intra.dispatch = {.launch = 30_us,
                        .efficiency = 0.8,
                        .row = Bytes(1e3),
                        .own = 0.5,
                        .per_sm = 1_GBps,
                        .sms = 20};
    const AllToAll op{std::vector<Bytes>(64, Bytes(2e6)), Bytes(2e3), 1000};
    const double expected =
        dispatch_law_time({7000, 1000, Bytes(2e3)}, c.intra.dispatch, 100_GBps, 20).si() * 1e6;
    CHECK(microseconds(op, {8, 1}, c) == Approx(expected));
}

// 400 MB in four messages. Each takes 1 us, 2 us for the peer and 100 MB at 100 GB/s, or between
// nodes 10 us, 5 us for the peer and 100 MB at 10 GB/s. Blocking messages go as one, and each costs
// its hosts 3 us, loaded 1.5 times.
TEST_CASE("a send takes its start and its bytes, message by message") {
    Cluster c = plain();
    c.intra.exchange.latency = 2_us;
    c.inter.exchange.latency = 5_us;
    CHECK(microseconds(SendRecv{Bytes(400e6), 4}, {2, 1}, c) == Approx(4 * (1 + 2 + 1000)));
    CHECK(microseconds(SendRecv{Bytes(400e6), 4}, {2, 8}, c) == Approx(4 * (10 + 5 + 10000)));
    c.host.message = 3_us;
    c.host.load = 1.5;
    CHECK(message_time(SendRecv{Bytes(400e6), 4, true}, c).si() == Approx(4 * 1.5 * 3e-6));
    CHECK(message_time(SendRecv{Bytes(400e6), 4}, c) == Seconds(0));
    CHECK(microseconds(SendRecv{Bytes(400e6), 4, true}, {2, 1}, c) == Approx(18 + 1 + 2 + 4000));
    c.intra.send_recv = {{Bytes(50e6), 100_us}, {Bytes(100e6), 300_us}};
    CHECK(microseconds(SendRecv{Bytes(400e6), 4}, {2, 1}, c) == Approx(4 * 300));
    CHECK(microseconds(Barrier{}, {2, 1}, c) == Approx(1));
    CHECK(microseconds(Barrier{}, {2, 8}, c) == Approx(10));
}

// Two nodes of eight, 1 MB for every rank: inside 7 peers of 2 us and 7 MB at half of 100 GB/s;
// between nodes 8 peers of 3 us and 8 MB at a quarter of 10 GB/s, 3.2 ms. Ranks 0 and 1 alone, of
// which one sends 4 MB and receives 1 MB: the larger counts.
TEST_CASE(
    "an all-to-all between nodes takes the longer of what goes inside and between, and pays for "
    "all its peers") {
    Cluster c = plain();
    c.intra.all_to_all_efficiency = 0.5;
    c.inter.all_to_all_efficiency = 0.25;
    c.intra.exchange.latency = 2_us;
    c.inter.exchange.latency = 3_us;
    c.intra.exchange_launch = 1000_us;
    c.inter.exchange_launch = 20_us;
    const AllToAll op{std::vector<Bytes>(256, Bytes(1e6))};
    CHECK(microseconds(op, {16, 1}, c) == Approx(10 + 20 + 7 * 2 + 8 * 3 + 3200));
    CHECK(microseconds(AllToAll{{Bytes(9e6), Bytes(4e6), Bytes(1e6), Bytes(9e6)}}, {2, 1}, c) ==
          Approx(1 + 1000 + 2 + 80));
    CHECK(busiest_bytes(AllToAll{{Bytes(9), Bytes(4), Bytes(2), Bytes(1), Bytes(9), Bytes(5),
                                  Bytes(7), Bytes(3), Bytes(9)}}) == Bytes(10));
}

TEST_CASE("twice the bandwidth never slows a collective, more bytes never speed it up") {
    Cluster c = plain(), twice = plain();
    twice.intra.bandwidth = 200_GBps;
    double before = 0;
    for (double bytes = 512; bytes < 1e9; bytes *= 2) {
        const double time = microseconds(AllReduce{Bytes(bytes)}, {8, 1}, c);
        CHECK(time >= before);
        CHECK(microseconds(AllReduce{Bytes(bytes)}, {8, 1}, twice) <= time);
        before = time;
    }
}

// 800 MB over 8 ranks: a rank's own piece is 100 MB; its copy costs a share of the 1 ms that it
// takes at the link's 100 GB/s.
TEST_CASE("a rank's own piece is copied in reductions at one cost, in gathers at another") {
    const auto longer = [](const Op& op, double Link::*copy) {
        Cluster c = plain();
        c.intra.*copy = 0.5;
        return microseconds(op, {8, 1}, c) - microseconds(op, {8, 1}, plain());
    };
    const Bytes all(800e6);
    CHECK(longer(AllReduce{all}, &Link::reduce_copy) > 100);
    CHECK(longer(ReduceScatter{all}, &Link::reduce_copy) > 100);
    CHECK(longer(AllGather{all}, &Link::gather_copy) > 100);
    CHECK(longer(AllGather{all}, &Link::reduce_copy) == 0);
    CHECK(longer(AllReduce{all}, &Link::gather_copy) == 0);
    CHECK(longer(ReduceScatter{all}, &Link::gather_copy) == 0);
    // The tree of 64 nodes with 1 MB: copying pieces of 15,625 bytes costs half of their time at
    // 100 GB/s.
    Cluster reduces = plain(), gathers = plain();
    reduces.intra.reduce_copy = 0.5;
    gathers.intra.gather_copy = 0.5;
    const AllReduce sum{Bytes(1e6)};
    CHECK(microseconds(sum, {64, 8}, plain()) == Approx(120 + 200));
    CHECK(microseconds(sum, {64, 8}, reduces) - microseconds(sum, {64, 8}, plain()) ==
          Approx(0.078125));
    CHECK(microseconds(sum, {64, 8}, gathers) == microseconds(sum, {64, 8}, plain()));
}

TEST_CASE("sizes beyond the fitted ranges are said once a law and side") {
    Cluster c = plain();
    c.fitted.emplace().ranges = {
        {"gemm.m", 64, 8192}, {"all_reduce.bytes", 512, 1e6}, {"attention.queries", 512, 4096}};
    TaskGraph graph;
    for (const Op& op : std::vector<Op>{Gemm{16384, 8, 8}, Gemm{32, 8, 8}, Gemm{20000, 8, 8},
                                        AllReduce{Bytes(1e6)},
                                        Attention{.batch = 1,
                                        .heads = 8,
                                        .seq_q = 8192,
                                        .seq_k = 8192,
                                        .head_dim = 64,
                                        .flash = true}})
        graph.add_op(op);
    CHECK(texts_of(extrapolations(graph, c)) ==
          std::vector<std::string>{
              "extrapolated: attention.queries up to 8192, fitted on 512 to 4096",
              "extrapolated: gemm.m down to 32, fitted on 64 to 8192",
              "extrapolated: gemm.m up to 20000, fitted on 64 to 8192"});
}

// Tables measured with 2 and 4 ranks of a node of 16; a group of 32 is on two nodes and no table
// covers it.
TEST_CASE("a group of more ranks of a node than were measured is said") {
    Cluster c = plain();
    c.gpus_per_node = 16;
    c.nodes = 2;
    c.fitted.emplace().ranges = {{"all_reduce.ranks", 2, 4}};
    const auto notes = [&](int ranks) {
        TaskGraph graph(1);
        const Place place{0, Lane::collective};
        graph.add({graph.name_id("sum"), Phase::gradient_sync, graph.add_op(AllReduce{Bytes(1e6)}),
                   1, graph.add_group({ranks, 1})},
                  {&place, 1}, {});
        return texts_of(extrapolations(graph, c));
    };
    CHECK(notes(2).empty());
    CHECK(notes(4).empty());
    CHECK(notes(16) ==
          std::vector<std::string>{"extrapolated: all_reduce.ranks up to 16, fitted on 2 to 4"});
    CHECK(notes(32).empty());
}
