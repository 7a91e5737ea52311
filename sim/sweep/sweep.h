// The best configurations of a space, with proof: the closed form bounds every point, the event engine simulates those
// whose bound leaves them a chance.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "model/answers/sweep_answer.h"
#include "sim/sweep/worker.h"

namespace stepcast {

struct SweepOptions {
    int threads = 0;       // 0: one a core
    std::string out = {};  // folder for what is known so far; "" = none
    bool resume = false;
    bool map = false;      // with points to explore
    std::function<void(std::string_view)> progress = {};
    std::function<void(std::string_view)> announce = {};  // once, before work on a space that takes long
};

// Throws ConfigError before work starts for what cannot be asked (sweep_axes.h, constraints.h), and when nothing is legal
// or feasible, with the reasons. The result does not depend on the number of threads or processes.
SweepAnswer sweep(const SweepQuestion& question, const SweepOptions& options = {});

// Adds an axis cluster.nodes to a question with `within` that varies no number of ranks: from what the useful arithmetic
// needs at the datasheet's peak to sixteen times as many, with four significant bits (8, 9 .. 16, 18 .. 32, 36 ..). Throws
// ConfigError where no training is asked for.
void add_node_counts(SweepQuestion& question);

// What an MPI launcher started in addition to the first process takes part with.
bool is_sweep_helper();
void help_sweep(const SweepQuestion& question);

}  // namespace stepcast
