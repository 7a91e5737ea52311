// Prices operations on one cluster; keeps the times of matrix products and the paths of groups.
#pragma once

#include <map>

#include "sim/costs/costs.h"

namespace stepcast {

class OpPrices {
public:
    explicit OpPrices(const Cluster& cluster) : cluster_(cluster), paths_(cluster) {}
    Seconds local(const Op& op, Phase phase);
    Seconds collective(const Op& op, const Group& group);  // 0 for a group of one
    [[nodiscard]] const RingPath& path(const Group& group) { return paths_.of(group); }
    [[nodiscard]] const Cluster& cluster() const { return cluster_; }

private:
    const Cluster& cluster_;
    RingPaths paths_;
    std::map<Gemm, Seconds> gemms_;
};

}  // namespace stepcast
