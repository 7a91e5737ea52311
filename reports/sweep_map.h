// The points of a sweep's map as the page's script reads them.
#pragma once

#include <string>

#include "model/answers/sweep_answer.h"

namespace stepcast {

// One JSON object: keys with their values, points as positions along them with step and peak, the best as found. "" where
// there is no map.
std::string map_json(const SweepAnswer& result);

}  // namespace stepcast
