#include "sim/sweep/incumbents.h"

#include <algorithm>
#include <tuple>

namespace stepcast {
namespace {

bool is_before(const Score& a, PointId a_id, const Score& b, PointId b_id) {
    return std::tie(a.first, a.second, a_id) < std::tie(b.first, b.second, b_id);
}

// Whether a is at least as good in both scores, and better in one or with a lower number.
bool dominates(const Incumbent& a, const Score& b, PointId b_id) {
    if (a.score.first > b.first || a.score.second > b.second) return false;
    return a.score != b || a.id < b_id;
}

}  // namespace

bool Incumbents::excluded_from_best(const Score& lower, PointId id) const {
    if (wanted_.front)
        return std::ranges::any_of(best_,
                                   [&](const Incumbent& i) { return dominates(i, lower, id); });
    return best_.size() == wanted_.top &&
           !is_before(lower, id, best_.back().score, best_.back().id);
}

bool Incumbents::excludes(const Score& lower, PointId id, std::uint64_t group) const {
    if (!excluded_from_best(lower, id)) return false;
    if (!wanted_.by_group) return true;
    const auto found = best_by_group_.find(group);
    return found != best_by_group_.end() &&
           !is_before(lower, id, found->second.score, found->second.id);
}

void Incumbents::add(const Incumbent& found) {
    if (wanted_.by_group) {
        const auto [best, is_new] = best_by_group_.try_emplace(found.group, found);
        if (!is_new && is_before(found.score, found.id, best->second.score, best->second.id))
            best->second = found;
    }
    if (excluded_from_best(found.score, found.id)) return;
    if (wanted_.front)
        std::erase_if(best_, [&](const Incumbent& i) { return dominates(found, i.score, i.id); });
    else if (best_.size() == wanted_.top)
        best_.pop_back();
    const auto at = std::ranges::find_if(
        best_, [&](const Incumbent& i) { return is_before(found.score, found.id, i.score, i.id); });
    best_.insert(at, found);
}

std::vector<Incumbent> Incumbents::all() const {
    std::vector<Incumbent> all = best_;
    for (const auto& [group, best] : best_by_group_) all.push_back(best);
    return all;
}

}  // namespace stepcast
