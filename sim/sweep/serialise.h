// Jobs and results of a sweep as words, for messages between processes of one program.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/sweep/worker.h"

namespace stepcast {

using Words = std::vector<std::uint64_t>;

Words serialised(const SweepJob& job);
Words serialised(const SweepJobResult& result);
// Throw std::logic_error for words that were not made so.
SweepJob job_of(std::span<const std::uint64_t> words);
SweepJobResult result_of(std::span<const std::uint64_t> words);

}  // namespace stepcast
