#include "exec/mpi_group.h"

#include <limits>

#include <fmt/format.h>

#include "exec/shared_id.h"
#include "exec/steady_clock.h"
#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"

namespace stepcast {

void check(int code) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(code, text, &length);
    throw DeviceError(fmt::format("MPI: {}", std::string_view(text, as_index(length))));
}

int mpi_count(std::size_t count) {
    if (count > as_index(std::numeric_limits<int>::max()))
        refuse(
            "execute: a buffer of {} elements, MPI takes at most {}; run the ranks as threads, "
            "without the launcher",
            count, std::numeric_limits<int>::max());
    return as_int(count);
}

void finish(const MpiGroup& group, MPI_Request request, const std::vector<int>& waits_for) {
    const auto done = [&] {
        int flag = 0;
        check(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        return flag != 0;
    };
    if (wait_until(done, group.patience, *group.failed)) return;
    std::vector<int> others;
    int own = 0;
    check(MPI_Comm_rank(MPI_COMM_WORLD, &own));
    for (const int rank : waits_for)
        if (rank != own) others.push_back(rank);
    throw DeviceError(fmt::format("{} {} did not arrive within {}",
                                  others.size() == 1 ? "rank" : "one of the ranks",
                                  joined(others, ", "), to_string(group.patience.timeout)));
}

Seconds clock_offset(const MpiGroup& world) {
    double value = 0;
    const auto send = [&](int peer) {
        run(world, {peer}, [&](MPI_Request* r) {
            return MPI_Isend(&value, 1, MPI_DOUBLE, peer, 0, world.comm, r);
        });
    };
    const auto receive = [&](int peer) {
        run(world, {peer}, [&](MPI_Request* r) {
            return MPI_Irecv(&value, 1, MPI_DOUBLE, peer, 0, world.comm, r);
        });
    };
    const auto ask = [&] {
        send(0);
        receive(0);
        return Seconds(value);
    };
    if (world.index > 0) return offset_to(ask);
    for (std::size_t peer = 1; peer < world.ranks.size(); ++peer)
        for (int trip = 0; trip < clock_trips; ++trip) {
            receive(world.ranks[peer]);
            value = steady_now().si();
            send(world.ranks[peer]);
        }
    return {};
}

MpiWindow::MpiWindow(const MpiGroup& world, std::span<float> memory) : sizes_(world.ranks.size()) {
    const std::uint64_t own = memory.size();
    run(world, world.ranks, [&](MPI_Request* request) {
        return MPI_Iallgather(&own, 1, MPI_UINT64_T, sizes_.data(), 1, MPI_UINT64_T, world.comm,
                              request);
    });
    check(MPI_Win_create(memory.data(), static_cast<MPI_Aint>(memory.size_bytes()), sizeof(float),
                         MPI_INFO_NULL, world.comm, &window_));
    check(MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN));
    // as long as the window lives; no two ranks write one place
    check(MPI_Win_lock_all(MPI_MODE_NOCHECK, window_));
}

void MpiWindow::close() {
    if (window_ == MPI_WIN_NULL) return;
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
}

void MpiWindow::fetch(const MpiGroup& world, int peer, std::size_t offset,
                      std::span<float> rows) const {
    const std::size_t places = as_index(sizes_[as_index(peer)]) - rows.size() + 1;
    const int count = mpi_count(rows.size());
    run(world, {peer}, [&](MPI_Request* request) {
        return MPI_Rget(rows.data(), count, MPI_FLOAT, peer, static_cast<MPI_Aint>(offset % places),
                        count, MPI_FLOAT, window_, request);
    });
}

void MpiWindow::deliver(int peer, std::size_t offset, std::span<const float> rows) const {
    const int count = mpi_count(rows.size());
    check(MPI_Put(rows.data(), count, MPI_FLOAT, peer, static_cast<MPI_Aint>(offset), count,
                  MPI_FLOAT, window_));
    // a request would only tell that `rows` may be reused, not that they arrived
    check(MPI_Win_flush(peer, window_));
}

std::string broadcast_by_mpi(const std::string& text, int processes) {
    int started = 0, found = 0;
    check(MPI_Initialized(&started));
    if (started == 0) check(MPI_Init(nullptr, nullptr));
    // else each would take itself for rank 0: a launcher that this MPI does not know
    check(MPI_Comm_size(MPI_COMM_WORLD, &found));
    if (found != processes)
        throw DeviceError(fmt::format(
            "MPI finds {} of the {} processes that were started; set STEPCAST_ID_FILE to the name "
            "of a new file in a folder that all of them see",
            found, processes));
    int size = mpi_count(text.size());
    check(MPI_Bcast(&size, 1, MPI_INT, 0, MPI_COMM_WORLD));
    std::string all = text;
    all.resize(as_index(size));
    check(MPI_Bcast(all.data(), size, MPI_CHAR, 0, MPI_COMM_WORLD));
    if (started == 0) check(MPI_Finalize());
    return all;
}

}  // namespace stepcast
