#include "exec/host_ops.h"

#include <algorithm>

#include "exec/footprint.h"

namespace stepcast {

std::size_t scattered_floats(const TaskGraph& graph) {
    std::size_t most = 0;
    for (const Op& op : graph.ops())
        if (const auto* fused = std::get_if<FusedGemm>(&op);
            fused != nullptr && fused->transfer == FusedGemm::Transfer::scatter)
            most = std::max(most, float_count(fused->remote_bytes_per_block));
    return most;
}

void run_fused(const FusedGemm& op, int rank, int rank_count, HostMemory& memory, const RemoteRows& remote) {
    const bool gathers = op.transfer == FusedGemm::Transfer::gather;
    const std::size_t moved = float_count(op.remote_bytes_per_block);
    const auto a_block = static_cast<std::size_t>(op.rows_per_block * op.k),
               c_block = static_cast<std::size_t>(op.rows_per_block * op.n);
    const std::span<float> a = memory.input.take(static_cast<std::size_t>(op.blocks) * a_block);
    const std::span<float> b = memory.input.take(static_cast<std::size_t>(op.k * op.n));
    const std::span<float> c = memory.output.take(static_cast<std::size_t>(op.blocks) * c_block);
    const std::span<float> staged =
        memory.output.take(gathers ? static_cast<std::size_t>(op.remote_blocks) * moved : 0);
    const auto peer_of = [&](long block) {
        return static_cast<int>((rank + 1 + (rank_count > 1 ? block % (rank_count - 1) : 0)) % rank_count);
    };
    for (long first = 0; first < op.blocks; first += op.blocks_per_thread_block) {
        const long last = std::min(op.blocks, first + op.blocks_per_thread_block);
        const long remote_end = std::min(last, op.remote_blocks);
        for (long block = first; gathers && block < remote_end; ++block) {
            const std::size_t offset = static_cast<std::size_t>(block) * moved;
            remote.fetch(peer_of(block), offset, staged.subspan(offset, moved));
        }
        const auto at_block = static_cast<std::size_t>(first);
        multiply(a.subspan(at_block * a_block), b, c.subspan(at_block * c_block), (last - first) * op.rows_per_block,
                 op.n, op.k);
        for (long block = first; !gathers && block < remote_end; ++block)
            remote.deliver(peer_of(block),
                           c.subspan(static_cast<std::size_t>(block) * c_block, std::min(moved, c_block)));
    }
}

}  // namespace stepcast
