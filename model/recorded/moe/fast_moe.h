// FastMoE and its successor FasterMoE, which adds a scheduler. Source: notes/recorded-runs.md.
// fast_moe: gate, exchange of counts, permute. Each all-to-all is one group of sends and receives
// per local expert index, for which the host waits (FastMoE's smgr->sync). Experts run one by one
// in a host loop, which calls every module, even those without tokens. The backward mirrors this,
// so a step has four all-to-alls. faster_moe: every rank computes the most loaded (shadowed)
// experts for its own tokens. Their owner broadcasts the weights, and in the backward receives the
// reduced gradients. An expert's module is called only if it has tokens. The pipelining group is
// the world, so no all-to-all overlaps experts. Unless launches block, the host calls modules while
// the device communicates. It waits for the device to read the counts (before it chooses the
// shadowed experts), and at the end of a pass.
#pragma once

#include <vector>

#include "model/recorded/moe/known_systems.h"
#include "model/recorded/moe/layer.h"
#include "model/routing.h"

namespace stepcast {

// The experts that faster_moe shadows (public for its test and for --explain).
std::vector<bool> shadowed_experts(const MoeLayer& layer, const Routing& routing);

}  // namespace stepcast
