// The links that the collectives and sends of a graph need.
#pragma once

#include "sim/costs/price_classes.h"

namespace stepcast {

// Empty unless the cluster's links are shared (cluster.interference.shared_links) and some rank has two lanes whose collectives
// want the same link. `prices` by class, `paths` as PriceClasses::price() takes them.
LinkUses link_uses(const TaskGraph& graph, const PriceClasses& classes, std::span<const Seconds> prices,
                   const PriceClasses::Paths& paths, const Cluster& cluster);

}  // namespace stepcast
