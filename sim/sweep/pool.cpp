#include "sim/sweep/pool.h"

#include <memory>

#include "model/base/launcher.h"
#include "model/base/numbers.h"
#include "sim/on_threads.h"

namespace stepcast {

RunJobs open_pool(const SweepSpace& space, const SweepQuestion& question, int threads,
                  MapCollectors* map) {
    if (mpi_processes() > 1) return open_mpi_team(space, question);
    const auto workers = std::make_shared<std::vector<SweepWorker>>();
    const auto commons = std::make_shared<SweepCommons>(map);
    for (int t = 0; t < threads_or_cores(threads); ++t)
        workers->emplace_back(space, question, commons);
    return [workers](std::span<const SweepJob> jobs,
                     const std::function<void(const SweepJobResult&)>& on_done) {
        SweepJobs taken(jobs, on_done);
        std::atomic<std::size_t> next_worker = 0;
        on_threads(as_int(workers->size()), [&] { taken.work((*workers)[next_worker++]); });
        return taken.results();
    };
}

void SweepJobs::work(SweepWorker& worker) {
    try {
        while (const auto job = take()) finish(*job, worker.run(jobs_[*job]));
    } catch (...) {
        stop();
        throw;
    }
}

std::optional<std::size_t> SweepJobs::take() {
    const std::size_t job = next_++;
    return job < jobs_.size() ? std::optional(job) : std::nullopt;
}

void SweepJobs::finish(std::size_t job, SweepJobResult&& result) {
    const std::lock_guard lock(mutex_);
    results_.at(job) = std::move(result);
    if (on_done_) on_done_(results_[job]);
    ++done_;
}

}  // namespace stepcast
