// Notes about a pipeline with blocking messages: which rank limits it, what messages cost, and what
// a step time cannot determine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/experiment.h"
#include "sim/engine/simulate.h"
#include "sim/results/forecast.h"

namespace stepcast {

// The busiest rank of a pipeline, for which the others wait. Without a pipeline: the rank that ends
// last.
int limiting_rank(const TaskGraph& graph, const Timeline& timeline);

// Where the fullest stage works so much beyond the mean that it costs a tenth of the step or more;
// without a layout that helps.
std::optional<UnequalStages> unequal_stages(const TaskGraph& graph, const Timeline& timeline);

// One line for each finding, from simulating the step again with one thing changed. Empty without
// runtime.pipeline.blocking.
std::vector<std::string> pipeline_notes(const Experiment& experiment, const TaskGraph& graph,
                                        const Timeline& timeline);

}  // namespace stepcast
