#include <catch2/catch.hpp>

#include "exec/host_device.h"
#include "exec/shared_id.h"

using namespace stepcast;

TEST_CASE(
    "a build without MPI that an MPI launcher started says what to install and what works "
    "instead") {
    CHECK_THROWS_WITH(open_mpi_device(),
                      Catch::Contains("built without MPI; install libopenmpi-dev") &&
                          Catch::Contains("without the launcher to run ranks as threads"));
}

TEST_CASE("GPU processes of an MPI launcher that cannot meet without MPI are told what else does") {
    CHECK_THROWS_WITH(broadcast_by_mpi("id", 2), Catch::Contains("STEPCAST_ID_FILE"));
}
