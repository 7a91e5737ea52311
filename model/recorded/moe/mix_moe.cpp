#include "model/recorded/moe/mix_moe.h"

#include <algorithm>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/recorded/moe/layer.h"

namespace stepcast {
namespace {

constexpr int popular_count = 3;
constexpr long block_rows = 64;
constexpr int lines_forward = 9, lines_backward = 5, calls_a_line = 2;

// The work of one rank's kernels in one pass.
struct RankBlocks {
    long blocks = 0, remote_blocks = 0;
    Bytes remote_bytes;  // rows on other ranks, one vector of `hidden` each
};

long blocks_of(long rows) { return (rows + block_rows - 1) / block_rows; }

std::vector<RankBlocks> rank_blocks(const MoeLayer& layer, const Routing& routing) {
    std::vector<RankBlocks> ranks;
    for (const BlockTotals& t : routing.totals)
        ranks.push_back({t.blocks, t.remote, t.remote * (real(block_rows) * layer.row())});
    if (!ranks.empty()) return ranks;
    const std::vector<int> load = world_load(routing);
    const std::vector<bool> popular = popular_experts(routing);
    ranks.resize(as_index(layer.ranks));
    for (const std::size_t i : indices_of(load)) {
        const int expert = as_int(i);
        if (popular[i]) {
            for (int r = 0; r < layer.ranks; ++r)
                ranks[as_index(r)].blocks += blocks_of(routing.count(r, expert));
            continue;
        }
        RankBlocks& owner = ranks[as_index(layer.owner(expert))];
        const long remote_rows = load[i] - routing.count(layer.owner(expert), expert);
        owner.blocks += blocks_of(load[i]);
        owner.remote_blocks += blocks_of(remote_rows);
        owner.remote_bytes += real(remote_rows) * layer.row();
    }
    return ranks;
}

FusedGemm fused(const MoeLayer& layer, const RankBlocks& rank, FusedGemm::Transfer transfer, long n,
                long k) {
    FusedGemm op{.blocks = rank.blocks,
                 .remote_blocks = rank.remote_blocks,
                 .rows_per_block = block_rows,
                 .blocks_per_thread_block = 2,
                 .n = n,
                 .k = k,
                 .remote_bytes_per_block = {},
                 .transfer = transfer,
                 .dtype = layer.dtype};
    if (rank.remote_blocks > 0)
        op.remote_bytes_per_block = rank.remote_bytes / real(rank.remote_blocks);
    return op;
}

GroupedGemm weight_gradient(const MoeLayer& layer, const RankBlocks& rank) {
    return {.rows = {rank.blocks * block_rows},
            .n = layer.ffn,
            .k = layer.hidden,
            .dtype = layer.dtype,
            .weight_gradient = true};
}

}  // namespace

std::vector<bool> popular_experts(const Routing& routing) {
    const std::vector<int> load = world_load(routing);
    const std::vector<std::size_t> order = by_load(load);
    std::vector<bool> popular(load.size());
    for (std::size_t i = 0; i < order.size() && i < popular_count; ++i) popular[order[i]] = true;
    return popular;
}

void add_mix_moe(Program& program, const MoeLayer& layer, const Routing& routing, Phase phase) {
    const std::vector<RankBlocks> ranks = rank_blocks(layer, routing);
    const bool forward = phase == Phase::forward;
    const double copies = layer.experts_per_rank() + std::min(popular_count, layer.experts);
    const Bytes transposed = copies * layer.expert_weights();
    if (forward) program.on_all("barrier", phase, Barrier{});
    if (forward && !layer.behind_attention)
        program.on_each("assignment", phase, HostWork{HostWork::Kind::assignment, 1}, Lane::host);
    program.ahead("schedule", phase, HostWork{HostWork::Kind::schedule, 1});
    if (!routing.totals.empty())
        program.on_each("trace", phase,
                        HostWork{HostWork::Kind::framework,
                                 real(calls_a_line * (forward ? lines_forward : lines_backward))},
                        Lane::host);
    if (forward)
        program.on_each("weight_transpose", phase,
                        MemoryPass{transposed, transposed, MemoryPass::Access::transpose});
    else
        add_slot_pass(program, layer, "weighted_sum_backward", phase);
    for (int r = 0; r < layer.ranks; ++r) {
        const RankBlocks& rank = ranks[as_index(r)];
        const Bytes inner = real(rank.blocks * block_rows) * layer.ffn_row();
        program.on_rank(r, "AG", phase,
                        fused(layer, rank, FusedGemm::Transfer::gather, layer.ffn, layer.hidden));
        if (!forward) program.on_rank(r, "wgrad2", phase, weight_gradient(layer, rank));
        program.on_rank(r, forward ? "gelu" : "gelu_backward", phase,
                        MemoryPass{(forward ? 1.0 : 2.0) * inner, inner});
    }
    program.on_all("barrier", phase, Barrier{});
    for (int r = 0; r < layer.ranks; ++r)
        program.on_rank(r, "GA", phase,
                        fused(layer, ranks[as_index(r)], FusedGemm::Transfer::scatter, layer.hidden,
                              layer.ffn));
    program.on_all("barrier", phase, Barrier{});
    if (forward) return add_slot_pass(program, layer, "weighted_sum", phase);
    for (int r = 0; r < layer.ranks; ++r)
        program.on_rank(r, "wgrad1", phase, weight_gradient(layer, ranks[as_index(r)]));
    add_slot_pass(program, layer, "index_add", phase);
    add_gate_backward(program, layer);
}

}  // namespace stepcast
