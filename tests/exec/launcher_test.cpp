#include <catch2/catch.hpp>

#include <map>

#include "exec/launcher.h"
#include "model/base/errors.h"

using namespace stepcast;

namespace {

Launch launch_in(const std::map<std::string, std::string>& variables) {
    return read_launch([&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
    });
}

}  // namespace

TEST_CASE("without a launcher one process holds all ranks") {
    CHECK(launch_in({}) == Launch{});
    CHECK(launch_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"STEPCAST_ID_FILE", "id"}}) == Launch{});
}

TEST_CASE("a torchrun-style environment states rank and size; the id's file is named beside it") {
    std::map<std::string, std::string> variables{
        {"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "node-a"}};
    CHECK(launch_in(variables) == Launch{5, 8, 1, false, ""});
    variables["STEPCAST_ID_FILE"] = "/shared/id";
    CHECK(launch_in(variables) == Launch{5, 8, 1, false, "/shared/id"});
}

// The first launcher whose rank and size are both stated and more than one counts; its words for
// the place on the host belong to it.
TEST_CASE("each launcher is read by its own names, and MPI's are told from torchrun's") {
    CHECK(launch_in({{"OMPI_COMM_WORLD_RANK", "1"},
                     {"OMPI_COMM_WORLD_SIZE", "2"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}) == Launch{1, 2, 0, true, ""});
    CHECK(launch_in({{"PMI_RANK", "3"}, {"PMI_SIZE", "5"}, {"MPI_LOCALRANKID", "1"}}) ==
          Launch{3, 5, 1, true, ""});
    CHECK(
        launch_in({{"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_LOCALID", "1"}}) ==
        Launch{3, 4, 1, true, ""});
    CHECK(launch_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"PMI_RANK", "3"}, {"PMI_SIZE", "5"}})
              .rank == 3);
    CHECK(launch_in({{"RANK", "4"}, {"PMI_RANK", "3"}, {"PMI_SIZE", "5"}}).rank == 3);
    // all on one host, unless it says otherwise
    CHECK(launch_in({{"RANK", "3"}, {"WORLD_SIZE", "4"}}).local_rank == 3);
}

// torchrun as the one task of each of two Slurm nodes: MPI knows two processes, the run has 16. A
// script under mpirun that sets RANK and WORLD_SIZE as well: MPI knows them all.
TEST_CASE("MPI serves ranks of RANK and WORLD_SIZE only if it started as many") {
    std::map<std::string, std::string> variables{
        {"RANK", "1"}, {"WORLD_SIZE", "16"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}};
    CHECK_FALSE(launch_in(variables).by_mpi);
    variables["OMPI_COMM_WORLD_SIZE"] = "16";
    CHECK(launch_in(variables).by_mpi);
}

TEST_CASE("an environment that makes no sense is refused with the variable's name") {
    CHECK_THROWS_WITH(launch_in({{"RANK", "one"}, {"WORLD_SIZE", "2"}}),
                      "environment: RANK is \"one\", expected a number");
    CHECK_THROWS_WITH(launch_in({{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
                      "environment: RANK is 2, but WORLD_SIZE is 2");
}
