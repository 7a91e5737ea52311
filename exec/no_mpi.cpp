#include "exec/mpi_device.h"
#include "model/errors.h"

namespace stepcast {

std::unique_ptr<Device> open_mpi_device() {
    throw ConfigError(
        "execute: started by an MPI launcher, but stepcast was built without MPI; install libopenmpi-dev "
        "and build again, or start it without the launcher to run ranks as threads");
}

}  // namespace stepcast
