#include "exec/rank_group.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace stepcast {

RankGroup::RankGroup(std::vector<int> ranks, Patience patience, const FailedRank& failed)
    : ranks_(std::move(ranks)), patience_(patience), failed_(failed), slots_(new Slot[ranks_.size()]) {}

std::size_t RankGroup::index_of(int rank) const {
    const auto at = std::find(ranks_.begin(), ranks_.end(), rank);
    if (at == ranks_.end()) throw std::logic_error(fmt::format("rank {} is not in this group", rank));
    return static_cast<std::size_t>(at - ranks_.begin());
}

void RankGroup::meet(std::size_t index) {
    const std::uint64_t mine = slots_[index].arrivals.load(std::memory_order_relaxed) + 1;
    slots_[index].arrivals.store(mine, std::memory_order_release);
    for (std::size_t other = 0; other < size(); ++other) {
        const auto arrived = [&] { return slots_[other].arrivals.load(std::memory_order_acquire) >= mine; };
        if (!wait_until(arrived, patience_, failed_))
            throw DeviceError(
                fmt::format("rank {} did not arrive within {}", ranks_[other], to_string(patience_.timeout)));
    }
}

}  // namespace stepcast
