// What of a cluster's cost constants was determined on its own device, kind by kind.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/cluster.h"

namespace stepcast {

struct KindCalibration {
    std::string kind;
    int determined = 0, kept_priors = 0;  // parameters of [fitted]
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

}  // namespace stepcast
