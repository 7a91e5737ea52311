// How well the laws of a cluster predict a table of kernels, layers or collectives.
#pragma once

#include <string>

namespace stepcast {

// Rows of one kind, device and dtype; errors over the `predicted` ones, (predicted - measured) / measured. inside_interval: share
// within the p10..p90 that the cluster file's held-out error of the kind makes, log-normal about the prediction.
struct KernelErrors {
    std::string kind, device, dtype, cluster;
    int rows = 0, predicted = 0;
    double mape = 0, median_ape = 0, bias = 0, inside_interval = 0;
    friend bool operator==(const KernelErrors&, const KernelErrors&) = default;
};

}  // namespace stepcast
