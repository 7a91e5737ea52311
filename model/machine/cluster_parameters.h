// The numbers of a cluster that a what-if can turn, whatever table they live in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/cluster.h"

namespace stepcast {

struct ClusterParameter {
    // By the datasheet or whoever describes the machine; a table of measurements; a cost as a time; as a share or rate.
    enum class Kind : std::uint8_t { stated, table, time, share };
    std::string key;    // below "cluster."
    std::string value;  // with unit; of a table how many measurements it holds
    Kind kind = Kind::share;
    friend bool operator==(const ClusterParameter&, const ClusterParameter&) = default;
};

// Times, rates, shares and measured tables, and the number of SMs; not what is zero (its effect is switched off), nor
// the numbers of nodes, ranks and NICs.
std::vector<ClusterParameter> cluster_parameters(const Cluster& cluster);

// With the parameter times `factor`; of a table of measurements every time. Bounds of the key do not hold: it is a
// direction to look in, not a machine to buy. Throws std::logic_error for a key that is no such parameter.
Cluster with_scaled(const Cluster& cluster, const std::string& key, double factor);

}  // namespace stepcast
