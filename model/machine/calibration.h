// What of a cluster's cost constants was determined on its own device, kind by kind.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/cluster.h"

namespace stepcast {

struct KindCalibration {
    std::string kind;
    int determined = 0;  // parameters of [fitted]
    friend bool operator==(const KindCalibration&, const KindCalibration&) = default;
};

// Always these eight: "GEMM", "attention", "memory passes", "expert kernels", "collectives inside a node",
// "collectives between nodes", "host", "steps" (rates that only whole steps tell).
std::vector<KindCalibration> calibrations_of(const Cluster& cluster);
std::string_view kind_of_constant(std::string_view key);  // below "cluster."; "" for what prices no kind

// Whether the data of the cluster's own fit determined the constant.
bool is_determined(const Cluster& cluster, std::string_view key);

// "GEMM: 17 constants; attention: not measured; ..".
std::string calibration_text(const Cluster& cluster);
// "attention, expert kernels"; "" when every kind has a constant that the fit determined.
std::string unmeasured_kinds(const Cluster& cluster);

// The numbers of a cluster that a what-if can turn, whatever table they live in.
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
