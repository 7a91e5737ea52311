// Why a step takes as long as it does, and what would change it: plain values that explain() fills and reports print.
#pragma once

#include <string>
#include <vector>

#include "model/names.h"
#include "model/units.h"

namespace stepcast {

// The highest level of the network that a collective crosses: links of one node, one leaf switch, the spine.
NAMED_ENUM(LinkLevel, "a level of the network", none, node, leaf, spine);

// Time on the critical path of one kind of work. `kind` is an op's kind_name(), or "issue" for hosts issuing kernels.
struct PathShare {
    std::string kind;
    LinkLevel link = LinkLevel::none;
    bool on_host = false;
    Seconds time;
    std::size_t tasks = 0;
    friend bool operator==(const PathShare&, const PathShare&) = default;
};

// Where one rank computes nothing. Busy and the four causes add up to the step.
struct IdleTime {
    int rank = 0;        // of the simulated ones
    int stands_for = 1;  // ranks
    Seconds busy;        // kernels and memory passes
    Seconds bubble;      // waiting for what comes from another stage, or done before the others
    Seconds straggler;   // waiting for a slower rank of a collective
    Seconds exposed_communication;
    Seconds host;
    friend bool operator==(const IdleTime&, const IdleTime&) = default;
};

// What `change` more of a parameter does to the step: negative is a gain.
struct Elasticity {
    std::string key;     // below "cluster."
    std::string value;   // with unit
    Seconds simulated;   // by simulating the step again
    Seconds along_path;  // by the tasks of the critical path alone
    friend bool operator==(const Elasticity&, const Elasticity&) = default;
};

// A parameter that is not known exactly, and by how much the step moves with one standard deviation of it.
struct Uncertainty {
    NAMED_ENUM_IN(Source, "a source", fitted, prior, assumed);
    std::string key, value;
    Source source = Source::fitted;
    double relative_error = 0;  // one standard deviation of its logarithm
    Seconds widening;
    double share = 0;  // of the variance of the step from all parameters
    friend bool operator==(const Uncertainty&, const Uncertainty&) = default;
};

struct Explanation {
    Seconds step;                 // of the first draw without noise
    std::vector<PathShare> path;  // longest first; adds up to the step
    IdleTime slowest, median;
    double change = 0.1;
    std::vector<Elasticity> elasticities;     // strongest first
    std::vector<std::string> without_effect;  // parameters that the step does not depend on
    std::vector<Uncertainty> uncertainties;   // widest first
    Seconds uncertainty;  // of the step from all of them, taken as independent: one standard deviation
    friend bool operator==(const Explanation&, const Explanation&) = default;
};

}  // namespace stepcast
