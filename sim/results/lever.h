// One switch, one size of the split or one rate of the machine, changed alone.
#pragma once

#include <string>
#include <vector>

#include "model/base/units.h"
#include "model/framework.h"
#include "sim/results/sweep_answer.h"

namespace stepcast {

struct Lever {
    std::vector<Override> set;  // as --set has them; sizes of the split with the replicas left
    std::string from;           // the first key's value before
    std::string hardware;       // "NICs, twice the rate"; empty: a switch or a size of the split
    Interval step;
    Behind against;  // the step as it is; negative: faster
    Bytes memory;
    bool fits = true;
    std::string cannot;  // why the framework does not run it; empty: it does
    // what changes in the framework's script: "drop --recompute-granularity selective"
    std::string flag;
    friend bool operator==(const Lever&, const Lever&) = default;
};

}  // namespace stepcast
