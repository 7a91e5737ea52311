// The plans of every kind of layer in a step, written once.
#pragma once

#include "model/transformer/layer.h"

namespace stepcast {

struct PassPlans {
    Plan forward, backward;  // backward: inputs and weights
    Plan input_backward, weight_backward;
    Plan recompute;  // what backward runs again first
};

struct LayerPlans {
    PassPlans dense, experts, embedding, head;
    PassPlans after_experts;  // of a layer whose experts a MoE system writes between `experts` and this
    PassPlans opened, rest;  // of a dense layer that is cut before its down projection
};

LayerPlans layer_plans(TaskGraph& graph, const LayerContext& context);

}  // namespace stepcast
