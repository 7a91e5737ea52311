#include "model/transformer/layer_plans.h"

namespace stepcast {
namespace {

// `forward` and `backward` write a block; the rest of the passes follow from them.
template <typename Forward, typename Backward>
PassPlans passes(TaskGraph& graph, double traffic, bool split, Forward forward, Backward backward) {
    PassPlans plans;
    Planner ahead(graph, traffic);
    forward(ahead);
    plans.forward = ahead.take();
    Planner both(graph, traffic);
    backward(BackwardPlanners{both, both});
    plans.backward = both.take();
    if (!split) return plans;
    Planner inputs(graph, traffic), weights(graph, traffic);
    backward(BackwardPlanners{inputs, weights});
    plans.input_backward = inputs.take();
    plans.weight_backward = weights.take();
    return plans;
}

// What a layer costs the host beside its launches: the modules' own code.
void plan_module(Planner& planner) { planner.host("layer", HostWork{HostWork::Kind::layer, 1}, false); }

}  // namespace

LayerPlans layer_plans(TaskGraph& graph, const LayerContext& c) {
    const Schedule schedule = c.experiment.parallelism.schedule;
    const bool split = schedule == Schedule::zb_h1 || schedule == Schedule::zb_v || schedule == Schedule::dualpipe;
    const double traffic = c.experiment.parallelism.eager ? 2 : 1;
    LayerPlans plans;
    plans.dense = passes(
        graph, traffic, split,
        [&](Planner& p) {
            plan_module(p);
            plan_attention_forward(p, c);
            plan_feed_forward(p, c);
        },
        [&](BackwardPlanners b) {
            plan_module(b.inputs);
            plan_feed_forward_backward(b, c);
            plan_attention_backward(b, c);
        });
    Planner again(graph, traffic);
    plan_module(again);
    plan_attention_forward(again, c);
    plan_feed_forward_again(again, c);
    plans.dense.recompute = again.take();
    if (c.experiment.workload.moe.experts > 0) {
        plans.experts = passes(
            graph, traffic, split,
            [&](Planner& p) {
                plan_module(p);
                plan_attention_forward(p, c);
                plan_experts_forward(p, c);
            },
            [&](BackwardPlanners b) {
                plan_module(b.inputs);
                plan_experts_backward(b, c);
                plan_attention_backward(b, c);
            });
        plans.experts.recompute = plans.experts.forward;
    }
    if (c.experiment.parallelism.cut == StageCut::modules) {
        plans.opened = passes(
            graph, traffic, split,
            [&](Planner& p) {
                plan_module(p);
                plan_attention_forward(p, c);
                plan_feed_forward_start(p, c);
            },
            [&](BackwardPlanners b) {
                plan_module(b.inputs);
                plan_feed_forward_start_backward(b, c);
                plan_attention_backward(b, c);
            });
        plans.rest = passes(
            graph, traffic, split, [&](Planner& p) { plan_feed_forward_rest(p, c); },
            [&](BackwardPlanners b) { plan_feed_forward_rest_backward(b, c); });
    }
    plans.embedding = passes(
        graph, traffic, split, [&](Planner& p) { plan_embedding_forward(p, c); },
        [&](BackwardPlanners b) { plan_embedding_backward(b, c); });
    plans.head = passes(
        graph, traffic, split, [&](Planner& p) { plan_head_forward(p, c); },
        [&](BackwardPlanners b) { plan_head_backward(b, c); });
    return plans;
}

}  // namespace stepcast
