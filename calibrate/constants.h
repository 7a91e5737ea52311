// What steers the forecasts of a fitted cluster beside the parameters of the fit, counted.
#pragma once

#include <string>
#include <vector>

#include "model/cluster.h"

namespace stepcast {

// Tables (measured GEMMs and curves) with the number of their entries: `from` these files
// where the fit changed them, else what `start` says of them. Then every other cost constant that the fit did not state,
// by table ("host"): priors, or copied from the clusters that this one inherits.
std::vector<FittedConstants> other_constants(const Cluster& cluster, const Cluster& start, const std::string& files);

}  // namespace stepcast
