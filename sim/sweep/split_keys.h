// The keys of [parallelism] that a sweep varies as plain integers, without reading text. Every other key varies through
// set_key().
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "model/parallelism.h"

namespace stepcast {

// In the order in which a sweep walks them, slowest first: what is dear to change in StepBounds stands early. A legality rule
// applies as soon as the last of its keys is set.
enum class SplitKey : std::uint8_t {
    global_batch,
    tp,
    cp,
    sequence_parallel,
    micro_batch,
    ep,
    recompute,
    recompute_layers,
    overlap_tp,
    overlap_weight_gradient,
    pp,
    dp,
    schedule,
    vp,
    overlap_p2p,
    scatter_p2p,
    zero,
    overlap,
    overlap_params
};
inline constexpr std::size_t split_key_count = 19;

// Enumerators and booleans as their numbers.
struct SplitField {
    std::string_view key;  // "parallelism.tp"
    int (*get)(const Parallelism&);
    void (*set)(Parallelism&, int);
};
const std::array<SplitField, split_key_count>& split_fields();
const SplitField& split_field(SplitKey key);
// split_key_count when there is none.
std::size_t split_index(std::string_view key);

}  // namespace stepcast
