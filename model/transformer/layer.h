// What a layer is planned from. Sizes are per micro-batch and rank.
#pragma once

#include "model/rank_groups.h"
#include "model/routing.h"
#include "model/transformer/plan.h"
#include "model/transformer/rank_shape.h"

namespace stepcast {

struct LayerContext {
    const Experiment& experiment;
    RankShape shape;
    RankGroups groups;
    const Routing& routing;  // of one expert-parallel group; empty = balanced
};

// Where the backward of a block writes: one planner where weight gradients follow at once, two where the schedule
// splits them off (zero bubble).
struct BackwardPlanners {
    Planner& inputs;
    Planner& weights;
};

}  // namespace stepcast
