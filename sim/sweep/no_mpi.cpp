// Stands in for mpi.cpp in a build without MPI.
#include "model/base/errors.h"
#include "sim/sweep/pool.h"

namespace stepcast {
namespace {

[[noreturn]] void refuse() {
    throw ConfigError(
        "sweep: started by an MPI launcher, but stepcast was built without MPI; install "
        "libopenmpi-dev and build "
        "again, "
        "or start it without the launcher to run on the cores of this machine");
}

}  // namespace

std::string mpi_library() { return ""; }

RunJobs open_mpi_team(const SweepSpace&, const SweepQuestion&) { refuse(); }
void help_mpi_team(const SweepSpace&, const SweepQuestion&) { refuse(); }

}  // namespace stepcast
