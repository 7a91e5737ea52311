// What a static picture of a step shows.
#pragma once

#include "model/answers/gantt.h"
#include "model/experiment.h"
#include "sim/engine/simulate.h"
#include "sim/predict.h"

namespace stepcast {

// Of the graph of a draw's routing and its timeline. All ranks of the graph where they are few, else the first, the one of
// median busy time and the slowest.
Gantt gantt_of(const Experiment& experiment, const Routing& routing, const TaskGraph& graph, const Timeline& timeline);
// Of the step that was printed: the median draw's.
Gantt gantt_of(const Experiment& experiment, const Prediction& prediction);

}  // namespace stepcast
