// The plans of every kind of layer in a step, each written once.
#pragma once

#include "model/transformer/layer.h"

namespace stepcast {

struct PassPlans {
    Plan forward, backward;  // backward: gradients of inputs and weights together
    Plan input_backward, weight_backward;
    Plan recompute;  // what is recomputed before the backward
};

struct LayerPlans {
    PassPlans dense, experts, embedding, head;
    // layers with a gated delta net in place of attention
    PassPlans delta_dense, delta_experts;
    // the rest of a layer whose experts a MoE system writes after `experts`
    PassPlans after_experts;
    // the two parts of a dense layer that is cut before its down projection
    PassPlans opened, rest;

    [[nodiscard]] const PassPlans& of_layer(const Workload& workload, int layer) const;
};

LayerPlans layer_plans(TaskGraph& graph, const LayerContext& context);

}  // namespace stepcast
