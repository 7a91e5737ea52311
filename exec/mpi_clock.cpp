#include "exec/mpi_group.h"

#include <cmath>

#include "exec/host_rank.h"

namespace stepcast {

namespace {

// Sends this clock to `peer` and returns the peer's, `first` or after it has come.
double exchange_time(const MpiGroup& world, int peer, bool first) {
    double value = steady_now().si();
    MPI_Request request = MPI_REQUEST_NULL;
    for (const bool send : {first, !first}) {
        if (send)
            check(MPI_Isend(&value, 1, MPI_DOUBLE, peer, 0, world.comm, &request));
        else
            check(MPI_Irecv(&value, 1, MPI_DOUBLE, peer, 0, world.comm, &request));
        finish(world, request, {peer});
        if (!send && !first) value = steady_now().si();
    }
    return value;
}

}  // namespace

Seconds clock_offset(const MpiGroup& world) {
    constexpr int trips = 20;
    Seconds offset;
    if (world.index == 0) {
        for (const int peer : world.ranks)
            for (int trip = 0; peer != 0 && trip < trips; ++trip) exchange_time(world, peer, false);
        return offset;
    }
    Seconds quickest(INFINITY);
    for (int trip = 0; trip < trips; ++trip) {
        const Seconds sent = steady_now();
        const Seconds theirs(exchange_time(world, 0, true));
        const Seconds back = steady_now();
        if (back - sent >= quickest) continue;
        quickest = back - sent;
        offset = theirs - 0.5 * (sent + back);
    }
    return offset;
}

}  // namespace stepcast
