// The configurations that a sweep asks for, numbered and walked without storing them. For each
// setting of all other keys (a "base"), the keys of SplitKey are walked as integers; a rule that is
// broken early skips everything below it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "model/input/split_rules.h"
#include "sim/results/sweep_answer.h"
#include "sim/sweep/axes.h"

namespace stepcast {

// The numbers do not depend on which points are legal, nor on who walks.
struct PointId {
    std::uint64_t base = 0, inner = 0;
    friend auto operator<=>(const PointId&, const PointId&) = default;
};

struct SweepVisitor {
    std::function<void(std::uint64_t inner, const ParallelPlan&)> legal;
    std::function<void(std::string_view reason, std::uint64_t points)> illegal;
};

// One setting of the keys outside SplitKey, with the values to walk for the keys of SplitKey: one
// value if the framework makes the key decide more than a base can leave open.
struct SweepBase {
    static constexpr int rest = 0;  // as a value of dp: what the other splits leave
    Experiment experiment;
    std::array<std::vector<int>, split_key_count> values;
    // The key that a switch acts on, and the values of it under which the switch has no effect, so
    // that its further values are passed over; null: it always has.
    struct Need {
        int (*get)(const ParallelPlan&) = nullptr;
        bool (*idle)(int value) = nullptr;
    };
    std::array<Need, split_key_count> needs = {};
    std::optional<SplitRules> rules;  // for transformers
    // if not, each split that passes the rules is also checked by check_experiment()
    bool rules_suffice = false;

    // The number of parts of similar size. Each part is all splits with certain values of the first
    // keys.
    [[nodiscard]] std::uint64_t items() const;
    // Visits the splits of one part in rising order: legal ones one by one, illegal ones as counts.
    void visit(std::uint64_t item, const SweepVisitor& visitor) const;
    [[nodiscard]] ParallelPlan split_of(std::uint64_t inner) const;
};

struct VariedKey {
    std::string name;
    std::size_t split = split_key_count;  // its index in SplitKey, if it is one
    std::size_t axis = 0;                 // otherwise the index of its axis
};

class SweepSpace {
public:
    // Throws ConfigError as check_axes() does, and for more than 1e18 points.
    SweepSpace(const Experiment& experiment, std::vector<Axis> axes,
               std::vector<Override> stated = {});

    [[nodiscard]] const std::vector<Axis>& axes() const { return axes_; }
    [[nodiscard]] std::uint64_t point_count() const { return points_; }
    // The number of parts of all bases; a part is walked as one.
    [[nodiscard]] std::uint64_t item_count() const { return item_begin_.back(); }
    [[nodiscard]] std::uint64_t base_of_item(std::uint64_t item) const;
    // The order in which items are screened: base after base, because each base has prices of its
    // own. Within a base any stretch of the order samples all regions of the base.
    [[nodiscard]] std::uint64_t screened_item(std::uint64_t position) const;

    [[nodiscard]] SweepBase base(std::uint64_t number) const;
    // As SweepBase::visit(), with an item of the whole space.
    void visit(const SweepBase& base, std::uint64_t item, const SweepVisitor& visitor) const {
        base.visit(item - item_begin_[base_of_item(item)], visitor);
    }

    [[nodiscard]] Experiment experiment_of(PointId id) const;
    // The varied keys of a point with their values; for `parallelism=all` these are the keys that
    // it may vary.
    [[nodiscard]] Settings settings_of(PointId id) const;
    // Of splits that differ in ranks or schedule, or in what an axis states: a number each. Other
    // switches that parallelism=all walks make no other kind.
    [[nodiscard]] std::uint64_t kind_of(std::uint64_t base, const ParallelPlan& split) const;
    // The varied keys that are not walked in a base, slowest first.
    [[nodiscard]] std::vector<std::string> outer_keys() const;
    // Every key that varies: the axes first, then the keys of parallelism=all.
    [[nodiscard]] const std::vector<VariedKey>& varied() const { return varied_; }
    // The schedules that parallelism=all leaves out, unless parallelism.schedule varies.
    [[nodiscard]] std::vector<std::string> schedules_left_out() const;
    // The framework's switches (framework.can.switches) that parallelism=all walks.
    [[nodiscard]] std::vector<std::string> switches() const;
    // The base that differs from this one in switches alone, with the first value of each.
    [[nodiscard]] std::uint64_t before_switches(std::uint64_t base) const {
        return base - base % switched_;
    }
    // The position of a point along a varied key: the index of its value in the axis, or the value
    // of a SplitKey.
    [[nodiscard]] int position(const VariedKey& key, std::uint64_t base,
                               const ParallelPlan& split) const;
    [[nodiscard]] std::string value_at(const VariedKey& key, int position) const;

private:
    // Whether the key is walked in a base: it is a SplitKey, and the framework derives nothing from
    // it that a base fixes.
    [[nodiscard]] bool is_inner(std::string_view key) const;
    void find_beyond(const Experiment& e);
    void find_beyond_of_presets();
    // Settings of the outer axes, each of which needs a cost model of its own.
    double count_bases();
    void count_points(double bases);
    // Axes for what parallelism=all gives to keys that cannot be walked in a base.
    void add_outer_axes();
    // The framework's switches, where nothing but the split varies and nobody states them.
    void add_switches();
    void find_split_values();
    void pass_over_idle(std::uint64_t number, SweepBase& base) const;
    // The index of the value that a base has on an axis that is not walked in it.
    [[nodiscard]] std::size_t outer_value(std::size_t axis, std::uint64_t base) const;
    [[nodiscard]] std::vector<VariedKey> varied_keys() const;

    Experiment experiment_;
    std::vector<Axis> axes_;
    std::vector<Override> stated_;
    bool every_split_;
    std::size_t asked_axes_ = 0;       // before those of switches
    std::uint64_t switched_ = 1;       // bases of one setting of the asked axes
    std::vector<std::string> beyond_;  // that rules of frameworks ask for, of all presets laid
    // indices of the axes that are not walked in a base, slowest first
    std::vector<std::size_t> outer_;
    std::vector<std::vector<int>> split_values_;  // by axis; empty where not walked in a base
    std::vector<VariedKey> varied_;
    std::uint64_t points_ = 0;
    std::vector<std::uint64_t> item_begin_;  // by base, and the end
};

}  // namespace stepcast
