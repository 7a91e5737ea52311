// The keys of [parallelism] and [runtime.exchanges] that a sweep varies as plain integers, without
// reading text. Other keys vary through set_key().
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "model/base/names.h"
#include "model/base/numbers.h"
#include "model/runtime_rules.h"

namespace stepcast {

// In the order of the walk, slowest first: keys that are costly to change in StepBounds come early.
// A rule applies once its keys are set.
NAMED_ENUM(SplitKey, "a key that a sweep walks", global_batch, tp, cp, sequence_parallel,
           micro_batch, ep, recompute, recompute_layers, tensor, weight_gradient, pp, dp, schedule,
           vp, layout, sends, scatter_sends, zero, gradients, parameters);

// Reads and sets a key as an integer; enumerators and booleans by their numbers.
struct SplitField {
    std::string key;  // "parallelism.tp"
    int (*get)(const ParallelPlan&);
    void (*set)(ParallelPlan&, int);
};
inline constexpr std::size_t split_key_count = name_list<SplitKey>.size();

// Indexed by SplitKey.
extern const std::array<SplitField, split_key_count> split_fields;

inline const SplitField& split_field(SplitKey key) { return split_fields[as_index(key)]; }
// split_key_count if `key` is none of them.
std::size_t split_index(std::string_view key);

}  // namespace stepcast
