#include "exec/launcher.h"

#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "model/base/errors.h"
#include "model/base/plain_text.h"

namespace stepcast {

namespace {

std::optional<int> number(const Environment& environment, const char* name) {
    const char* text = environment(name);
    if (text == nullptr) return {};
    const auto value = as_number<int>(text);
    if (!value || *value < 0)
        throw ConfigError(fmt::format("environment: {} is \"{}\", expected a number", name, text));
    return value;
}

struct Names {
    const char *rank, *processes, *local_rank, *local_processes;
};
constexpr Names known[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"},
};

void read_address(const Environment& environment, Launch& launch) {
    if (const char* address = environment("MASTER_ADDR"); address != nullptr) {
        launch.address = address;
        launch.port = number(environment, "MASTER_PORT").value_or(launch.port);
        return;
    }
    const char* text = environment("NCCL_COMM_ID");
    if (text == nullptr) return;
    const std::string_view id(text);
    const std::size_t colon = id.rfind(':');
    const int port =
        colon == std::string_view::npos ? 0 : as_number<int>(id.substr(colon + 1)).value_or(0);
    if (colon == 0 || port <= 0)
        throw ConfigError(
            fmt::format("environment: NCCL_COMM_ID is \"{}\", expected HOST:PORT", id));
    launch.address = id.substr(0, colon);
    launch.port = port + 1;
}

// Open MPI's is 128 random bits a run; the names of torchrun and Slurm keep runs apart, but may be
// guessed.
std::string token_of(const Environment& environment) {
    for (const char* name :
         {"STEPCAST_TOKEN", "OMPI_MCA_orte_precondition_transports", "TORCHELASTIC_RUN_ID"})
        if (const char* token = environment(name); token != nullptr && *token != '\0') {
            if (std::string_view(token).size() > longest_token)
                throw ConfigError(
                    fmt::format("environment: {} has {} characters, expected at most {}", name,
                                std::string_view(token).size(), longest_token));
            return token;
        }
    const char* const job = environment("SLURM_JOB_ID");
    const char* const step = environment("SLURM_STEP_ID");
    return job != nullptr ? fmt::format("{}.{}", job, step != nullptr ? step : "") : "";
}

}  // namespace

Launch read_launch(const Environment& environment) {
    for (const Names& names : known) {
        const std::optional<int> rank = number(environment, names.rank);
        const std::optional<int> processes = number(environment, names.processes);
        if (!rank || !processes || *processes <= 1) continue;
        Launch launch{.rank = *rank,
                      .processes = *processes,
                      .local_rank = number(environment, names.local_rank).value_or(*rank)};
        if (launch.rank >= launch.processes)
            throw ConfigError(fmt::format("environment: {} is {}, but {} is {}", names.rank,
                                          launch.rank, names.processes, launch.processes));
        read_address(environment, launch);
        // Slurm writes "4(x2)" for several nodes
        const char* here = environment(names.local_processes);
        launch.one_host = here != nullptr && std::to_string(launch.processes) == here;
        if (launch.address.empty() && launch.one_host) launch.address = "127.0.0.1";
        launch.token = token_of(environment);
        return launch;
    }
    return {};
}

}  // namespace stepcast
