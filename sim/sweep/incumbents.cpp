#include "sim/sweep/incumbents.h"

#include <algorithm>
#include <tuple>

namespace stepcast {
namespace {

bool is_before(const Incumbent& a, const Incumbent& b) {
    return std::tie(a.score, a.id) < std::tie(b.score, b.id);
}

// Whether a is at least as good in both scores and in memory left, and better in one or with a
// lower number.
bool dominates(const Incumbent& a, const Incumbent& b) {
    if (a.score.first > b.score.first || a.score.second > b.score.second ||
        a.score.tight > b.score.tight)
        return false;
    return a.score != b.score || a.id < b.id;
}

}  // namespace

std::vector<Incumbent>::const_iterator Incumbents::of_kind(std::uint64_t kind) const {
    return wanted_.distinct ? std::ranges::find(best_, kind, &Incumbent::kind) : best_.end();
}

bool Incumbents::excluded_from_best(const Incumbent& lower) const {
    if (wanted_.front)
        return std::ranges::any_of(best_, [&](const Incumbent& i) { return dominates(i, lower); });
    if (best_.size() == wanted_.top && !is_before(lower, best_.back())) return true;
    const auto same = of_kind(lower.kind);
    return same != best_.end() && !is_before(lower, *same);
}

bool Incumbents::excludes(const Incumbent& lower) const {
    return excluded_from_best(lower) && excluded_from_groups(lower);
}

bool Incumbents::excluded_from_groups(const Incumbent& lower) const {
    if (!wanted_.by_group) return true;
    const auto found = best_by_group_.find(lower.group);
    return found != best_by_group_.end() && !is_before(lower, found->second);
}

bool Incumbents::needs_no(const Incumbent& lower) const {
    if (!wanted_.distinct) return excludes(lower);
    return !best_.empty() && !is_before(lower, best_.front()) && excluded_from_groups(lower);
}

void Incumbents::add(const Incumbent& found) {
    if (wanted_.by_group) {
        const auto [best, is_new] = best_by_group_.try_emplace(found.group, found);
        if (!is_new && is_before(found, best->second)) best->second = found;
    }
    if (excluded_from_best(found)) return;
    if (wanted_.front)
        std::erase_if(best_, [&](const Incumbent& i) { return dominates(found, i); });
    else if (const auto same = of_kind(found.kind); same != best_.end())
        best_.erase(same);
    else if (best_.size() == wanted_.top)
        best_.pop_back();
    const auto at =
        std::ranges::find_if(best_, [&](const Incumbent& i) { return is_before(found, i); });
    best_.insert(at, found);
}

std::vector<Incumbent> Incumbents::all() const {
    std::vector<Incumbent> all = best_;
    for (const auto& [group, best] : best_by_group_) all.push_back(best);
    return all;
}

}  // namespace stepcast
