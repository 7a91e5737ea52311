#include "exec/host_device.h"
#include "exec/launcher.h"
#include "model/base/errors.h"

namespace stepcast {

std::unique_ptr<Device> open_mpi_device() {
    throw ConfigError(
        "execute: started by an MPI launcher, but stepcast was built without MPI; install "
        "libopenmpi-dev "
        "and build again, or start it without the launcher to run ranks as threads");
}

std::string broadcast_by_mpi(const std::string&) {
    throw ConfigError(
        "execute: started as several processes, but nothing says where rank 0 is and stepcast was "
        "built without MPI; "
        "set MASTER_ADDR and MASTER_PORT, or NCCL_COMM_ID=HOST:PORT");
}

}  // namespace stepcast
