// Collectives between ranks that are threads of one process: every participant calls the function with its index and
// its own buffers; it returns when they may be used again. Sums run in the order of the participants, so results do
// not depend on timing.
#pragma once

#include <span>

#include "exec/rank_group.h"

namespace stepcast {

void all_reduce(RankGroup& group, std::size_t index, std::span<float> input, std::span<float> output);
// Participant i contributes part i (footprint.h) of `output`.
void all_gather(RankGroup& group, std::size_t index, std::span<float> input, std::span<float> output);
// `input` has the full size; participant i keeps part i of the sum.
void reduce_scatter(RankGroup& group, std::size_t index, std::span<float> input, std::span<float> output);
// The root gives `input`, the others take `output`.
void broadcast(RankGroup& group, std::size_t index, std::size_t root, std::span<float> input, std::span<float> output);
void reduce(RankGroup& group, std::size_t index, std::size_t root, std::span<float> input, std::span<float> output);

// counts[source * size + target] floats; `input` holds what goes to target 0, 1, .. one after another, `output` what
// comes from source 0, 1, ..
void all_to_all(RankGroup& group, std::size_t index, std::span<const std::size_t> counts, std::span<float> input,
                std::span<float> output);
// From participant 0 to participant 1, in `messages` pieces that meet one by one.
void send_receive(RankGroup& group, std::size_t index, int messages, std::span<float> input, std::span<float> output);

}  // namespace stepcast
