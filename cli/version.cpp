// stepcast --version: this build, its commit and its libraries.
#include "cli/startup.h"

#include "cli/commit.h"  // written by every build: cmake/commit.cmake
#include "sim/sweep/pool.h"

namespace stepcast {
namespace {

std::string or_none(const std::string& version) {
    return version.empty() ? "not built in" : version;
}

#ifdef __clang__
constexpr auto compiler = "Clang " __clang_version__;
#else
constexpr auto compiler = "GCC " __VERSION__;
#endif

}  // namespace

std::string version_text() {
    return "stepcast " STEPCAST_VERSION "\ncommit " STEPCAST_COMMIT "\ncompiler " +
           std::string(compiler) + "\nCUDA " + or_none(STEPCAST_CUDA_VERSION) + "\nNCCL " +
           or_none(STEPCAST_NCCL_VERSION) + "\nMPI " + or_none(mpi_library());
}

}  // namespace stepcast
