// What one rank's device does in a step, as a profile or a simulated step shows it.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "model/base/units.h"
#include "sim/results/kernel_shares.h"

namespace stepcast {

// `idle`: the longest stretch in which the device does nothing, over the step.
struct RankUse {
    KernelShares kinds;
    std::optional<double> idle;
    friend bool operator==(const RankUse&, const RankUse&) = default;
};

using BusySpan = std::pair<Seconds, Seconds>;  // start, finish

// The longest stretch of begin .. end that no span covers, over end - begin.
inline double longest_idle(std::vector<BusySpan> spans, Seconds begin, Seconds end) {
    if (end <= begin) return 0;
    std::ranges::sort(spans);
    Seconds longest, covered = begin;
    for (const auto& [start, finish] : spans) {
        longest = std::max(longest, std::min(start, end) - covered);
        covered = std::max(covered, finish);
    }
    return std::max(longest, end - covered) / (end - begin);
}

// How much of begin .. end spans cover.
inline double covered_share(std::vector<BusySpan> spans, Seconds begin, Seconds end) {
    if (end <= begin) return 0;
    std::ranges::sort(spans);
    Seconds sum, covered = begin;
    for (const auto& [start, finish] : spans) {
        const Seconds from = std::max(start, covered), to = std::min(finish, end);
        if (to > from) sum += to - from;
        covered = std::max(covered, to);
    }
    return sum / (end - begin);
}

}  // namespace stepcast
