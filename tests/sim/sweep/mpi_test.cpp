// Tests that mpirun starts again, as three processes of the same test case.
#include "sim/sweep/pool.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "model/base/launcher.h"
#include "sim/sweep/sweep.h"
#include "tests/model/files.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

SweepQuestion over_processes() {
    SweepQuestion q;
    q.experiment = small_gpt();
    q.experiment.cluster.nodes = 2;
    q.experiment.parallelism.global_batch = 16;
    q.top = 5;
    q.axes = {parse_axis("parallelism=all"), parse_axis("parallelism.vp=1")};
    return q;
}

// Runs this case in three processes; each writes its result to its file in `folder`, "" where there
// is none. Leak detection of the address sanitizer is off, because Open MPI itself leaks.
std::vector<std::string> three_processes(const std::string& name, const std::string& folder) {
    const std::string command = fmt::format(
        "ASAN_OPTIONS=detect_leaks=0 STEPCAST_TEST_FOLDER='{}' timeout 60 mpirun "
        "--allow-run-as-root --oversubscribe -n 3 '{}' '{}' >{}/printed 2>&1",
        folder, std::filesystem::read_symlink("/proc/self/exe").string(), name, folder);
    const int status = std::system(command.c_str());
    std::vector<std::string> found;
    for (const char* process : {"0", "1", "2"}) {
        std::ifstream file(folder + "/" + process);
        found.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    found.push_back(status == 0 ? "all ended well" : "");
    return found;
}

void write_found(const std::string& text) {
    std::ofstream(fmt::format("{}/{}", std::getenv("STEPCAST_TEST_FOLDER"), mpi_process())) << text;
}

bool without_mpi() {
    const bool missing = mpi_library().empty() || std::system("command -v mpirun >/dev/null") != 0;
    if (missing) WARN("skipped: mpirun is not here");
    return missing;
}

// Sweeps as if no launcher had started this process.
SweepAnswer by_threads(const SweepQuestion& q) {
    const std::string size = std::getenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("OMPI_COMM_WORLD_SIZE");
    const SweepAnswer answer = sweep(q, {.threads = 1});
    setenv("OMPI_COMM_WORLD_SIZE", size.c_str(), 1);
    return answer;
}

}  // namespace

// Sweeps twice, because in the second round the helpers are idle from the start: screening, then
// points to simulate.
TEST_CASE("three processes answer a sweep as one does and all come to their end") {
    if (is_sweep_helper()) {
        help_sweep(over_processes());
        write_found("helped");
    } else if (std::getenv("STEPCAST_TEST_FOLDER") != nullptr) {
        const SweepAnswer expected = by_threads(over_processes());
        write_found(sweep(over_processes()) == expected ? "as by threads" : "another answer");
    } else if (!without_mpi()) {
        const TestFolder folder;
        CHECK(
            three_processes("three processes answer a sweep as one does and all come to their end",
                            folder.path()) ==
            std::vector<std::string>{"as by threads", "helped", "helped", "all ended well"});
    }
}

// The launcher's variables give the number of processes and the own number; Open MPI's take
// precedence. A lone process is the first, even if variables of another launcher give another
// number.
TEST_CASE("how many processes a sweep has is what the launcher says") {
    if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) return;
    CHECK(mpi_processes() == 1);
    CHECK(mpi_process() == 0);
    setenv("SLURM_PROCID", "7", 1);
    CHECK(mpi_process() == 0);
    setenv("SLURM_STEP_NUM_TASKS", "11", 1);
    CHECK(mpi_processes() == 11);
    CHECK(mpi_process() == 7);
    setenv("PMI_SIZE", "5", 1);
    setenv("PMI_RANK", "3", 1);
    CHECK(mpi_processes() == 5);
    CHECK(mpi_process() == 3);
    for (const char* name : {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "PMI_SIZE", "PMI_RANK"})
        unsetenv(name);
    CHECK_FALSE(is_sweep_helper());
}
