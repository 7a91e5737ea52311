// The coarse grid of factors that is left when a law is fitted: see sim/costs/corrections.h.
#pragma once

#include <vector>

#include "calibrate/building_blocks.h"
#include "model/cluster.h"

namespace stepcast {

// Per op and rank count of the rows, factors at a few payloads from 512 B to 512 MiB: robust least squares on
// log(measured / predicted), drawn to 1 (one standard deviation 15 %) where rows are few. `cluster` holds the fitted law
// and no corrections.
std::vector<Correction> fit_corrections(const std::vector<CollectiveRow>& rows, const Cluster& cluster);

}  // namespace stepcast
