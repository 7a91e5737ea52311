// A point that may be among the wanted ones.
#pragma once

#include "sim/sweep/space.h"

namespace stepcast {

struct Candidate {
    PointId id;
    Seconds lower, estimate;
    Bytes peak;
    double tokens = 0, price = 0;  // of a step; of all ranks, a second
    int ranks = 0;
    friend bool operator==(const Candidate&, const Candidate&) = default;
};

}  // namespace stepcast
