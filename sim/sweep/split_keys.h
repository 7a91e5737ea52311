// The keys of [parallelism] that a sweep varies as plain integers, without reading text. Other keys
// vary through set_key().
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <type_traits>

#include "model/input/key_values.h"

namespace stepcast {

// In the order of the walk, slowest first: keys that are costly to change in StepBounds come early.
// A rule applies once its keys are set.
NAMED_ENUM(SplitKey, "a key that a sweep walks", global_batch, tp, cp, sequence_parallel,
           micro_batch, ep, recompute, recompute_layers, overlap_tp, overlap_weight_gradient, pp,
           dp, schedule, vp, layout, overlap_p2p, scatter_p2p, zero, overlap, overlap_params);

// Reads and sets a key as an integer; enumerators and booleans by their numbers.
struct SplitField {
    std::string key;  // "parallelism.tp"
    int (*get)(const Parallelism&);
    void (*set)(Parallelism&, int);
};
inline constexpr std::size_t split_key_count = name_list<SplitKey>.size();

// Indexed by SplitKey.
inline const auto split_fields = [] {
    std::array<SplitField, split_key_count> fields;
    each_key<Parallelism>(
        "", [&]<auto member>(const Keyed<member>& row) {
            using Field = std::remove_cvref_t<decltype(Parallelism{}.*member)>;
            const auto at = std::ranges::find(name_list<SplitKey>, row.name);
            if constexpr (std::is_integral_v<Field> || std::is_enum_v<Field>)
                if (at != name_list<SplitKey>.end())
                    fields[static_cast<std::size_t>(at - name_list<SplitKey>.begin())] = {
                        "parallelism." + std::string(row.name),
                        [](const Parallelism& p) { return static_cast<int>(p.*member); },
                        [](Parallelism& p, int value) { p.*member = static_cast<Field>(value); }};
        });
    return fields;
}();

inline const SplitField& split_field(SplitKey key) {
    return split_fields[static_cast<std::size_t>(key)];
}
// split_key_count if `key` is none of them.
inline std::size_t split_index(std::string_view key) {
    return static_cast<std::size_t>(std::ranges::find(split_fields, key, &SplitField::key) -
                                    split_fields.begin());
}

}  // namespace stepcast
