// Memory of one process that the others read or write without its help (MPI's one-sided communication), so that fused
// kernels reach remote rows between processes and over several machines too. Included by exec/mpi_*.cpp only.
#pragma once

#include "exec/mpi_group.h"

namespace stepcast {

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

}  // namespace stepcast
