// The points of a search's map, walked once more.
#pragma once

#include <optional>

#include "sim/sweep/search.h"

namespace stepcast {

// The points of a sweep's interactive map, from what the search collected. A sweep of several
// processes walks the space once more. Empty if fewer than two keys vary or nothing is
// known of any point. Spaces that are too large for that, and workloads without a closed form, give
// only simulated points. The result does not depend on the number of threads.
std::optional<SweepMap> sweep_map(const SweepSpace& space, const SweepQuestion& question,
                                  const SweepSearch& search, int threads);

}  // namespace stepcast
