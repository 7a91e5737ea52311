// Stands in for mpi_device.cpp in a build without MPI.
#include "exec/host_device.h"
#include "exec/shared_id.h"
#include "model/base/errors.h"

namespace stepcast {

std::unique_ptr<Device> open_mpi_device() {
    throw ConfigError(
        "execute: started by an MPI launcher, but stepcast was built without MPI; install "
        "libopenmpi-dev "
        "and build again, or start it without the launcher to run ranks as threads");
}

std::string broadcast_by_mpi(const std::string&, int) {
    throw ConfigError(
        "execute: started by an MPI launcher, but stepcast was built without MPI; set "
        "STEPCAST_ID_FILE to the name of a new file in a folder that all processes see, or install "
        "libopenmpi-dev and build again");
}

}  // namespace stepcast
