// Single kernels and collectives of published tables beside what the laws predict for them: plain
// values that reports print.
#pragma once

#include <string>
#include <vector>

#include "model/cluster.h"

namespace stepcast {

struct KernelComparison {
    std::string kind;     // "gemm", "attention", "all_reduce", ..
    std::string device;   // as the table names it
    std::string cluster;  // that predicted it
    std::string dtype;    // "" where the row has none
    std::string name;     // the shape
    std::string kernel;   // attention and expert layers: the kernel's name in the table
    // the kernel whose constants priced it, where the cluster has none under its name
    std::string stand_in;
    Flops work;                // 0 of collectives and passes
    Bytes bytes;               // operands read and written; payload of a collective
    FlopsPerSecond peak;       // of the device in this dtype
    BytesPerSecond bandwidth;  // of its memory
    int ranks = 0;             // of collectives
    // bytes over the slowest link per byte of payload, as nccl-tests counts bus bandwidth
    double bus_factor = 0;
    Seconds measured, predicted, p10, p90;  // p10 = p90 where the kind has no held-out error
    Evidence evidence = Evidence::unseen;
    friend bool operator==(const KernelComparison&, const KernelComparison&) = default;
};

// A reason why rows have no forecast, and how many rows have it.
struct KernelRefusal {
    std::string device, reason;
    int rows = 0;
    friend bool operator==(const KernelRefusal&, const KernelRefusal&) = default;
};

struct KernelComparisons {
    std::vector<KernelComparison> rows;
    std::vector<KernelRefusal> refused;
};

inline void add(KernelComparisons& all, const KernelComparisons& more) {
    all.rows.insert(all.rows.end(), more.rows.begin(), more.rows.end());
    all.refused.insert(all.refused.end(), more.refused.begin(), more.refused.end());
}

inline double relative_error(const KernelComparison& k) { return k.predicted / k.measured - 1; }

}  // namespace stepcast
