// Who shares the work of a sweep: threads of this process, and under an MPI launcher the other processes too.
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

// Runs every job; results in the order of the jobs. `on_done` is told of each as it ends, one after the other.
using RunJobs = std::function<std::vector<SweepJobResult>(std::span<const SweepJob> jobs,
                                                          const std::function<void(const SweepJobResult&)>& on_done)>;

// Jobs of one call, taken by whoever is free.
class SweepJobs {
public:
    SweepJobs(std::span<const SweepJob> jobs, std::function<void(const SweepJobResult&)> on_done)
        : jobs_(jobs), on_done_(std::move(on_done)), results_(jobs.size()) {}
    // Until none is left; whoever throws leaves none to the others.
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

// `threads` 0: one a core, or one alone where a launcher started several processes. Points of a map are collected in `map`
// where it is given and all of this process's threads; other processes collect none.
RunJobs open_pool(const SweepSpace& space, const SweepQuestion& question, int threads, MapCollectors* map = nullptr);

// A sweep over processes that an MPI launcher started (mpirun -n 64 stepcast sweep ..): the first process hands out jobs to
// whoever is free, itself included. Without MPI in the build: no_mpi.cpp.

// How many processes the launcher started, and which of them this is; 1 and 0 without a launcher.
int mpi_processes();
int mpi_process();

// "Open MPI v4.1.4"; "" in a build without MPI.
std::string mpi_library();

// Of the first process.
RunJobs open_mpi_team(const SweepSpace& space, const SweepQuestion& question);

// Of the others: serves jobs until the first process has no more.
void help_mpi_team(const SweepSpace& space, const SweepQuestion& question);

}  // namespace stepcast
