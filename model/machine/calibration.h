// Which of a cluster's cost constants were determined on its own device, by kind.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/cluster.h"

namespace stepcast {

struct KindCalibration {
    std::string kind;
    int determined = 0;  // number of parameters in [fitted]
    friend bool operator==(const KindCalibration&, const KindCalibration&) = default;
};

// Always these eight kinds: "GEMM", "attention", "memory passes", "expert kernels", "collectives
// inside a node", "collectives between nodes", "host" and "steps" (rates that only whole steps
// show).
std::vector<KindCalibration> calibrations_of(const Cluster& cluster);
// key below "cluster."; "" if it prices no kind
std::string_view kind_of_constant(std::string_view key);

// True if the data of the cluster's own fit determined the constant.
bool is_determined(const Cluster& cluster, std::string_view key);

// For example "GEMM: 17 constants; attention: not measured; ..".
std::string calibration_text(const Cluster& cluster);
// For example "attention, expert kernels"; "" if the fit determined a constant of every kind.
std::string unmeasured_kinds(const Cluster& cluster);

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

// The cluster with the parameter times `factor`; in a table of measurements every time is scaled.
// The bounds of the key do not apply, because the result only shows a direction. Throws
// std::logic_error if the key is no such parameter.
Cluster with_scaled(const Cluster& cluster, const std::string& key, double factor);

}  // namespace stepcast
