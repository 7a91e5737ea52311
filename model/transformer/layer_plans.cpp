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
// So do its tensor-parallel exchanges (tensor_parallel.h: of attention and of the feed-forward block), where that is known.
void plan_module(Planner& planner, const LayerContext& c) {
    planner.host("layer", HostWork{HostWork::Kind::layer, 1}, false);
    if (c.experiment.parallelism.tp > 1 && c.experiment.cluster.host.exchange > Seconds(0))
        planner.host("exchanges",
                     HostWork{HostWork::Kind::exchange, c.experiment.parallelism.sequence_parallel ? 4.0 : 2.0}, false);
}

// What a micro-batch costs it besides: the loop around the model, where that is known.
void plan_micro_batch(Planner& planner, const LayerContext& c) {
    if (c.experiment.cluster.host.micro_batch > Seconds(0))
        planner.host("micro_batch", HostWork{HostWork::Kind::micro_batch, 1}, false);
}

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
    if (e.workload.mamba.heads > 0)
        return {plan_hybrid_forward, plan_hybrid_backward, plan_feed_forward, plan_feed_forward_backward};
    return {plan_attention_forward, plan_attention_backward, plan_feed_forward, plan_feed_forward_backward};
}

bool span(const LayerContext& c) { return c.experiment.workload.head == Head::span; }

// What every kind of layer is written with.
struct Maker {
    TaskGraph& graph;
    const LayerContext& c;
    double traffic;
    bool split;
    Blocks blocks;
    template <typename Forward, typename Backward>
    [[nodiscard]] PassPlans make(Forward forward, Backward backward) const {
        return passes(graph, traffic, split, forward, backward);
    }
};

PassPlans dense_plans(const Maker& m) {
    const LayerContext& c = m.c;
    PassPlans plans = m.make(
        [&](Planner& p) {
            plan_module(p, c);
            m.blocks.attention(p, c);
            m.blocks.feed_forward(p, c);
        },
        [&](BackwardPlanners b) {
            plan_module(b.inputs, c);
            m.blocks.feed_forward_backward(b, c);
            m.blocks.attention_backward(b, c);
        });
    Planner again(m.graph, m.traffic);
    plan_module(again, c);
    m.blocks.attention(again, c);
    c.experiment.parallelism.unfused ? m.blocks.feed_forward(again, c) : plan_feed_forward_again(again, c);
    plans.recompute = again.take();
    return plans;
}

PassPlans expert_plans(const Maker& m) {
    const LayerContext& c = m.c;
    PassPlans plans = m.make(
        [&](Planner& p) {
            plan_module(p, c);
            m.blocks.attention(p, c);
            plan_experts_forward(p, c);
        },
        [&](BackwardPlanners b) {
            plan_module(b.inputs, c);
            plan_experts_backward(b, c);
            m.blocks.attention_backward(b, c);
        });
    plans.recompute = plans.forward;
    return plans;
}

PassPlans plans_before_system(const Maker& m) {
    const LayerContext& c = m.c;
    return m.make(
        [&](Planner& p) {
            plan_module(p, c);
            m.blocks.attention(p, c);
            plan_before_experts(p, c);
        },
        [&](BackwardPlanners b) {
            plan_before_experts_backward(b, c);
            m.blocks.attention_backward(b, c);
        });
}

PassPlans plans_after_system(const Maker& m) {
    return m.make([&](Planner& p) { plan_after_experts(p, m.c); },
                  [&](BackwardPlanners b) {
                      plan_module(b.inputs, m.c);
                      plan_after_experts_backward(b, m.c);
                  });
}

// A layer that a cut between its modules divides.
void add_cut_plans(LayerPlans& plans, const Maker& m) {
    const LayerContext& c = m.c;
    plans.opened = m.make(
        [&](Planner& p) {
            plan_module(p, c);
            plan_attention_forward(p, c);
            plan_feed_forward_start(p, c);
        },
        [&](BackwardPlanners b) {
            plan_module(b.inputs, c);
            plan_feed_forward_start_backward(b, c);
            plan_attention_backward(b, c);
        });
    plans.rest = m.make([&](Planner& p) { plan_feed_forward_rest(p, c); },
                        [&](BackwardPlanners b) { plan_feed_forward_rest_backward(b, c); });
}

}  // namespace

LayerPlans layer_plans(TaskGraph& graph, const LayerContext& c) {
    const Parallelism& parallelism = c.experiment.parallelism;
    const Schedule schedule = parallelism.schedule;
    const bool split = schedule == Schedule::zb_h1 || schedule == Schedule::zb_v || schedule == Schedule::dualpipe;
    const Maker m{graph, c, parallelism.eager ? parallelism.eager_traffic : 1.0, split, blocks_of(c.experiment)};
    LayerPlans plans;
    plans.dense = dense_plans(m);
    if (c.experiment.workload.moe.experts > 0) {
        const bool system = parallelism.moe_system != MoeSystem::alltoall;
        plans.experts = system ? plans_before_system(m) : expert_plans(m);
        if (system) plans.after_experts = plans_after_system(m);
    }
    if (parallelism.cut == StageCut::modules) add_cut_plans(plans, m);
    plans.embedding = m.make(
        [&](Planner& p) {
            plan_micro_batch(p, c);
            plan_embedding_forward(p, c);
        },
        [&](BackwardPlanners b) {
            plan_micro_batch(b.inputs, c);
            plan_embedding_backward(b, c);
        });
    plans.head = m.make([&](Planner& p) { span(c) ? plan_span_forward(p, c) : plan_head_forward(p, c); },
                        [&](BackwardPlanners b) { span(c) ? plan_span_backward(b, c) : plan_head_backward(b, c); });
    return plans;
}

}  // namespace stepcast
