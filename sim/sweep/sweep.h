// Finds the best configurations of a space, with proof: closed forms bound every point, and the
// event engine simulates what they leave.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "sim/results/sweep_answer.h"
#include "sim/sweep/worker.h"

namespace stepcast {

struct SweepOptions {
    int threads = 0;       // 0: one for each core
    std::string out = {};  // folder for results so far; "": none
    bool map = false;      // also returns the points of the interactive map
    std::function<void(std::string_view)> progress = {};
    // called once, before work on a space that takes long
    std::function<void(std::string_view)> announce = {};
};

// Throws ConfigError before work starts for an invalid question (axes.h, constraints.h), and when
// nothing is legal or feasible, with the reasons. The result does not depend on the number of
// threads or processes.
SweepAnswer sweep(const SweepQuestion& question, const SweepOptions& options = {});

// For the processes that an MPI launcher started beside the first one.
bool is_sweep_helper();
void help_sweep(const SweepQuestion& question);

}  // namespace stepcast
