// p10 and p90 of a forecast: where the next measured step of this configuration will lie with four chances in five. One
// interval for all verbs; docs/intervals.md says what it is made of and how often it held.
#pragma once

#include <vector>

#include "model/answers/forecast.h"
#include "model/answers/sweep_answer.h"
#include "model/experiment.h"
#include "model/machine/scatter.h"

namespace stepcast {

// All but the readings and the draws.
Doubts doubts_of(const Experiment& experiment, const std::vector<CostBasis>& basis);

// Where the draws reach around their median, into `doubts`.
void reach_of_draws(const std::vector<double>& values, double median, Doubts& doubts);

// The experiment's own readings, and that of a framework that nobody named: it may run pass by pass.
std::vector<Reading> readings_of(const Experiment& experiment);

// About the median: doubts add up as squares, to either side; with several readings the quantiles of their equal mixture.
Interval predictive_interval(Seconds median, Seconds mean, const Doubts& doubts);

// How far two steps spend their time differently: of the shares by kind of work, the Euclidean distance.
double distance(const std::vector<CostBasis>& a, const std::vector<CostBasis>& b);

// To p10 and p90 of the error of one forecast over another's, a logarithm. On one machine in one framework what is wrong is
// mostly common to both; otherwise each is off by itself.
double reach_of_pair(const Forecast& a, const Forecast& b, const PairScatter& pairs);

// The interval over draws, wider by the reach of the pair. What contains zero cannot be told apart.
Behind widened(const Behind& by_draws, double reach);

}  // namespace stepcast
