// From one step to a whole training: failures, money, energy.
#pragma once

#include "model/answers/campaign.h"
#include "model/answers/forecast.h"
#include "model/experiment.h"

namespace stepcast {

// Of so many ranks that fail independently.
Goodput goodput(const Failures& failures, int ranks);

// What all ranks draw over a step, at most: the board limit while the rank that the breakdown is about computes, moves
// memory or collectives, less while it waits, and the rest of the node all the time. A bound: kernels rarely reach the limit.
Joules step_energy(const Offer& offer, int ranks, const Forecast& forecast);

// The offer for the experiment's device, found by its name or aliases; cluster.price_per_gpu_hour wins over its price. Power that no
// offer states is that of cluster.power.
Offer offer_for(const Market& market, const Cluster& cluster);

Campaign campaign_of(const Training& training, const Experiment& experiment, const Forecast& forecast);

}  // namespace stepcast
