// sweep --json.
#pragma once

#include <string>

#include "reports/json.h"
#include "sim/results/sweep_answer.h"

namespace stepcast {

// The best configurations, the varied keys, counts, reasons and the proof.
std::string to_json(const SweepAnswer& result);

// The data of a sweep's map for page/map.js, one JSON object: the keys with their values, the
// limits of memory, and the points. A point has its index along each key, then step, peak memory,
// ranks, tokens/s, and whether it was simulated. "" if there is no map.
std::string map_json(const SweepAnswer& result);

}  // namespace stepcast
