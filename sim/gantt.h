// The data of a Gantt chart of one step.
#pragma once

#include "model/experiment.h"
#include "sim/engine/simulate.h"
#include "sim/predict.h"
#include "sim/results/gantt.h"

namespace stepcast {

// For one draw's routing, its graph and timeline. Shows all ranks if they are few; else the first,
// the median and the slowest.
Gantt gantt_of(const Experiment& experiment, const Routing& routing, const TaskGraph& graph,
               const Timeline& timeline);
// For the step that the forecast prints, which is that of the median draw.
Gantt gantt_of(const Experiment& experiment, const Prediction& prediction);

}  // namespace stepcast
