// The inputs for planning a layer. Sizes are per micro-batch and rank.
#pragma once

#include "model/base/numbers.h"
#include "model/experiment.h"
#include "model/rank_groups.h"
#include "model/routing.h"
#include "model/runtime_rules.h"
#include "model/transformer/counts.h"
#include "model/transformer/plan.h"
#include "model/transformer/rank_shape.h"

namespace stepcast {

struct LayerContext {
    const Experiment& experiment;
    RankShape shape;
    RankGroups groups;
    const Routing& routing;  // for one expert-parallel group; empty = balanced
};

// The planners for a block's backward: twice the same, or two if the schedule splits weight
// gradients off (zero bubble).
struct BackwardPlanners {
    Planner& inputs;
    Planner& weights;
};

}  // namespace stepcast
