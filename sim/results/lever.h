// One switch or one size of the split changed alone.
#pragma once

#include <string>
#include <vector>

#include "model/base/units.h"
#include "model/framework.h"
#include "sim/results/forecast.h"

namespace stepcast {

struct Lever {
    std::vector<Override> set;  // as --set has them; sizes of the split with the replicas left
    std::string from;           // the first key's value before
    Interval step;
    Bytes memory;
    bool fits = true;
    std::string cannot;  // why the framework does not run it; empty: it does
    friend bool operator==(const Lever&, const Lever&) = default;
};

}  // namespace stepcast
