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
    CHECK(launch_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}}) == Launch{});
}

TEST_CASE("a torchrun-style environment states rank, size and address") {
    const Launch launch = launch_in({{"RANK", "5"},
                                     {"WORLD_SIZE", "8"},
                                     {"LOCAL_RANK", "1"},
                                     {"MASTER_ADDR", "node-a"},
                                     {"MASTER_PORT", "1234"}});
    CHECK(launch == Launch{5, 8, 1, "node-a", 1234, false, ""});
}

TEST_CASE("processes of one host talk over its loopback, with what only this run knows") {
    const Launch launch = launch_in({{"RANK", "1"},
                                     {"WORLD_SIZE", "2"},
                                     {"LOCAL_RANK", "1"},
                                     {"LOCAL_WORLD_SIZE", "2"},
                                     {"MASTER_ADDR", "node-a"},
                                     {"TORCHELASTIC_RUN_ID", "run-7"},
                                     {"OMPI_MCA_orte_precondition_transports", "7f3a-19"}});
    CHECK(launch == Launch{1, 2, 1, "node-a", 29500, true, "7f3a-19"});
    const std::map<std::string, std::string> slurm{{"SLURM_PROCID", "0"},
                                                   {"SLURM_STEP_NUM_TASKS", "2"},
                                                   {"SLURM_JOB_ID", "77"},
                                                   {"SLURM_STEP_ID", "3"}};
    CHECK(launch_in(slurm).token == "77.3");
    CHECK_THROWS_WITH(
        launch_in({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"STEPCAST_TOKEN", std::string(257, 'x')}}),
        "environment: STEPCAST_TOKEN has 257 characters, expected at most 256");
}

TEST_CASE("NCCL_COMM_ID leads to rank 0 where no master is named, one port above NCCL's own") {
    const Launch launch = launch_in({{"SLURM_PROCID", "3"},
                                     {"SLURM_STEP_NUM_TASKS", "4"},
                                     {"SLURM_LOCALID", "1"},
                                     {"NCCL_COMM_ID", "10.0.0.1:5000"}});
    CHECK(launch == Launch{3, 4, 1, "10.0.0.1", 5001, false, ""});
}

TEST_CASE("mpirun on one host needs no address, on several it is left open") {
    std::map<std::string, std::string> variables{{"OMPI_COMM_WORLD_RANK", "1"},
                                                 {"OMPI_COMM_WORLD_SIZE", "2"},
                                                 {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
    CHECK(launch_in(variables).address == "127.0.0.1");
    variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
    CHECK(launch_in(variables).address.empty());
}

// The first launcher whose rank and size are both stated and more than one counts; its words for
// the place on the host belong to it.
TEST_CASE("each launcher is read by its own names") {
    CHECK(launch_in({{"PMI_RANK", "3"},
                     {"PMI_SIZE", "5"},
                     {"MPI_LOCALRANKID", "1"},
                     {"MPI_LOCALNRANKS", "2"}}) == Launch{3, 5, 1, "", 29500, false, ""});
    CHECK(launch_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"PMI_RANK", "3"}, {"PMI_SIZE", "5"}})
              .rank == 3);
    CHECK(launch_in({{"RANK", "4"}, {"PMI_RANK", "3"}, {"PMI_SIZE", "5"}}).rank == 3);
    CHECK(launch_in({{"SLURM_PROCID", "3"},
                     {"SLURM_STEP_NUM_TASKS", "4"},
                     {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}})
              .one_host == false);
    CHECK(launch_in({{"SLURM_PROCID", "3"},
                     {"SLURM_STEP_NUM_TASKS", "4"},
                     {"SLURM_STEP_TASKS_PER_NODE", "4"}})
              .one_host);
    // all on one host, unless it says otherwise
    CHECK(launch_in({{"RANK", "3"}, {"WORLD_SIZE", "4"}}).local_rank == 3);
}

// STEPCAST_TOKEN before Open MPI's, that before torchrun's, Slurm's last; an empty one is none.
TEST_CASE("what keeps runs apart is the best secret that is there") {
    std::map<std::string, std::string> variables{
        {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"SLURM_JOB_ID", "77"}};
    const auto token = [&] { return launch_in(variables).token; };
    CHECK(token() == "77.");
    variables["TORCHELASTIC_RUN_ID"] = "run";
    CHECK(token() == "run");
    variables["OMPI_MCA_orte_precondition_transports"] = "random";
    CHECK(token() == "random");
    variables["STEPCAST_TOKEN"] = "";
    CHECK(token() == "random");
    variables["STEPCAST_TOKEN"] = std::string(256, 'x');
    CHECK(token() == std::string(256, 'x'));
}

TEST_CASE("an address of NCCL's is a host and a port, which may hold colons") {
    std::map<std::string, std::string> variables{
        {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"NCCL_COMM_ID", "fe80::1:5000"}};
    CHECK(launch_in(variables).address == "fe80::1");
    CHECK(launch_in(variables).port == 5001);
    for (const char* wrong : {":5000", "host:", "host:0", "host:-3", "host:5000x"}) {
        variables["NCCL_COMM_ID"] = wrong;
        CHECK_THROWS_WITH(launch_in(variables), "environment: NCCL_COMM_ID is \"" +
                                                    std::string(wrong) + "\", expected HOST:PORT");
    }
    variables["MASTER_ADDR"] = "master";
    CHECK(launch_in(variables).address == "master");
    variables["MASTER_PORT"] = "-1";
    CHECK_THROWS_WITH(launch_in(variables),
                      Catch::Contains("MASTER_PORT is \"-1\", expected a number"));
}

TEST_CASE("an environment that makes no sense is refused with the variable's name") {
    CHECK_THROWS_WITH(launch_in({{"RANK", "one"}, {"WORLD_SIZE", "2"}}),
                      "environment: RANK is \"one\", expected a number");
    CHECK_THROWS_WITH(launch_in({{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
                      "environment: RANK is 2, but WORLD_SIZE is 2");
    CHECK_THROWS_AS(launch_in({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"NCCL_COMM_ID", "host"}}),
                    ConfigError);
}
