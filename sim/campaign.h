// From one step to a whole training: failures, money, energy.
#pragma once

#include "model/experiment.h"
#include "sim/results/campaign.h"
#include "sim/results/forecast.h"

namespace stepcast {

// Failures of the `ranks` ranks are independent.
Goodput goodput(const Failures& failures, int ranks);

// An upper bound on the energy of all ranks over a step. A GPU draws its board limit while the rank
// of the breakdown computes, moves memory or communicates, and less while it waits. The rest of the
// node draws power all the time. Kernels rarely reach the board limit.
Joules step_energy(const Offer& offer, int ranks, const Forecast& forecast);

// The offer whose GPU has the name or an alias of the cluster's GPU. cluster.price_per_gpu_hour
// overrides its price, and cluster.power stands in where no offer states a power.
Offer offer_for(const Market& market, const Cluster& cluster);

Campaign campaign_of(const Training& training, const Experiment& experiment,
                     const Forecast& forecast);

}  // namespace stepcast
