#include "exec/rank_group.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "model/base/numbers.h"

namespace stepcast {

RankGroup::RankGroup(std::vector<int> ranks, Patience patience, const FailedRank& failed)
    : ranks_(std::move(ranks)),
      patience_(patience),
      failed_(failed),
      slots_(new Slot[ranks_.size()]) {}

std::size_t RankGroup::index_of(int rank) const {
    const auto at = std::find(ranks_.begin(), ranks_.end(), rank);
    if (at == ranks_.end())
        throw std::logic_error(fmt::format("rank {} is not in this group", rank));
    return as_index(at - ranks_.begin());
}

void RankGroup::meet(std::size_t index) {
    const std::uint64_t mine = slots_[index].arrivals.load(std::memory_order_relaxed) + 1;
    slots_[index].arrivals.store(mine, std::memory_order_release);
    for (std::size_t other = 0; other < size(); ++other) {
        const auto arrived = [&] {
            return slots_[other].arrivals.load(std::memory_order_acquire) >= mine;
        };
        if (!wait_until(arrived, patience_, failed_))
            throw DeviceError(fmt::format("rank {} did not arrive within {}", ranks_[other],
                                          to_string(patience_.timeout)));
    }
}

RankThreads::RankThreads(const std::vector<int>& ranks, std::size_t tasks, Patience patience,
                         const FailedRank& failed)
    : patience_(patience),
      failed_(failed),
      everyone_(ranks, patience, failed),
      steps_(ranks.size()),
      values_(ranks.size()),
      finished_(new std::atomic<std::uint64_t>[tasks]()) {}

void RankThreads::begin_step(int rank) {
    const std::size_t index = everyone_.index_of(rank);
    ++steps_[index];
    everyone_.meet(index);
}

void RankThreads::wait(int rank, TaskId task, const std::vector<int>& before) const {
    const std::uint64_t wanted = steps_[everyone_.index_of(rank)] * before.size();
    const auto done = [&] { return finished_[task].load(std::memory_order_acquire) >= wanted; };
    if (!wait_until(done, patience_, failed_))
        throw DeviceError(fmt::format("rank {} did not finish task {} within {}", before.front(),
                                      task, to_string(patience_.timeout)));
}

std::vector<std::vector<double>> RankThreads::gather(int rank, std::vector<double> values) {
    const std::size_t index = everyone_.index_of(rank);
    values_[index] = std::move(values);
    everyone_.meet(index);
    std::vector<std::vector<double>> all;
    if (rank == 0) all = values_;
    everyone_.meet(index);
    return all;
}

double RankThreads::broadcast(int rank, double value) {
    gather(rank, {value});  // all values stay in place until the meeting below
    const double shared = values_[0][0];
    everyone_.meet(everyone_.index_of(rank));
    return shared;
}

}  // namespace stepcast
