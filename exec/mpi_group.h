// Ranks as MPI processes: their communicators, windows, collectives and clocks. This is the only
// header here that includes MPI.
#pragma once

#include <span>
#include <vector>

#include <mpi.h>

#include "exec/rank_group.h"
#include "model/graph/op.h"

namespace stepcast {

// A group of MPI processes that work together. Calls to MPI are non-blocking and polled, so that a
// missing rank ends in a DeviceError, not in a hang. Included by exec/mpi_*.cpp only.
struct MpiGroup {
    MPI_Comm comm = MPI_COMM_NULL;
    std::size_t index = 0;   // of this process
    std::vector<int> ranks;  // in MPI_COMM_WORLD
    Patience patience;
    const FailedRank* failed = nullptr;
};

void check(int code);              // throws DeviceError with MPI's text
int mpi_count(std::size_t count);  // throws ConfigError beyond what an int holds

// Waits for `request`. After the timeout throws DeviceError that names the ranks of `waits_for`
// other than this one.
void finish(const MpiGroup& group, MPI_Request request, const std::vector<int>& waits_for);

// Starts a call that fills a request, and waits for it.
template <typename Start>
void run(const MpiGroup& group, const std::vector<int>& waits_for, Start start) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(start(&request));
    finish(group, request, waits_for);
}

// Memory of one process that other processes read or write without its help (MPI's one-sided
// communication). With it fused kernels reach remote rows between processes, on several machines
// too.
class MpiWindow {
public:
    MpiWindow() = default;
    // Shows `memory` to every process of `world`. All of them call it together.
    MpiWindow(const MpiGroup& world, std::span<float> memory);
    // All processes call it together. A failed run leaves the window open, because freeing it waits
    // for all of them.
    void close();

    // Both return when the rows have arrived. `offset` counts floats; fetch() takes it modulo what
    // the peer shows.
    void fetch(const MpiGroup& world, int peer, std::size_t offset, std::span<float> rows) const;
    void deliver(int peer, std::size_t offset, std::span<const float> rows) const;

private:
    MPI_Win window_ = MPI_WIN_NULL;
    std::vector<std::uint64_t> sizes_;  // by rank, in floats
};

// What to add to this process's steady_now() to get rank 0's. All ranks call it together.
Seconds clock_offset(const MpiGroup& world);

}  // namespace stepcast
