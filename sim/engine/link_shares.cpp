#include "sim/engine/link_shares.h"

#include <algorithm>
#include <utility>

#include "model/base/numbers.h"

namespace stepcast {

void LinkShares::reset(const TaskGraph& graph, const LinkUses& links) {
    graph_ = &graph;
    links_ = &links;
    changed_.clear();
    holders_.assign(as_index(graph.place_count()), {});
    is_changed_.assign(as_index(graph.rank_count()), 0);
}

void LinkShares::change(TaskId t, bool starts) {
    if (links_->of_task[t] == 0) return;
    for (const Place& place : graph_->places(t)) {
        holders_[place.index] = {starts ? t : no_task, 1};
        const auto rank = static_cast<std::uint32_t>(place.rank());
        if (!std::exchange(is_changed_[rank], std::uint8_t{1})) changed_.push_back(rank);
    }
}

double LinkShares::demand(TaskId t, std::uint32_t place, std::size_t link) const {
    const LinkUse& use = links_->uses[links_->of_task[t]];
    const bool leaves = link == as_index(RankLink::to_nodes) || link == as_index(RankLink::to_node);
    if (use.message && leaves != (graph_->places(t).front().index == place)) return 0;
    return use.demand[link];
}

void LinkShares::settle_rank(std::uint32_t rank, std::vector<std::uint32_t>& touched) {
    std::array<std::uint32_t, lane_count> places{};
    std::array<double, lane_count> factors{}, demands{};
    std::size_t count = 0;
    for (std::uint32_t place = rank * lane_count; place < (rank + 1) * lane_count; ++place)
        if (holders_[place].task != no_task) places[count++] = place;
    std::fill_n(factors.begin(), count, 1.0);
    for (std::size_t link = 0; count > 1 && link < rank_links; ++link) {
        for (std::size_t i = 0; i < count; ++i)
            demands[i] = demand(holders_[places[i]].task, places[i], link);
        const double level = fair_level({demands.data(), count});
        for (std::size_t i = 0; i < count; ++i)
            factors[i] = std::max(factors[i], demands[i] / level);
    }
    for (std::size_t i = 0; i < count; ++i) {
        Holder& holder = holders_[places[i]];
        if (std::exchange(holder.factor, factors[i]) != factors[i])
            touched.push_back(graph_->places(holder.task).front().index);
    }
}

void LinkShares::settle(std::vector<std::uint32_t>& touched) {
    for (const std::uint32_t rank : changed_) {
        is_changed_[rank] = 0;
        settle_rank(rank, touched);
    }
    changed_.clear();
}

double LinkShares::factor(TaskId t) const {
    double factor = 1;
    if (links_->of_task[t] == 0) return factor;
    for (const Place& place : graph_->places(t))
        factor = std::max(factor, holders_[place.index].factor);
    return factor;
}

}  // namespace stepcast
