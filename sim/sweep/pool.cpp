#include "sim/sweep/pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>

#include "sim/on_threads.h"

namespace stepcast {
namespace {

// Jobs of one call, taken by whoever is free.
class Queue {
public:
    explicit Queue(std::span<const SweepJob> jobs) : jobs_(jobs), results_(jobs.size()) {}

    void work(SweepWorker& worker) {
        while (true) {
            const std::size_t i = next_++;
            if (i >= jobs_.size()) return;
            try {
                finish(i, worker.run(jobs_[i]));
            } catch (...) {
                return fail(std::current_exception());
            }
        }
    }

    // The results, or none when a job failed: the others may still be at theirs.
    std::vector<SweepJobResult> wait(const std::function<void(const SweepJobResult&)>& on_done) {
        std::unique_lock lock(mutex_);
        const auto stop = [&](void*) { next_ = jobs_.size(); };  // also where on_done throws: nobody waits for the rest
        const std::unique_ptr<void, decltype(stop)> on_leaving(this, stop);
        for (std::size_t told = 0; told < jobs_.size(); ++told) {
            changed_.wait(lock, [&] { return done_.size() > told || error_; });
            if (error_) return {};
            if (on_done) on_done(results_[done_[told]]);
        }
        return std::move(results_);
    }
    void rethrow() const {
        if (error_) std::rethrow_exception(error_);
    }

private:
    void finish(std::size_t i, SweepJobResult&& result) {
        const std::lock_guard lock(mutex_);
        results_[i] = std::move(result);
        done_.push_back(i);
        changed_.notify_one();
    }
    void fail(std::exception_ptr error) {
        const std::lock_guard lock(mutex_);
        error_ = std::move(error);
        changed_.notify_one();
    }

    std::span<const SweepJob> jobs_;
    std::vector<SweepJobResult> results_;
    std::vector<std::size_t> done_;
    std::atomic<std::size_t> next_ = 0;
    std::exception_ptr error_;
    std::mutex mutex_;
    std::condition_variable changed_;
};

std::vector<SweepJobResult> run_on_threads(std::vector<SweepWorker>& workers, std::span<const SweepJob> jobs,
                                           const std::function<void(const SweepJobResult&)>& on_done) {
    Queue queue(jobs);
    std::vector<SweepJobResult> results;
    {
        std::vector<std::jthread> threads;
        for (SweepWorker& worker : workers) threads.emplace_back([&queue, &worker] { queue.work(worker); });
        results = queue.wait(on_done);
    }
    queue.rethrow();
    return results;
}

// The first of these that the launcher set. srun states its step's size also for a lone process inside an allocation.
int stated(std::initializer_list<const char*> names, int otherwise) {
    for (const char* name : names)
        if (const char* value = std::getenv(name); value != nullptr) return std::atoi(value);
    return otherwise;
}

}  // namespace

int mpi_processes() { return stated({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}, 1); }
int mpi_process() { return mpi_processes() > 1 ? stated({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}, 0) : 0; }

RunJobs open_pool(const SweepSpace& space, const SweepQuestion& question, int threads, MapCollectors* map) {
    if (mpi_processes() > 1) return open_mpi_team(space, question);
    const auto workers = std::make_shared<std::vector<SweepWorker>>();
    const auto commons = std::make_shared<SweepCommons>(map);
    for (int t = 0; t < threads_or_cores(threads); ++t) workers->emplace_back(space, question, commons);
    return [workers](std::span<const SweepJob> jobs, const std::function<void(const SweepJobResult&)>& on_done) {
        return run_on_threads(*workers, jobs, on_done);
    };
}

}  // namespace stepcast
