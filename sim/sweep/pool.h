// Who shares the work of a sweep: threads of this process, and under an MPI launcher the other processes too.
#pragma once

#include <functional>
#include <span>

#include "sim/sweep/worker.h"

namespace stepcast {

// Runs every job; results in the order of the jobs. `on_done` is told of each as it ends, from the calling thread.
using RunJobs = std::function<std::vector<SweepJobResult>(std::span<const SweepJob> jobs,
                                                          const std::function<void(const SweepJobResult&)>& on_done)>;

// `threads` 0: one a core, or one alone where a launcher started several processes. Points of a map are collected in `map`
// where it is given and all of this process's threads; other processes collect none.
RunJobs open_pool(const SweepSpace& space, const SweepQuestion& question, int threads, MapCollectors* map = nullptr);

}  // namespace stepcast
