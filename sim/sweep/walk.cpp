#include "sim/sweep/walk.h"

#include <algorithm>

#include "model/errors.h"

namespace stepcast {
int ranks_left(const Cluster& cluster, const Parallelism& p) {
    const long taken = static_cast<long>(p.tp) * p.cp * p.pp;
    return static_cast<int>(std::max(1L, rank_count(cluster) / taken));
}

SplitWalk::SplitWalk(const SweepBase& base, const SweepVisitor& visitor) : base_(base), visitor_(visitor) {
    std::uint64_t below = 1;
    for (std::size_t level = split_key_count; level-- > 0;) {
        below_[level] = below;
        below *= base.values[level].size();
    }
    split_ = base.experiment.parallelism;
}

bool SplitWalk::enter(const WalkPrefix& prefix, std::uint64_t item) {
    std::uint64_t items = prefix.items;
    for (std::size_t level = 0; level < prefix.depth; ++level) {
        const auto& values = base_.values[level];
        items /= values.size();
        const std::size_t digit = item / items % values.size();
        inner_ += digit * below_[level];
        if (!set(level, values[digit])) {
            visitor_.illegal(reason_, below_[prefix.depth - 1]);
            return false;
        }
    }
    return true;
}

void SplitWalk::descend(std::size_t level) {
    if (level == split_key_count) return leaf();
    const auto& values = base_.values[level];
    const std::uint64_t before = inner_;
    for (const int value : values) {
        if (set(level, value))
            descend(level + 1);
        else
            visitor_.illegal(reason_, below_[level]);
        inner_ += below_[level];
    }
    inner_ = before;
}

bool SplitWalk::set(std::size_t level, int value) {
    const auto key = static_cast<SplitKey>(level);
    if (key == SplitKey::dp && value == SweepBase::rest) value = ranks_left(base_.experiment.cluster, split_);
    split_fields()[level].set(split_, value);
    if (!base_.rules) return true;
    reason_ = base_.rules->broken_by(key, split_);
    return reason_.empty();
}

// Where the fast rules do not say all.
void SplitWalk::leaf() {
    follow_framework(base_.experiment.framework, split_);  // later levels than what they follow: set anew each time
    if (base_.rules_suffice) return visitor_.legal(inner_, split_);
    Experiment tried = base_.experiment;
    tried.parallelism = split_;
    try {
        check_experiment(tried);
    } catch (const ConfigError& error) {
        return visitor_.illegal(error.what(), 1);
    }
    visitor_.legal(inner_, split_);
}

}  // namespace stepcast
