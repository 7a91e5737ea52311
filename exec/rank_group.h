// Ranks as threads that meet: a barrier that names who is missing, one pointer that each publishes to the others, and what the ranks
// of a run tell each other.
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
#include "model/errors.h"
#include "model/graph/task_graph.h"
#include "model/units.h"

namespace stepcast {

// How threads wait for each other.
struct Patience {
    Seconds timeout = Seconds(60);
    bool spin = true;  // false: give the core away at once, when there are more ranks than cores
};

// Raised by the rank that gives up, seen by all waiting ranks.
using FailedRank = std::atomic<int>;  // -1 = none

class RankGroup {
public:
    RankGroup(std::vector<int> ranks, Patience patience, const FailedRank& failed);

    [[nodiscard]] std::size_t size() const { return ranks_.size(); }
    [[nodiscard]] std::size_t index_of(int rank) const;

    // Returns when every participant has called it as often as this one. Throws DeviceError naming the missing rank
    // after the timeout, or at once when a rank has failed.
    void meet(std::size_t index);

    // What participant `index` shows to the others; read between two meetings only.
    void publish(std::size_t index, std::span<float> values) { slots_[index].shown = values; }
    [[nodiscard]] std::span<const float> shown(std::size_t index) const { return slots_[index].shown; }

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

// Participant `index`'s share of `op`: every participant calls it with buffers of its own, of the sizes that footprint()
// says, and it returns when they may be used again. Sums run in the order of the participants, so results do not depend on
// timing. An op that has no place on several ranks is our bug.
void communicate(RankGroup& group, std::size_t index, const Op& op, const Operands& at);

// The ranks of one run that are threads of this process, each named by its number.
class RankThreads {
public:
    RankThreads(const std::vector<int>& ranks, std::size_t tasks, Patience patience, const FailedRank& failed);
    [[nodiscard]] Seconds timeout() const { return patience_.timeout; }

    void begin_step(int rank);  // together
    void finish(TaskId task) { finished_[task].fetch_add(1, std::memory_order_release); }
    // Until all `before` have finished `task` in the step that `rank` is in; DeviceError as meet().
    void wait(int rank, TaskId task, const std::vector<int>& before) const;
    // Both together: rank 0 gets everybody's values, the others none; everybody gets rank 0's value.
    std::vector<std::vector<double>> gather(int rank, std::vector<double> values);
    double broadcast(int rank, double value);

private:
    Patience patience_;
    const FailedRank& failed_;
    RankGroup everyone_;
    std::vector<std::uint64_t> steps_;                        // by index: begun
    std::vector<std::vector<double>> values_;                 // by index
    std::unique_ptr<std::atomic<std::uint64_t>[]> finished_;  // by task: ranks that finished it, over all steps
};

// Waits until `done()`: spins, and gives the core away when the wait is long. False after the timeout; throws
// DeviceError when a rank has failed.
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
        // A peer on its own core arrives within milliseconds; after that the core may serve others.
        if (!patience.spin || waited.count() > 0.05) std::this_thread::yield();
    }
}

}  // namespace stepcast
