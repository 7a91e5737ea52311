// Collectives as nccl-tests measured them over the forecast's, for `stepcast diagnose`.
#pragma once

#include <string>
#include <vector>

#include "sim/why/diagnose.h"

namespace stepcast {

// Of the output of nccl-tests between all ranks of the cluster: medians over messages of more than
// 64 MB, as what small ones take is latency. Throws ConfigError if it has none.
std::vector<MeasuredLink> measured_links(const std::string& path, const Cluster& cluster);

// Of one figure as nccl-tests prints it: of an all-reduce of 1 GiB between all ranks.
std::vector<MeasuredLink> measured_links(BytesPerSecond bus, const Cluster& cluster);

}  // namespace stepcast
