// Rules between keys of a cluster, one function each. A complaint begins with the key at fault.
#pragma once

#include "model/cluster.h"

namespace stepcast {

// Checks rules between keys of a cluster: every rank reaches every other, and pairs and leaves
// divide evenly. Throws ConfigError that begins with the key to change.
void check_cluster(const Cluster& cluster);

}  // namespace stepcast
