// The points behind a sweep's interactive map.
#pragma once

#include <optional>

#include "sim/sweep/search.h"

namespace stepcast {

// From what the search collected; only a resumed one, or one of several processes, walks the space once more. Empty where
// fewer than two keys vary or nothing is known of any point. Of spaces too large for that, and of workloads without a closed
// form, only what was simulated. Does not depend on the number of threads.
std::optional<SweepMap> sweep_map(const SweepSpace& space, const SweepQuestion& question, const SweepSearch& search, int threads);

}  // namespace stepcast
