// The bandwidth of rings over the direct links between ranks of a node.
#pragma once

#include <span>

#include "model/cluster.h"

namespace stepcast {

// The bus bandwidth of all rings together that close over direct links of a mesh between `locals`,
// ranks of one node: NCCL's channels go round in different orders, until links are used up. Two
// ranks have the links between them. Exact up to 8 ranks as fractions of channels (a linear program
// over the orders); beyond, what the rank with the fewest links among them allows. 0 if no ring
// closes.
BytesPerSecond mesh_rings(std::span<const int> locals, const Cluster& cluster);

// The slowest direct links between two ranks of a node.
BytesPerSecond least_link(const Cluster& cluster);

}  // namespace stepcast
