// Ranks as MPI processes: their communicators, windows, collectives and clocks. The only header here that knows MPI.
#pragma once

#include <mpi.h>
#include <span>
#include <vector>

#include "exec/host_memory.h"
#include "exec/rank_group.h"
#include "model/graph/op.h"

namespace stepcast {

// Ranks as MPI processes that take part in something together, and its collectives on buffers of the caller. Every call
// is non-blocking inside and polled, so that a missing rank ends in a DeviceError, not in a hang. Included by
// exec/mpi_*.cpp only.
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

void meet(const MpiGroup& group);
void all_reduce(const MpiGroup& group, std::span<float> input, std::span<float> output);
void all_gather(const MpiGroup& group, std::span<float> input, std::span<float> output);  // parts: footprint.h
void reduce_scatter(const MpiGroup& group, std::span<float> input, std::span<float> output);
void broadcast(const MpiGroup& group, std::size_t root, std::span<float> values);
void reduce(const MpiGroup& group, std::size_t root, std::span<float> input, std::span<float> output);
// `to` and `from`: floats per participant, one after another in the buffers.
void all_to_all(const MpiGroup& group, const std::vector<std::size_t>& to, const std::vector<std::size_t>& from,
                std::span<float> input, std::span<float> output);
void send_receive(const MpiGroup& group, int messages, std::span<float> values);  // from participant 0 to 1

// Ops between ranks that are MPI processes. Included by exec/mpi_*.cpp only.

// This rank's share of `op`, on the next buffers of its memory. An op that has no place on several ranks is our bug.
void communicate(const MpiGroup& group, HostMemory& memory, const Op& op);

// Memory of one process that the others read or write without its help (MPI's one-sided communication), so that fused
// kernels reach remote rows between processes and over several machines too. Included by exec/mpi_*.cpp only.
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

// Clocks of processes on several machines. Included by exec/mpi_*.cpp only.

// What to add to this process's steady_now() to read rank 0's: the middle of the quickest of some round trips. All
// ranks call it together.
Seconds clock_offset(const MpiGroup& world);

}  // namespace stepcast
