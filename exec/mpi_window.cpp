#include "exec/mpi_group.h"

#include <cstdint>

namespace stepcast {

MpiWindow::MpiWindow(const MpiGroup& world, std::span<float> memory) : sizes_(world.ranks.size()) {
    const std::uint64_t own = memory.size();
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallgather(&own, 1, MPI_UINT64_T, sizes_.data(), 1, MPI_UINT64_T, world.comm, &request));
    finish(world, request, world.ranks);
    check(MPI_Win_create(memory.data(), static_cast<MPI_Aint>(memory.size_bytes()), sizeof(float), MPI_INFO_NULL,
                         world.comm, &window_));
    check(MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN));
    check(
        MPI_Win_lock_all(MPI_MODE_NOCHECK, window_));  // for as long as the window lives; no two ranks write one place
}

void MpiWindow::close() {
    if (window_ == MPI_WIN_NULL) return;
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
}

void MpiWindow::fetch(const MpiGroup& world, int peer, std::size_t offset, std::span<float> rows) const {
    const std::size_t places = static_cast<std::size_t>(sizes_[static_cast<std::size_t>(peer)]) - rows.size() + 1;
    const int count = mpi_count(rows.size());
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Rget(rows.data(), count, MPI_FLOAT, peer, static_cast<MPI_Aint>(offset % places), count, MPI_FLOAT,
                   window_, &request));
    finish(world, request, {peer});
}

void MpiWindow::deliver(int peer, std::size_t offset, std::span<const float> rows) const {
    const int count = mpi_count(rows.size());
    check(MPI_Put(rows.data(), count, MPI_FLOAT, peer, static_cast<MPI_Aint>(offset), count, MPI_FLOAT, window_));
    check(MPI_Win_flush(peer, window_));  // a request would only say that `rows` may be used again
}

}  // namespace stepcast
