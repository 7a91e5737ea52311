#include "exec/mpi_device.h"

#include "exec/mpi_group.h"

namespace stepcast {

std::string broadcast_by_mpi(const std::string& text) {
    int started = 0;
    check(MPI_Initialized(&started));
    if (started == 0) check(MPI_Init(nullptr, nullptr));
    int size = mpi_count(text.size());
    check(MPI_Bcast(&size, 1, MPI_INT, 0, MPI_COMM_WORLD));
    std::string all = text;
    all.resize(static_cast<std::size_t>(size));
    check(MPI_Bcast(all.data(), size, MPI_CHAR, 0, MPI_COMM_WORLD));
    if (started == 0) check(MPI_Finalize());
    return all;
}

}  // namespace stepcast
