#include "model/transformer/layer_plans.h"

#include "model/transformer/moe_system.h"
#include "model/transformer/operations.h"

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

// Blocks as training libraries fuse them, or operation by operation.
struct Blocks {
    void (*attention)(Planner&, const LayerContext&);
    void (*attention_backward)(BackwardPlanners, const LayerContext&);
    void (*feed_forward)(Planner&, const LayerContext&);
    void (*feed_forward_backward)(BackwardPlanners, const LayerContext&);
};
Blocks blocks_of(const Experiment& e) {
    if (e.workload.positions == Positions::relative)
        return {plan_relative_attention_forward, plan_relative_attention_backward, plan_unfused_feed_forward,
                plan_unfused_feed_forward_backward};
    if (e.parallelism.unfused)
        return {plan_unfused_attention_forward, plan_unfused_attention_backward, plan_unfused_feed_forward,
                plan_unfused_feed_forward_backward};
    return {plan_attention_forward, plan_attention_backward, plan_feed_forward, plan_feed_forward_backward};
}

bool span(const LayerContext& c) { return c.experiment.workload.head == Head::span; }

}  // namespace

LayerPlans layer_plans(TaskGraph& graph, const LayerContext& c) {
    const Schedule schedule = c.experiment.parallelism.schedule;
    const bool split = schedule == Schedule::zb_h1 || schedule == Schedule::zb_v || schedule == Schedule::dualpipe;
    const double traffic = c.experiment.parallelism.eager ? 2 : 1;
    const Blocks blocks = blocks_of(c.experiment);
    LayerPlans plans;
    plans.dense = passes(
        graph, traffic, split,
        [&](Planner& p) {
            plan_module(p);
            blocks.attention(p, c);
            blocks.feed_forward(p, c);
        },
        [&](BackwardPlanners b) {
            plan_module(b.inputs);
            blocks.feed_forward_backward(b, c);
            blocks.attention_backward(b, c);
        });
    Planner again(graph, traffic);
    plan_module(again);
    plan_attention_forward(again, c);
    plan_feed_forward_again(again, c);
    plans.dense.recompute = again.take();
    const bool system = c.experiment.parallelism.moe_system != MoeSystem::alltoall;
    if (c.experiment.workload.moe.experts > 0 && system) {
        plans.experts = passes(
            graph, traffic, split,
            [&](Planner& p) {
                plan_module(p);
                blocks.attention(p, c);
                plan_before_experts(p, c);
            },
            [&](BackwardPlanners b) {
                plan_before_experts_backward(b, c);
                blocks.attention_backward(b, c);
            });
        plans.after_experts = passes(
            graph, traffic, split, [&](Planner& p) { plan_after_experts(p, c); },
            [&](BackwardPlanners b) {
                plan_module(b.inputs);
                plan_after_experts_backward(b, c);
            });
    } else if (c.experiment.workload.moe.experts > 0) {
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
        graph, traffic, split, [&](Planner& p) { span(c) ? plan_span_forward(p, c) : plan_head_forward(p, c); },
        [&](BackwardPlanners b) { span(c) ? plan_span_backward(b, c) : plan_head_backward(b, c); });
    return plans;
}

}  // namespace stepcast
