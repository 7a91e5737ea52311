// A tournament tree: finds the earliest time of a fixed number of slots, each of which may change
// at any moment. An update replays the matches from a leaf to the root; no entry becomes stale and
// nothing is allocated.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

namespace stepcast {

class EventTree {
public:
    static constexpr double never = std::numeric_limits<double>::infinity();

    explicit EventTree(std::size_t slots)
        : leaves_(std::bit_ceil(std::max<std::size_t>(slots, 2))),
          time_(2 * leaves_, never),
          slot_(2 * leaves_) {}

    [[nodiscard]] double earliest() const { return time_[1]; }
    [[nodiscard]] std::uint32_t earliest_slot() const { return slot_[1]; }

    void set(std::uint32_t slot, double time) {
        std::size_t node = leaves_ + slot;
        time_[node] = time;
        slot_[node] = slot;
        // Selects without a branch, because the winner is as good as random.
        for (; node > 1; node /= 2) {
            const double other = time_[node ^ 1];
            const std::uint32_t other_slot = slot_[node ^ 1];
            slot = other < time ? other_slot : slot;
            time = std::min(time, other);
            time_[node / 2] = time;
            slot_[node / 2] = slot;
        }
    }

private:
    std::size_t leaves_;
    // The winner at each node; node n has children 2 n and 2 n + 1.
    std::vector<double> time_;
    std::vector<std::uint32_t> slot_;
};

}  // namespace stepcast
