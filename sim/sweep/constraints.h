// What --where asks for: which configurations count at all.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/experiment.h"
#include "model/runtime_rules.h"
#include "sim/sweep/axes.h"

namespace stepcast {

// The allowed positions of a measured value relative to the constraint's value.
struct Relation {
    bool below = false, equal = false, above = false;
    [[nodiscard]] bool holds(double found, double value) const {
        return found < value ? below : found == value ? equal : above;
    }
    friend bool operator==(const Relation&, const Relation&) = default;
};

// The quantities that a constraint may be about. split: one of the keys of SplitKey.
enum class Measure : std::uint8_t { memory_peak, step, tokens, cost, mfu, split };

// `value` in SI units: bytes, seconds, tokens/s, price of a million tokens, share, or the number of
// a SplitKey's value.
struct Constraint {
    std::string text;
    Measure measure = Measure::memory_peak;
    std::size_t split_key = 0;
    Relation relation = {};
    double value = 0;
    friend bool operator==(const Constraint&, const Constraint&) = default;
};

// What is known of a configuration without its step. Must not outlive the split that it refers to.
struct PointFacts {
    const ParallelPlan& split;
    Bytes peak;
    double tokens = 0;          // in a step
    double price = 0;           // of all ranks, a second
    Flops flops;                // useful FLOPs of a step
    FlopsPerSecond peak_flops;  // of all ranks
};
double cost_per_token(const PointFacts& facts, Seconds step);

// Each text is "memory.peak < 76 GiB", "step <= 12 s", "tokens >= 150000", "cost < 0.2", "mfu > 45
// %", "parallelism.tp <= 8", or several joined by "and". Throws ConfigError for an unknown
// quantity, no relation, or a value without its unit.
std::vector<Constraint> parse_constraints(std::span<const std::string> texts);

// Throws ConfigError when no configuration can satisfy all: two exclude each other, no value of an
// axis fits, or the memory is too small.
void check_constraints(std::span<const Constraint> constraints, std::span<const Axis> axes,
                       const Experiment& experiment);

bool holds(const Constraint& constraint, const PointFacts& facts, Seconds step);
// Whether the constraint can hold for some step of at least `lower`.
bool can_hold(const Constraint& constraint, const PointFacts& facts, Seconds lower);

}  // namespace stepcast
