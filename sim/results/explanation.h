// Why a step takes as long as it does, and what would change it: plain values that explain() fills
// and reports print.
#pragma once

#include <string>
#include <vector>

#include "model/base/names.h"
#include "model/base/units.h"

namespace stepcast {

// The highest network level that a collective crosses: links inside a node, a leaf switch, the
// spine.
NAMED_ENUM(LinkLevel, "a level of the network", none, node, leaf, spine);

// Time that one kind of work takes on the critical path. `kind` is an op's kind_name(), or "issue"
// for hosts issuing kernels.
struct PathShare {
    std::string kind;
    LinkLevel link = LinkLevel::none;
    bool on_host = false;
    Seconds time;
    std::size_t tasks = 0;
    friend bool operator==(const PathShare&, const PathShare&) = default;
};

// When one rank computes nothing. `busy` and the four causes of idle time add up to the step.
struct IdleTime {
    int rank = 0;        // one of the simulated ranks
    int stands_for = 1;  // number of ranks that it stands for
    Seconds busy;        // kernels and memory passes
    Seconds bubble;      // waiting for another stage, or finished before the others
    Seconds straggler;   // waiting for a slower rank of a collective
    Seconds exposed_communication;
    Seconds host;
    friend bool operator==(const IdleTime&, const IdleTime&) = default;
};

// Effect on the step of raising a parameter by the share `change`; a negative time is a gain.
struct Elasticity {
    std::string key;     // below "cluster."
    std::string value;   // with unit
    Seconds simulated;   // from simulating the step again
    Seconds along_path;  // from the tasks of the critical path alone
    friend bool operator==(const Elasticity&, const Elasticity&) = default;
};

// An inexactly known parameter, and how far the step moves when it changes by one standard
// deviation.
struct Uncertainty {
    NAMED_ENUM_IN(Source, "a source", fitted, prior, assumed);
    std::string key, value;
    Source source = Source::fitted;
    double relative_error = 0;  // one standard deviation of its logarithm
    Seconds widening;
    double share = 0;  // of the step's variance from all parameters
    friend bool operator==(const Uncertainty&, const Uncertainty&) = default;
};

struct Explanation {
    Seconds step;                 // of the first draw, without noise
    std::vector<PathShare> path;  // longest first; adds up to the step
    IdleTime slowest, median;
    double change = 0.1;
    std::vector<Elasticity> elasticities;     // strongest first
    std::vector<std::string> without_effect;  // parameters that the step does not depend on
    std::vector<Uncertainty> uncertainties;   // widest first
    Seconds uncertainty;  // standard deviation of the step from all of them, assumed independent
    friend bool operator==(const Explanation&, const Explanation&) = default;
};

}  // namespace stepcast
