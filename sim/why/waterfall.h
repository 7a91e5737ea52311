// What each difference between two experiments costs (`compare A B --waterfall`).
//
// The cost of a key is its Shapley value: the mean, over all orders in which the keys can be
// changed from A's to B's, of what changing it adds to the simulated step. So interactions are
// shared out evenly, no order is preferred, and the costs add up to the difference of the two
// forecasts. n keys take 2^n simulations; beyond bars_of(), keys of one table are changed together.
// Source: L. Shapley, A value for n-person games, Contributions to the Theory of Games 2 (1953).
#pragma once

#include "model/experiment.h"
#include "sim/results/waterfall.h"

namespace stepcast {

inline constexpr std::size_t most_bars = 12;
// How many keys are told apart where a step has so many tasks: fewer where all their sets together
// would take minutes.
std::size_t bars_of(std::size_t tasks);

struct WaterfallSide {
    std::string name;
    Experiment experiment;
    Seconds measured;  // 0 = not known
};

// The keys in which the two differ, but for names, sources and what only an execution reads.
std::vector<KeyChange> changes_between(const Experiment& from, const Experiment& to);

// Throws ConfigError if the two are of different kinds of workload, or one of them has no forecast.
Waterfall waterfall(const WaterfallSide& from, const WaterfallSide& to, int threads = 0);

// The Shapley values of a game of n players with value(set) for every set of players, a bit each.
// Throws std::logic_error for more than 20 players.
std::vector<double> shapley_values(std::size_t players, const std::vector<double>& value_of_set);

}  // namespace stepcast
