// p10 and p90 of a forecast: the next measured step of this configuration lies between them with a
// probability of 80 %. All verbs use this interval. docs/model.md says what it is made of and
// how often it held.
#pragma once

#include <utility>
#include <vector>

#include "model/experiment.h"
#include "sim/results/forecast.h"
#include "sim/results/sweep_answer.h"
#include "sim/scatter.h"

namespace stepcast {

// The doubts without other readings and without the spread of the draws, which are added
// separately.
Doubts doubts_of(const Experiment& experiment, const std::vector<CostBasis>& basis);

// What hosts' costs that no fit determined may be off, as a logarithm of the step: their share of
// it times their error.
double error_of_hosts(const Experiment& experiment, const std::vector<CostBasis>& basis);
// The cluster with hosts that cost what is the p10 of such costs.
Cluster with_fast_hosts(Cluster cluster);
// Doubts::hidden: how much of that error is not seen in the step with fast hosts. A step is convex
// in the costs of its hosts, so that their share of it says the most that it can become shorter by.
double hidden_of_hosts(double error, Seconds step, Seconds with_fast_hosts);

// From the median to p10 and to p90, as logarithms: what the constants alone make of both.
std::pair<double, double> reach_of_constants(const Doubts& doubts);

// Stores in `doubts` how far the p10 and p90 of the draws lie from their median.
void reach_of_draws(const std::vector<double>& values, double median, Doubts& doubts);

// The experiment's own alternative readings, and for a transformer one for each framework that its
// own may be (framework.may_be).
std::vector<Reading> readings_of(const Experiment& experiment);

// From the median to p90, or to p10, as a logarithm. Doubts add up as squares, separately below and
// above the median. With several readings: quantiles of their equal mixture.
double reach_of_interval(const Doubts& doubts, bool slower);
Interval predictive_interval(Seconds median, Seconds mean, const Doubts& doubts);

// How differently two steps spend their time: the Euclidean distance of their shares by kind of
// work.
double distance(const std::vector<CostBasis>& a, const std::vector<CostBasis>& b);

// The distance from the median to p10 and p90 of log(a / b), the ratio of two forecasts. With the
// same machine and framework most of the error is common to both and cancels; otherwise the errors
// of the two are independent.
double reach_of_pair(const Forecast& a, const Forecast& b, const PairScatter& pairs);

// The interval over the draws, widened by the reach of the pair. If it contains zero, the two
// cannot be told apart.
Behind widened(const Behind& by_draws, double reach);

}  // namespace stepcast
