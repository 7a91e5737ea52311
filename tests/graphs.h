// Small graphs that both interpreters run: every op is real and tiny, every rule of task_graph.h
// occurs.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "model/graph/task_graph.h"
#include "tests/pipeline_graphs.h"

namespace stepcast::graphs {

struct NamedGraph {
    std::string name;
    TaskGraph graph;
};

inline Gemm small_gemm(long m = 32) { return {m, 32, 16, 1, Dtype::fp32}; }
inline MemoryPass small_pass() { return {Bytes(4096), Bytes(4096)}; }
inline Place compute(int rank) { return {rank, Lane::compute}; }
inline Place collective(int rank) { return {rank, Lane::collective}; }
inline Place host(int rank) { return {rank, Lane::host}; }

// a -> b -> c on one lane.
inline TaskGraph chain() {
    TaskGraph graph;
    const TaskId a = graph.add("a", Phase::forward, small_gemm(), {compute(0)}, {});
    const TaskId b = graph.add("b", Phase::forward, small_pass(), {compute(0)}, {a});
    graph.add("c", Phase::backward, small_gemm(64), {compute(0)}, {b});
    return graph;
}

// a on rank 0, then b0 and b1 side by side, then c on rank 0.
inline TaskGraph fork_join() {
    TaskGraph graph(2);
    const TaskId a = graph.add("a", Phase::forward, small_gemm(), {compute(0)}, {});
    const TaskId b0 = graph.add("b0", Phase::forward, small_gemm(), {compute(0)}, {a});
    const TaskId b1 = graph.add("b1", Phase::forward, small_gemm(64), {compute(1)}, {a});
    graph.add("c", Phase::backward, small_pass(), {compute(0)}, {b0, b1});
    return graph;
}

// Both ranks compute, all-reduce, then step; rank 1 is the straggler. The second bucket overlaps
// the first's exchange.
inline TaskGraph two_ranks_all_reduce() {
    TaskGraph graph(2);
    std::vector<TaskId> first, second;
    for (int r = 0; r < 2; ++r) {
        first.push_back(
            graph.add("backward", Phase::backward, small_gemm(r == 0 ? 16 : 64), {compute(r)}, {}));
        second.push_back(
            graph.add("backward", Phase::backward, small_gemm(), {compute(r)}, {first.back()}));
    }
    const std::vector<Place> both{collective(0), collective(1)};
    graph.add("bucket", Phase::gradient_sync, AllReduce{Bytes(4096)}, both, first);
    const TaskId sum =
        graph.add("bucket", Phase::gradient_sync, AllReduce{Bytes(2048)}, both, second);
    for (int r = 0; r < 2; ++r)
        graph.add("optimizer", Phase::optimizer, small_pass(), {compute(r)}, {sum});
    return graph;
}

// Every kind of communication, one after another, each followed by a pass on both ranks.
inline TaskGraph every_communication() {
    TaskGraph graph(2);
    const Bytes bytes(4096), part(1024);
    const std::vector<Op> ops{AllReduce{bytes},     AllGather{bytes},
                              ReduceScatter{bytes}, Broadcast{bytes, 1},
                              Reduce{bytes, 0},     AllToAll{{part, part, part, part}},
                              SendRecv{bytes, 2},   Barrier{}};
    std::vector<TaskId> after;
    for (const Op& op : ops) {
        const bool sends = std::holds_alternative<SendRecv>(op);
        const std::vector<Place> places{Place(0, sends ? Lane::send_up : Lane::collective),
                                        Place(1, sends ? Lane::receive_up : Lane::collective)};
        const TaskId exchange = graph.add(kind_name(op), Phase::forward, op, places, after);
        after.clear();
        for (int r = 0; r < 2; ++r)
            after.push_back(
                graph.add("pass", Phase::forward, small_pass(), {compute(r)}, {exchange}));
    }
    return graph;
}

// One direction of an expert-parallel layer: permute, exchange, experts (rank 1 has more rows),
// exchange back, combine. Returns what the next direction comes after, one task a rank.
inline std::vector<TaskId> add_exchange_layer(TaskGraph& graph, Phase phase,
                                              const std::vector<TaskId>& after) {
    const std::vector<Place> both{collective(0), collective(1)};
    const Bytes few(1024), many(3072);
    std::vector<TaskId> permuted, expert, weighed;
    for (int r = 0; r < 2; ++r) {
        const std::vector<Place> place{compute(r)};
        permuted.push_back(graph.add("permute", phase, small_pass(), place, after));
    }
    const TaskId dispatch =
        graph.add("dispatch", phase, AllToAll{{few, many, few, many}}, both, permuted);
    for (int r = 0; r < 2; ++r)
        expert.push_back(
            graph.add("experts", phase, small_gemm(r == 0 ? 16 : 48), {compute(r)}, {dispatch}));
    const TaskId combine =
        graph.add("combine", phase, AllToAll{{few, few, many, many}}, both, expert);
    for (int r = 0; r < 2; ++r)
        weighed.push_back(graph.add("weigh", phase, small_pass(), {compute(r)}, {combine}));
    return weighed;
}

inline TaskGraph alltoall_layer() {
    TaskGraph graph(2);
    add_exchange_layer(graph, Phase::backward, add_exchange_layer(graph, Phase::forward, {}));
    return graph;
}

// The host works, issues two kernels, waits for the second (a synchronisation), works again; rank 1
// waits for rank 0.
inline TaskGraph host_calls(bool launch_blocking) {
    TaskGraph graph(2, launch_blocking);
    graph.add(graph.task_of("framework", Phase::forward, HostWork{}, 0), {host(0)}, {});
    const TaskId first =
        graph.add(graph.task_of("gemm", Phase::forward, small_gemm(), 1), {compute(0)}, {});
    const TaskId second =
        graph.add(graph.task_of("pass", Phase::forward, small_pass(), 2), {compute(0)}, {first});
    graph.add(graph.task_of("schedule", Phase::forward, HostWork{HostWork::Kind::schedule, 1}, 0),
              {host(0)}, {second});
    graph.add(graph.task_of("framework", Phase::forward, HostWork{}, 0), {host(1)}, {});
    const TaskId sum = graph.add("all_reduce", Phase::backward, AllReduce{Bytes(2048)},
                                 {collective(0), collective(1)}, {second});
    for (int r = 0; r < 2; ++r)
        graph.add("pass", Phase::backward, small_pass(), {compute(r)}, {sum});
    return graph;
}

inline std::vector<NamedGraph> named_graphs() {
    std::vector<NamedGraph> all;
    all.push_back({"chain", chain()});
    all.push_back({"fork_join", fork_join()});
    all.push_back({"two_ranks_all_reduce", two_ranks_all_reduce()});
    all.push_back({"every_communication", every_communication()});
    all.push_back({"alltoall_layer", alltoall_layer()});
    all.push_back({"host_calls", host_calls(false)});
    all.push_back({"host_calls_launch_blocking", host_calls(true)});
    all.push_back({"pipeline_2x4", pipeline({2, 4})});
    all.push_back({"pipeline_4x6", pipeline({4, 6})});
    all.push_back({"gpipe_2x4", pipeline({2, 4, PipelineShape::Schedule::gpipe})});
    return all;
}

}  // namespace stepcast::graphs
