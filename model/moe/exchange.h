// The token exchange of the fast_moe family: one group of sends and receives per local expert index.
#pragma once

#include <vector>

#include "model/moe/layer.h"

namespace stepcast {

enum class Direction { dispatch, combine };

// E groups, one after another: group i moves the slots of local expert i of every rank (dispatch: source to owner;
// combine: back), skipping experts marked in `skip`. A group that moves nothing is not issued; each issued one costs
// the host of every rank one exchange set-up.
void add_exchange_groups(Program& program, const MoeLayer& layer, const Routing& routing, Phase phase,
                         Direction direction, const std::vector<bool>& skip);

// Slots of every expert over all source ranks.
std::vector<int> world_load(const Routing& routing);

}  // namespace stepcast
