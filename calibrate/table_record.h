// The record that a fit of tables writes next to its constants.
#pragma once

#include <string>
#include <vector>

#include "calibrate/building_blocks.h"
#include "model/cluster.h"

namespace stepcast {

// The ranges of sizes in the rows. A forecast beyond them is an extrapolation.
std::vector<FittedRange> ranges_of(const BuildingBlocks& blocks);

// `later` on top of `earlier`: parameters, errors and ranges of the same name are replaced, samples
// and sources added up.
Fitted merged(const Fitted& earlier, const Fitted& later);

// Counts the other values that a fitted cluster's forecasts depend on. First tables (measured GEMMs
// and curves) with the number of their entries: from `files` where the fit changed them, else from
// where `start` says. Then every other cost constant that the fit did not state, by table ("host"):
// they are priors, or copied from the cluster that this one inherits.
std::vector<FittedConstants> other_constants(const Cluster& cluster, const Cluster& start,
                                             const std::string& files);

}  // namespace stepcast
