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

// Always these eight kinds: "GEMM", "attention", "memory-bound kernels", "expert kernels",
// "collectives inside a node", "collectives between nodes", "host" and "steps" (rates that only
// whole steps show).
std::vector<KindCalibration> calibrations_of(const Cluster& cluster);
// key below "cluster."; "" if it prices no kind
std::string_view kind_of_constant(std::string_view key);

// True if the data of the cluster's own fit determined the constant.
bool is_determined(const Cluster& cluster, std::string_view key);

// For example "GEMM: 17 constants; attention: not measured; ..".
std::string calibration_text(const Cluster& cluster);
// For example "attention, expert kernels"; "" if the fit determined a constant of every kind.
std::string unmeasured_kinds(const Cluster& cluster);

}  // namespace stepcast
