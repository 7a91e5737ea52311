// Walks a search's axes in nested loops, and leaves out what no rule allows.

#include <algorithm>

#include "model/base/errors.h"
#include "model/base/numbers.h"
#include "model/input/check_experiment.h"
#include "sim/sweep/space.h"

namespace stepcast {
namespace {

// least number of items of a base, if it has as many points
constexpr std::uint64_t item_goal = 4096;
constexpr std::string_view without_effect = "a switch of the software has no effect on this split";

// The keys that are fixed in an item, and the number of their combinations.
struct Prefix {
    std::size_t depth = 0;
    std::uint64_t items = 1;
};
Prefix prefix_of(const SweepBase& base) {
    Prefix prefix;
    while (prefix.depth < split_key_count && prefix.items < item_goal)
        prefix.items *= base.values[prefix.depth++].size();
    return prefix;
}

class SplitWalk {
public:
    SplitWalk(const SweepBase& base, const SweepVisitor& visitor)
        : base_(base), visitor_(visitor), split_(plan_of(base.experiment)) {
        std::uint64_t below = 1;
        for (std::size_t level = split_key_count; level-- > 0;) {
            below_[level] = below;
            below *= base.values[level].size();
        }
    }

    // Sets the first keys from the digits of `item`. Returns false if they break a rule.
    bool enter(const Prefix& prefix, std::uint64_t item) {
        std::uint64_t items = prefix.items;
        for (std::size_t level = 0; level < prefix.depth; ++level) {
            const auto& values = base_.values[level];
            items /= values.size();
            const std::size_t digit = item / items % values.size();
            inner_ += digit * below_[level];
            set(level, values[digit]);
            if (breaks_rule(level)) {
                visitor_.illegal(reason_, below_[prefix.depth - 1]);
                return false;
            }
        }
        return true;
    }

    void descend(std::size_t level) {
        if (level == split_key_count) return leaf();
        const std::uint64_t before = inner_;
        for (const int value : base_.values[level]) {
            set(level, value);
            if (breaks_rule(level))
                visitor_.illegal(reason_, below_[level]);
            else
                descend(level + 1);
            inner_ += below_[level];
        }
        inner_ = before;
    }

    // The split with this number, legal or not.
    ParallelPlan at(std::uint64_t inner) {
        for (std::size_t level = 0; level < split_key_count; ++level)
            set(level, base_.values[level][inner / below_[level] % base_.values[level].size()]);
        return split_;
    }

private:
    void set(std::size_t level, int value) {
        if (static_cast<SplitKey>(level) == SplitKey::dp && value == SweepBase::rest) {
            const long replicas =
                rank_count(base_.experiment.cluster) / ranks_of_replica(split_.parallelism);
            value = as_int(std::max(1L, replicas));
        }
        split_fields[level].set(split_, value);
    }

    bool breaks_rule(std::size_t level) {
        reason_ = {};
        if (const auto& [needed, idle] = base_.needs[level];
            needed != nullptr && idle(needed(split_)) &&
            split_fields[level].get(split_) != base_.values[level].front())
            reason_ = without_effect;
        else if (base_.rules)
            reason_ = base_.rules->broken_by(static_cast<SplitKey>(level), split_.parallelism);
        return !reason_.empty();
    }

    // A split with all keys set. The fast rules may not cover everything.
    void leaf() {
        if (base_.rules_suffice) return visitor_.legal(inner_, split_);
        Experiment tried = base_.experiment;
        set_plan(tried, split_);
        try {
            check_experiment(tried);
        } catch (const ConfigError& error) {
            return visitor_.illegal(error.what(), 1);
        }
        visitor_.legal(inner_, split_);
    }

    const SweepBase& base_;
    const SweepVisitor& visitor_;
    std::array<std::uint64_t, split_key_count> below_{};
    ParallelPlan split_;
    std::uint64_t inner_ = 0;
    std::string_view reason_;
};

}  // namespace

std::uint64_t SweepBase::items() const { return prefix_of(*this).items; }

void SweepBase::visit(std::uint64_t item, const SweepVisitor& visitor) const {
    const Prefix prefix = prefix_of(*this);
    SplitWalk walk(*this, visitor);
    if (walk.enter(prefix, item)) walk.descend(prefix.depth);
}

ParallelPlan SweepBase::split_of(std::uint64_t inner) const {
    return SplitWalk(*this, {}).at(inner);
}

}  // namespace stepcast
