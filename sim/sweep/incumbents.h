// The best configurations simulated so far, and which bounds they exclude.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "sim/sweep/space.h"

namespace stepcast {

// What is minimised, as plain numbers. `second` is used only for a Pareto front. What is within the
// margin of the memory comes after all that is not.
struct Score {
    double first = 0, second = 0;
    bool tight = false;
    friend bool operator==(const Score&, const Score&) = default;
    friend auto operator<=>(const Score& a, const Score& b) {
        return std::tie(a.tight, a.first, a.second) <=> std::tie(b.tight, b.first, b.second);
    }
};
struct Incumbent {
    Score score;
    PointId id;
    std::uint64_t group = 0;
    std::uint64_t kind = 0;
    friend bool operator==(const Incumbent&, const Incumbent&) = default;
};

struct Wanted {
    std::size_t top = 10;
    bool front = false;     // the Pareto front of two scores instead of the top
    bool by_group = false;  // also the best of each group
    // The top has the best of each kind alone; only its first is to be proven.
    bool distinct = false;
    friend bool operator==(const Wanted&, const Wanted&) = default;
};

// Equal scores rank by the number of the point, so the answer does not depend on the order of
// arrival.
class Incumbents {
public:
    explicit Incumbents(Wanted wanted) : wanted_(wanted) {}

    void add(const Incumbent& found);
    // A point whose scores are at least those of `lower` cannot be among the wanted ones.
    [[nodiscard]] bool excludes(const Incumbent& lower) const;
    // The proof does without this point: it is neither the first nor the best of its group, and of
    // a top whose rows are all proven it is none.
    [[nodiscard]] bool needs_no(const Incumbent& lower) const;

    [[nodiscard]] const std::vector<Incumbent>& best() const { return best_; }  // by rising score
    [[nodiscard]] const std::map<std::uint64_t, Incumbent>& best_by_group() const {
        return best_by_group_;
    }
    [[nodiscard]] const Wanted& wanted() const { return wanted_; }
    // All points that matter: add() of each of them makes an equal value.
    [[nodiscard]] std::vector<Incumbent> all() const;
    friend bool operator==(const Incumbents&, const Incumbents&) = default;

private:
    [[nodiscard]] bool excluded_from_best(const Incumbent& lower) const;
    [[nodiscard]] bool excluded_from_groups(const Incumbent& lower) const;
    [[nodiscard]] std::vector<Incumbent>::const_iterator of_kind(std::uint64_t kind) const;

    Wanted wanted_;
    std::vector<Incumbent> best_;
    std::map<std::uint64_t, Incumbent> best_by_group_;
};

}  // namespace stepcast
