// Ranks as MPI processes: their communicators, windows, collectives and clocks. The only header here that knows MPI.
#pragma once

#include <mpi.h>
#include <span>
#include <vector>

#include "exec/rank_group.h"
#include "model/graph/op.h"

namespace stepcast {

// Ranks as MPI processes that take part in something together. Every call is non-blocking inside and polled, so that a
// missing rank ends in a DeviceError, not in a hang. Included by exec/mpi_*.cpp only.
struct MpiGroup {
    MPI_Comm comm = MPI_COMM_NULL;
    std::size_t index = 0;   // of this process
    std::vector<int> ranks;  // in MPI_COMM_WORLD
    Patience patience;
    const FailedRank* failed = nullptr;
};

void check(int code);              // DeviceError with MPI's text
int mpi_count(std::size_t count);  // ConfigError beyond what an int holds

// Waits for `request`; after the timeout DeviceError naming those of `waits_for` that are not this process.
void finish(const MpiGroup& group, MPI_Request request, const std::vector<int>& waits_for);

// Starts a call with the request to fill, then waits for it.
template <typename Start>
void run(const MpiGroup& group, const std::vector<int>& waits_for, Start start) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(start(&request));
    finish(group, request, waits_for);
}

void meet(const MpiGroup& group);
// This rank's share of `op`, as between threads (rank_group.h).
void communicate(const MpiGroup& group, const Op& op, const Operands& at);

// Memory of one process that the others read or write without its help (MPI's one-sided communication), so that fused
// kernels reach remote rows between processes and over several machines too.
class MpiWindow {
public:
    MpiWindow() = default;
    // Shows `memory` to every process of `world`; all of them call it together.
    MpiWindow(const MpiGroup& world, std::span<float> memory);
    // All together; without it the window stays, as a failed run leaves it: freeing waits for everybody.
    void close();

    // Both return when the rows have arrived. `offset` counts floats, modulo what the peer shows.
    void fetch(const MpiGroup& world, int peer, std::size_t offset, std::span<float> rows) const;
    void deliver(int peer, std::size_t offset, std::span<const float> rows) const;

private:
    MPI_Win window_ = MPI_WIN_NULL;
    std::vector<std::uint64_t> sizes_;  // by rank, in floats
};

// What to add to this process's steady_now() to read rank 0's. All ranks call it together.
Seconds clock_offset(const MpiGroup& world);

}  // namespace stepcast
