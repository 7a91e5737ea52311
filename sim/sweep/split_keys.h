// The keys of [parallelism] that a sweep varies as plain integers, without reading text. Other keys vary through set_key().
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "model/parallelism.h"

namespace stepcast {

// In the order of the walk, slowest first: keys that are costly to change in StepBounds come early. A rule applies once its keys are set.
NAMED_ENUM(SplitKey, "a key that a sweep walks", global_batch, tp, cp, sequence_parallel, micro_batch, ep, recompute, recompute_layers,
           overlap_tp, overlap_weight_gradient, pp, dp, schedule, vp, overlap_p2p, scatter_p2p, zero, overlap, overlap_params);

// Reads and sets a key as an integer; enumerators and booleans by their numbers.
struct SplitField {
    std::string_view key;  // "parallelism.tp"
    int (*get)(const Parallelism&);
    void (*set)(Parallelism&, int);
};

template <auto Member>
constexpr SplitField split_field_of(std::string_view key) {
    return {
        key, [](const Parallelism& p) { return static_cast<int>(p.*Member); },
        [](Parallelism& p, int value) { p.*Member = static_cast<std::remove_cvref_t<decltype(p.*Member)>>(value); }};
}

inline constexpr std::array split_fields{
    split_field_of<&Parallelism::global_batch>("parallelism.global_batch"),
    split_field_of<&Parallelism::tp>("parallelism.tp"),
    split_field_of<&Parallelism::cp>("parallelism.cp"),
    split_field_of<&Parallelism::sequence_parallel>("parallelism.sequence_parallel"),
    split_field_of<&Parallelism::micro_batch>("parallelism.micro_batch"),
    split_field_of<&Parallelism::ep>("parallelism.ep"),
    split_field_of<&Parallelism::recompute>("parallelism.recompute"),
    split_field_of<&Parallelism::recompute_layers>("parallelism.recompute_layers"),
    split_field_of<&Parallelism::overlap_tp>("parallelism.overlap_tp"),
    split_field_of<&Parallelism::overlap_weight_gradient>("parallelism.overlap_weight_gradient"),
    split_field_of<&Parallelism::pp>("parallelism.pp"),
    split_field_of<&Parallelism::dp>("parallelism.dp"),
    split_field_of<&Parallelism::schedule>("parallelism.schedule"),
    split_field_of<&Parallelism::vp>("parallelism.vp"),
    split_field_of<&Parallelism::overlap_p2p>("parallelism.overlap_p2p"),
    split_field_of<&Parallelism::scatter_p2p>("parallelism.scatter_p2p"),
    split_field_of<&Parallelism::zero>("parallelism.zero"),
    split_field_of<&Parallelism::overlap>("parallelism.overlap"),
    split_field_of<&Parallelism::overlap_params>("parallelism.overlap_params")};
inline constexpr std::size_t split_key_count = split_fields.size();
static_assert(std::ranges::equal(split_fields, name_list<SplitKey>, {}, [](const SplitField& f) { return f.key.substr(sizeof "parallelism"); }));

constexpr const SplitField& split_field(SplitKey key) { return split_fields[static_cast<std::size_t>(key)]; }
// split_key_count if `key` is none of them.
constexpr std::size_t split_index(std::string_view key) {
    return static_cast<std::size_t>(std::ranges::find(split_fields, key, &SplitField::key) - split_fields.begin());
}

}  // namespace stepcast
