// The splits of one base below one prefix of their keys, in rising order.
#pragma once

#include "sim/sweep/space.h"

namespace stepcast {

// Keys walked before an item begins, and in how many ways.
struct WalkPrefix {
    std::size_t depth = 0;
    std::uint64_t items = 1;
};

class SplitWalk {
public:
    SplitWalk(const SweepBase& base, const SweepVisitor& visitor);  // which must outlive it

    // The prefix as digits of `item`; false when a rule is broken by it.
    bool enter(const WalkPrefix& prefix, std::uint64_t item);
    void descend(std::size_t level);

private:
    bool set(std::size_t level, int value);
    void leaf();

    const SweepBase& base_;
    const SweepVisitor& visitor_;
    std::array<std::uint64_t, split_key_count> below_{};
    Parallelism split_;
    std::uint64_t inner_ = 0;
    std::string_view reason_;
};

// What dp is where it takes the ranks that the other splits leave.
int ranks_left(const Cluster& cluster, const Parallelism& split);

}  // namespace stepcast
