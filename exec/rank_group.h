// Ranks as threads that meet: a barrier that names a missing rank, a pointer that each rank shows
// to the others, and exchange of values.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "exec/host_memory.h"
#include "model/base/errors.h"
#include "model/base/units.h"
#include "model/graph/task_graph.h"

namespace stepcast {

// How threads wait for each other.
struct Patience {
    Seconds timeout = Seconds(60);
    bool spin = true;  // false: yield the core at once, if there are more ranks than cores
};

// Set by the rank that gives up; all waiting ranks read it.
using FailedRank = std::atomic<int>;  // -1 = none

class RankGroup {
public:
    RankGroup(std::vector<int> ranks, Patience patience, const FailedRank& failed);

    [[nodiscard]] std::size_t size() const { return ranks_.size(); }
    [[nodiscard]] std::size_t index_of(int rank) const;

    // Returns when every participant has called it as often. Throws DeviceError with the missing
    // rank after the timeout, or at once if one failed.
    void meet(std::size_t index);

    // What participant `index` shows to the others. Read it only between two meetings.
    void publish(std::size_t index, std::span<float> values) { slots_[index].shown = values; }
    [[nodiscard]] std::span<const float> shown(std::size_t index) const {
        return slots_[index].shown;
    }

private:
    struct alignas(64) Slot {
        std::atomic<std::uint64_t> arrivals{0};
        std::span<float> shown;
    };
    std::vector<int> ranks_;
    Patience patience_;
    const FailedRank& failed_;
    std::unique_ptr<Slot[]> slots_;
};

// The ranks of one run that are threads of this process, each identified by its rank number.
class RankThreads {
public:
    RankThreads(const std::vector<int>& ranks, std::size_t tasks, Patience patience,
                const FailedRank& failed);
    [[nodiscard]] Seconds timeout() const { return patience_.timeout; }

    void begin_step(int rank);  // all ranks call it together
    void finish(TaskId task) { finished_[task].fetch_add(1, std::memory_order_release); }
    // Returns when all `before` have finished `task` in the step that `rank` is in. Throws
    // DeviceError as meet() does.
    void wait(int rank, TaskId task, const std::vector<int>& before) const;
    // All ranks call these together. gather(): rank 0 gets all values, the others none.
    // broadcast(): all get rank 0's value.
    std::vector<std::vector<double>> gather(int rank, std::vector<double> values);
    double broadcast(int rank, double value);

private:
    Patience patience_;
    const FailedRank& failed_;
    RankGroup everyone_;
    std::vector<std::uint64_t> steps_;         // by index: steps begun
    std::vector<std::vector<double>> values_;  // by index
    // by task: ranks that finished it, over all steps
    std::unique_ptr<std::atomic<std::uint64_t>[]> finished_;
};

// Waits until `done()`: spins, and yields the core in a long wait. Returns false after the timeout.
// Throws DeviceError if a rank failed.
template <typename Done>
bool wait_until(Done done, const Patience& patience, const FailedRank& failed) {
    constexpr int spins = 2000;  // some ten microseconds between looks at the clock
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
        for (int spin = 0; spin < (patience.spin ? spins : 1); ++spin)
            if (done()) return true;
        if (const int rank = failed.load(std::memory_order_relaxed); rank >= 0)
            throw DeviceError("given up because rank " + std::to_string(rank) + " failed");
        const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
        if (waited.count() > patience.timeout.si()) return false;
        // A peer on its own core arrives within milliseconds. After that, others may use the core.
        if (!patience.spin || waited.count() > 0.05) std::this_thread::yield();
    }
}

}  // namespace stepcast
