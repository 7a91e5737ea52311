// A fused kernel on the host: products of blocks of rows, some of whose rows are on other ranks.
#pragma once

#include <functional>

#include "exec/host_memory.h"
#include "model/graph/op.h"

namespace stepcast {

// How a rank reaches the others' memory, which threads share and processes do not.
struct RemoteRows {
    // Fills `rows` from rank `peer`'s input, from `offset` floats on (modulo what it has).
    std::function<void(int peer, std::size_t offset, std::span<float> rows)> fetch;
    // Puts `rows` where rank `peer` keeps what this rank scatters to it; no two ranks write one place.
    std::function<void(int peer, std::span<const float> rows)> deliver;
};

// Remote blocks come first, their peers in turn. Gather fetches a block's rows before the block is multiplied, scatter
// delivers its results afterwards.
void run_fused(const FusedGemm& op, int rank, int rank_count, HostMemory& memory, const RemoteRows& remote);

// Floats that one block scatters to another rank, the largest of the graph's fused kernels.
std::size_t scattered_floats(const TaskGraph& graph);

}  // namespace stepcast
