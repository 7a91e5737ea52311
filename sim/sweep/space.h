// The configurations that a sweep asks for, numbered and walked without storing them. Keys of SplitKey are walked as
// integers inside each setting ("base") of all other keys; a rule that is broken early skips all that lies below.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "model/answers/sweep_answer.h"
#include "sim/sweep/axes.h"
#include "sim/sweep/split_rules.h"

namespace stepcast {

// Numbers do not depend on what is legal, nor on who walks.
struct PointId {
    std::uint64_t base = 0, inner = 0;
    friend auto operator<=>(const PointId&, const PointId&) = default;
};

struct SweepVisitor {
    std::function<void(std::uint64_t inner, const Parallelism&)> legal;
    std::function<void(std::string_view reason, std::uint64_t points)> illegal;
};

// One setting of the keys that are no SplitKey, and the values of those that are.
struct SweepBase {
    static constexpr int rest = 0;  // dp: what the other splits leave
    Experiment experiment;
    std::array<std::vector<int>, split_key_count> values;
    std::optional<SplitRules> rules;  // transformers
    bool rules_suffice = false;       // else what they let pass goes through check_experiment(), point by point

    // Parts of similar size, each the splits below some values of the first keys.
    [[nodiscard]] std::uint64_t items() const;
    // Meets every split of one in rising order, as legal or in a count of illegal ones.
    void visit(std::uint64_t item, const SweepVisitor& visitor) const;
    [[nodiscard]] Parallelism split_of(std::uint64_t inner) const;
};

struct VariedKey {
    std::string name;
    std::size_t split = split_key_count;  // its SplitKey, if it is one;
    std::size_t axis = 0;                 // else its axis
};

class SweepSpace {
public:
    // Throws ConfigError as check_axes() does, and for more than 1e18 points.
    SweepSpace(const Experiment& experiment, std::vector<Axis> axes, std::vector<Override> stated = {});

    [[nodiscard]] const std::vector<Axis>& axes() const { return axes_; }
    [[nodiscard]] std::uint64_t point_count() const { return points_; }
    // Parts of similar size that are walked as one.
    [[nodiscard]] std::uint64_t item_count() const { return item_begin_.back(); }
    [[nodiscard]] std::uint64_t base_of_item(std::uint64_t item) const;
    // The order in which items are screened: base after base, as each has prices of its own, and within a base so that
    // every part of the order meets all regions of it.
    [[nodiscard]] std::uint64_t screened_item(std::uint64_t position) const;

    [[nodiscard]] SweepBase base(std::uint64_t number) const;
    // As SweepBase does, of an item of all.
    void visit(const SweepBase& base, std::uint64_t item, const SweepVisitor& visitor) const {
        base.visit(item - item_begin_[base_of_item(item)], visitor);
    }

    [[nodiscard]] Experiment experiment_of(PointId id) const;
    // The varied keys of a point with their values; `parallelism=all` as the splits that may differ.
    [[nodiscard]] Settings settings_of(PointId id) const;
    // The varied keys that are no SplitKey, slowest first.
    [[nodiscard]] std::vector<std::string> outer_keys() const;
    // Every key that varies: as asked for, then those of parallelism=all.
    [[nodiscard]] const std::vector<VariedKey>& varied() const { return varied_; }
    // Those that parallelism=all does not ask for unless parallelism.schedule varies.
    [[nodiscard]] std::vector<std::string> schedules_left_out() const;
    // Where a point lies along a varied key: the number of its value in its axis, or the value of a SplitKey.
    [[nodiscard]] int position(const VariedKey& key, std::uint64_t base, const Parallelism& split) const;
    [[nodiscard]] std::string value_at(const VariedKey& key, int position) const;

private:
    // The number of the value that a base has on an axis of no SplitKey.
    [[nodiscard]] std::size_t outer_value(std::size_t axis, std::uint64_t base) const;
    [[nodiscard]] std::vector<VariedKey> varied_keys() const;

    Experiment experiment_;
    std::vector<Axis> axes_;
    std::vector<Override> stated_;
    bool every_split_;
    std::vector<std::size_t> outer_;  // axes of no SplitKey, slowest first
    std::vector<VariedKey> varied_;
    std::uint64_t points_ = 0;
    std::vector<std::uint64_t> item_begin_;  // by base, and the end
};

}  // namespace stepcast
