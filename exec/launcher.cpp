#include "exec/launcher.h"

#include <algorithm>
#include <optional>

#include "model/base/plain_text.h"
#include "model/base/refuse.h"

namespace stepcast {

namespace {

std::optional<int> number(const Environment& environment, const char* name) {
    const char* text = environment(name);
    if (text == nullptr) return {};
    const auto value = as_number<int>(text);
    if (!value || *value < 0) refuse("environment: {} is \"{}\", expected a number", name, text);
    return value;
}

struct Names {
    const char *rank, *processes, *local_rank;
    bool of_mpi = true;
};
constexpr Names known[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", false},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
};

}  // namespace

Launch read_launch(const Environment& environment) {
    for (const Names& names : known) {
        const std::optional<int> rank = number(environment, names.rank);
        const std::optional<int> processes = number(environment, names.processes);
        if (!rank || !processes || *processes <= 1) continue;
        if (*rank >= *processes)
            refuse("environment: {} is {}, but {} is {}", names.rank, *rank, names.processes,
                   *processes);
        const char* file = environment("STEPCAST_ID_FILE");
        // a script under mpirun may set RANK and WORLD_SIZE for other frameworks
        const bool by_mpi = std::ranges::any_of(known, [&](const Names& other) {
            return other.of_mpi && number(environment, other.processes) == processes;
        });
        return {.rank = *rank,
                .processes = *processes,
                .local_rank = number(environment, names.local_rank).value_or(*rank),
                .by_mpi = by_mpi,
                .id_file = file != nullptr ? file : ""};
    }
    return {};
}

}  // namespace stepcast
