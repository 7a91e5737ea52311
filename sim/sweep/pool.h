// Who shares the work of a sweep: threads of this process and, under an MPI launcher, other
// processes.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/sweep/worker.h"

namespace stepcast {

// Runs every job and returns results in the order of the jobs. Calls `on_done` for each job as it
// ends, one call at a time.
using RunJobs = std::function<std::vector<SweepJobResult>(
    std::span<const SweepJob> jobs, const std::function<void(const SweepJobResult&)>& on_done)>;

// The jobs of one call; whichever thread is free takes the next.
class SweepJobs {
public:
    SweepJobs(std::span<const SweepJob> jobs, std::function<void(const SweepJobResult&)> on_done)
        : jobs_(jobs), on_done_(std::move(on_done)), results_(jobs.size()) {}
    // Works until no job is left. If a worker throws, the others get no more jobs.
    void work(SweepWorker& worker);

    std::optional<std::size_t> take();
    void finish(std::size_t job, SweepJobResult&& result);
    void stop() { next_ = jobs_.size(); }
    [[nodiscard]] std::size_t done() const { return done_; }
    [[nodiscard]] std::vector<SweepJobResult> results() { return std::move(results_); }

private:
    std::span<const SweepJob> jobs_;
    std::function<void(const SweepJobResult&)> on_done_;
    std::vector<SweepJobResult> results_;
    std::atomic<std::size_t> next_ = 0, done_ = 0;
    std::mutex mutex_;
};

// `threads` 0: one for each core, or only one if a launcher started several processes. If `map` is
// given, it collects points of all threads of this process; other processes collect none.
RunJobs open_pool(const SweepSpace& space, const SweepQuestion& question, int threads,
                  MapCollectors* map = nullptr);

// A sweep over processes that an MPI launcher started (mpirun -n 64 stepcast sweep ..). The first
// process hands out jobs to whichever process is free, itself included. Without MPI in the build:
// no_mpi.cpp.

// "Open MPI v4.1.4"; "" in a build without MPI.
std::string mpi_library();

// For the first process.
RunJobs open_mpi_team(const SweepSpace& space, const SweepQuestion& question);

// For the other processes: runs jobs until the first process has no more.
void help_mpi_team(const SweepSpace& space, const SweepQuestion& question);

}  // namespace stepcast
