// The numbers of a cluster that a what-if can change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/cluster.h"

namespace stepcast {

// A number of a cluster that a what-if can change, in whichever table.
struct ClusterParameter {
    // stated: by datasheet or user; table: measurements; time: a cost as a time; share: a cost as a
    // share or rate.
    enum class Kind : std::uint8_t { stated, table, time, share };
    std::string key;    // below "cluster."
    std::string value;  // with unit; for a table the number of measurements
    Kind kind = Kind::share;
    friend bool operator==(const ClusterParameter&, const ClusterParameter&) = default;
};

// Times, rates, shares, measured tables and the number of SMs; not zeros (effects switched off),
// nor the numbers of nodes, ranks, NICs.
std::vector<ClusterParameter> cluster_parameters(const Cluster& cluster);

// The cluster with the parameter times `factor`; in a table of measurements every time is scaled. A
// rate or a fixed cost also scales what was measured with it (tables_before()), of several types
// the operands' own type. The bounds of the key do not apply, because the result only shows a
// direction. Throws std::logic_error if the key is no such parameter.
Cluster with_scaled(const Cluster& cluster, const std::string& key, double factor);

}  // namespace stepcast
