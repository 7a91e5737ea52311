// A small graph with every op, for every device.
#pragma once

#include "model/graph/task_graph.h"
#include "tests/literals.h"

namespace stepcast {

// Every kind of op on two ranks, and edges within, between and across ranks. Fused kernels move
// `remote_blocks`.
inline TaskGraph all_ops(long remote_blocks) {
    using namespace literals;
    TaskGraph graph(2, true);
    const auto both = {Place(0, Lane::collective), Place(1, Lane::collective)};
    TaskId last = 0;
    for (int r = 0; r < 2; ++r) {
        const Place place(r, Lane::compute);
        last = graph.add("gemm", Phase::forward, Gemm{8, 8, 8, 2, Dtype::fp32}, {place}, {});
        graph.add("groups", Phase::forward, GroupedGemm{{3, 0, 5}, 8, 4, Dtype::fp32}, {place},
                  {last});
        graph.add("wgrad", Phase::forward, GroupedGemm{{3, 0, 5}, 8, 4, Dtype::fp32, true}, {place},
                  {last});
        graph.add("gather", Phase::forward,
                  FusedGemm{4, remote_blocks, 64, 2, 8, 8, 256_B, FusedGemm::Transfer::gather,
                            Dtype::fp32},
                  {place}, {});
        graph.add("scatter", Phase::forward,
                  FusedGemm{4, remote_blocks, 64, 2, 8, 8, 256_B, FusedGemm::Transfer::scatter,
                            Dtype::fp32},
                  {place}, {});
        graph.add("attention", Phase::forward, Attention{1, 2, 8, 8, 4, true, false, Dtype::fp32},
                  {place}, {});
        graph.add("attention", Phase::backward, Attention{1, 2, 8, 8, 4, true, true, Dtype::fp32},
                  {place}, {});
        graph.add("pass", Phase::backward, MemoryPass{1024_B, 512_B}, {place}, {});
        graph.add("transpose", Phase::backward,
                  MemoryPass{1024_B, 1024_B, MemoryPass::Access::transpose}, {place}, {});
        graph.add("host", Phase::backward, HostWork{}, {Place(r, Lane::host)}, {});
    }
    last = graph.add("all_reduce", Phase::gradient_sync, AllReduce{1028_B}, both, {last});
    last = graph.add("all_gather", Phase::gradient_sync, AllGather{1028_B}, both, {last});
    last = graph.add("reduce_scatter", Phase::gradient_sync, ReduceScatter{1028_B}, both, {last});
    last = graph.add("broadcast", Phase::gradient_sync, Broadcast{1028_B, 1}, both, {last});
    last = graph.add("reduce", Phase::gradient_sync, Reduce{1028_B, 1}, both, {last});
    last = graph.add("all_to_all", Phase::gradient_sync, AllToAll{{8_B, 16_B, 32_B, 8_B}}, both,
                     {last});
    last = graph.add("send", Phase::gradient_sync, SendRecv{1028_B, 3},
                     {Place(1, Lane::send_up), Place(0, Lane::receive_up)}, {last});
    last = graph.add("barrier", Phase::optimizer, Barrier{}, both, {last});
    // Two tasks of one rank each, of which the second waits for the other rank.
    last = graph.add("here", Phase::optimizer, MemoryPass{64_B, 64_B}, {Place(0, Lane::compute)},
                     {last});
    graph.add("there", Phase::optimizer, MemoryPass{64_B, 64_B}, {Place(1, Lane::compute)}, {last});
    return graph;
}

}  // namespace stepcast
