#include "model/transformer/layer_plans.h"

#include "model/base/lists.h"
#include "model/block/blocks.h"
#include "model/block/kernels.h"

namespace stepcast {
namespace {

// Modules of PyTorch: one for each product, norm and activation. A product with adapters beside it
// is five that are called: PEFT's own, the one it wraps, the dropout and both adapters
// (peft/tuners/lora/layer.py, Linear.forward).
double modules_in(const Block& block) {
    double modules = 0;
    for (const Operator& op : block) {
        if (const auto* norm = std::get_if<Normalize>(&op)) modules += norm->kernels;
        if (const auto* product = std::get_if<Linear>(&op))
            modules += product->adapter_rank > 0 ? 5 : 1;
        modules += std::holds_alternative<Activate>(op) ? 1 : 0;
    }
    return modules;
}

// Frameworks with hooks on every module fetch and release its weights there (DeepSpeed,
// runtime/zero/parameter_offload.py), modules without weights and such that hold others included: a
// layer, its attention and its feed-forward block; the model, with and without its head, and rotary
// positions.
void plan_hooks(Planner& planner, const LayerContext& c, double holders,
                std::initializer_list<Block> blocks) {
    if (c.experiment.parallelism.zero != 3 || !c.experiment.runtime.module_hooks) return;
    double modules = holders;
    for (const Block& block : blocks) modules += modules_in(block);
    planner.host("hooks", HostWork{HostWork::Kind::module, modules}, false);
}
void plan_head(Planner& planner, const LayerContext& c) {
    plan_hooks(planner, c, 0, {head_block(c.experiment.workload, c.shape)});
}

// Host time of a layer on top of its launches: the Python code of its modules. Where launches
// block, it starts after the kernels before it have ended, but it does not delay sends between
// stages. Tensor-parallel collectives cost the host too (split_linear.h: of attention and
// feed-forward), if that cost is known. Latent attention has projections down to and up from the
// keys' latent, and the queries', in place of one projection for all three (Megatron-Core's
// multi_latent_attention.py): two more modules without a latent of the queries, three with.
template <bool attends>
void plan_module(Planner& planner, const LayerContext& c) {
    const Workload& w = c.experiment.workload;
    plan_hooks(planner, c, 3, {mixing_block(w, c.shape, attends), feed_forward_block(w, c.shape)});
    planner.host("layer", HostWork{HostWork::Kind::layer, 1}, c.experiment.runtime.blocking_layers);
    if (c.experiment.parallelism.tp > 1 && c.experiment.cluster.host.exchange > Seconds(0))
        planner.host("exchanges",
                     HostWork{HostWork::Kind::exchange,
                              c.experiment.parallelism.sequence_parallel ? 4.0 : 2.0},
                     false);
    if (attends && is_latent(w))
        planner.host("latent_modules",
                     HostWork{HostWork::Kind::module, w.mla.q_rank > 0 ? 3.0 : 2.0}, false);
}

// Further host time per micro-batch, if known: the loop around the model.
void plan_micro_batch(Planner& planner, const LayerContext& c) {
    plan_hooks(planner, c, 4, {});  // with the embedding
    if (c.experiment.cluster.host.micro_batch > Seconds(0))
        planner.host("micro_batch", HostWork{HostWork::Kind::micro_batch, 1}, false);
}

// Blocks of a unit with the same kernel style. Experts, and what surrounds the layers, have their
// own style.
struct Part {
    std::span<const Operator> operators;
    KernelStyle style;
};

// Host work before a unit's kernels.
using Host = void (*)(Planner&, const LayerContext&);
void nothing(Planner&, const LayerContext&) {}

struct Maker {
    TaskGraph& graph;
    const LayerContext& c;
    double traffic;
    bool split;

    [[nodiscard]] PassPlans make(std::span<const Part> parts, Host before_forward,
                                 Host before_backward) const {
        PassPlans plans;
        plans.forward = forward(parts, before_forward);
        Planner both(graph, traffic);
        backward({both, both}, parts, before_backward);
        plans.backward = both.take();
        if (!split) return plans;
        Planner inputs(graph, traffic), weights(graph, traffic);
        backward({inputs, weights}, parts, before_backward);
        plans.input_backward = inputs.take();
        plans.weight_backward = weights.take();
        return plans;
    }
    [[nodiscard]] Plan forward(std::span<const Part> parts, Host before) const {
        Planner planner(graph, traffic);
        before(planner, c);
        for (const Part& part : parts)
            plan_block({&planner, nullptr}, c, part.operators, part.style);
        return planner.take();
    }

private:
    void backward(const BackwardPlanners& b, std::span<const Part> parts, Host before) const {
        before(b.inputs, c);
        for (std::size_t i = parts.size(); i-- > 0;) {
            run_again(b.inputs, parts[i]);
            plan_block({nullptr, &b}, c, parts[i].operators, parts[i].style);
        }
    }
    void run_again(Planner& planner, const Part& part) const {
        const std::vector<bool> runs = selective_runs(part.operators, c.experiment);
        Block again;
        for (const std::size_t i : indices_of(runs))
            if (runs[i]) again.push_back(part.operators[i]);
        if (!again.empty()) plan_block({&planner, nullptr}, c, again, part.style);
    }
};

// Where a cut by modules splits a layer: before the product down to the hidden width.
std::size_t opening(std::span<const Operator> feed_forward) {
    std::size_t i = feed_forward.size();
    while (i-- > 0)
        if (const auto* linear = std::get_if<Linear>(&feed_forward[i]);
            linear && linear->split == Split::row)
            break;
    return i;
}
// Where an early-stopping recompute ends: before that product, whose input is the last tensor that
// the backward needs, or behind it where its result has a norm, which needs it too, or where it has
// adapters: their second product, which is behind it, keeps its input.
std::size_t last_needed(const Workload& w, std::span<const Operator> feed_forward) {
    const std::size_t at = opening(feed_forward);
    return at + (w.post_norms || std::get<Linear>(feed_forward[at]).adapter_rank > 0 ? 1 : 0);
}
// In a cut, the product with the gate belongs to the second stage.
std::size_t cut(std::span<const Operator> feed_forward) {
    const std::size_t i = opening(feed_forward);
    return std::holds_alternative<Elementwise>(feed_forward[i - 1]) ? i - 1 : i;
}

// Slots that an all-to-all brought are kept, so the exchanges of experts do not run again: their
// group is one rank.
Plan alternate_plan(const Maker& m, std::span<const Operator> mixing,
                    std::span<const Operator> feed_forward, KernelStyle style, Host module) {
    Block again;
    for (const auto operators : {mixing, feed_forward}) {
        const std::vector<bool> runs = alternate_runs(operators, m.c.experiment.parallelism.tp);
        for (const std::size_t i : indices_of(operators))
            if (runs[i]) again.push_back(operators[i]);
    }
    LayerContext alone = m.c;
    alone.groups.expert = Group{};
    const Part part[] = {{again, style}};
    return Maker{m.graph, alone, m.traffic, m.split}.forward(part, module);
}

// A layer: attention, a Mamba block or a gated delta net, then a dense block or experts, of which a
// full recompute runs the first `again` operators.
PassPlans passes_of(const Maker& m, const Part& mixing, const Part& second, std::size_t again,
                    Host module = plan_module<true>) {
    const Part parts[] = {mixing, second},
               first[] = {mixing, {second.operators.first(again), second.style}};
    PassPlans plans = m.make(parts, module, module);
    if (m.c.experiment.parallelism.recompute == Recompute::alternate)
        plans.recompute =
            alternate_plan(m, mixing.operators, second.operators, mixing.style, module);
    else
        plans.recompute =
            again == second.operators.size() ? plans.forward : m.forward(first, module);
    return plans;
}

}  // namespace

const PassPlans& LayerPlans::of_layer(const Workload& w, int layer) const {
    if (has_attention(w, layer)) return has_experts(w, layer) ? experts : dense;
    return has_experts(w, layer) ? delta_experts : delta_dense;
}

namespace {

// The passes before the first layer and behind the last one.
void add_ends(const Maker& m, KernelStyle style, LayerPlans& plans) {
    const LayerContext& c = m.c;
    const Workload& w = c.experiment.workload;
    const Block embedding = embedding_block(), head = head_block(w, c.shape);
    const Block prediction = prediction_block(w, c.shape);
    const Block last_mixing = mixing_block(w, c.shape, has_attention(w, w.layers - 1));
    const Block last_layer =
        has_experts(w, w.layers - 1) ? expert_block(w, c.shape) : feed_forward_block(w, c.shape);
    const Part first[] = {{embedding, style}};
    std::vector<Part> last{{head, w.head == Head::span ? KernelStyle::operations : style}};
    for (int i = 0; i < w.mtp_layers; ++i)
        last.insert(
            last.end(),
            {{prediction, style}, {last_mixing, style}, {last_layer, style}, {head, style}});
    // A loss that a framework computes step by step (model/block/ends.h) already counts all its
    // traffic.
    const bool counted = !c.experiment.runtime.loss.fused || !keeps_logits(c.experiment);
    const Maker ends{m.graph, c, counted ? 1.0 : m.traffic, m.split};
    plans.embedding = ends.make(first, plan_micro_batch, plan_micro_batch);
    plans.head = ends.make(last, plan_head, plan_head);
}

}  // namespace

LayerPlans layer_plans(TaskGraph& graph, const LayerContext& c) {
    const Experiment& e = c.experiment;
    const Workload& w = e.workload;
    const Parallelism& p = e.parallelism;
    const bool split = traits(p.schedule).splits_backward;
    // Kernels that run operation by operation state all their bytes.
    const Maker m{graph, c, is_eager(e) ? e.runtime.eager_traffic : 1.0, split};
    const KernelStyle style = runs_operations(e) ? KernelStyle::operations : KernelStyle::fused;
    const Block mixing = mixing_block(w, c.shape), block = feed_forward_block(w, c.shape);
    const std::span<const Operator> feed_forward(block);
    LayerPlans plans;
    const bool early = style == KernelStyle::fused && e.runtime.recompute_stops_early;
    const std::size_t again = early ? last_needed(w, feed_forward) : feed_forward.size();
    plans.dense = passes_of(m, {mixing, style}, {feed_forward, style}, again);
    const bool grouped = w.moe.experts > 0 && p.moe_system == MoeSystem::alltoall;
    const Block experts = grouped ? expert_block(w, c.shape) : Block{};
    const Part second{experts, KernelStyle::fused};
    if (grouped) plans.experts = passes_of(m, {mixing, style}, second, experts.size());
    if (w.delta.value_heads > 0) {
        const Block delta = delta_block(w, c.shape);
        const Host module = plan_module<false>;
        plans.delta_dense = passes_of(m, {delta, style}, {feed_forward, style}, again, module);
        if (grouped)
            plans.delta_experts = passes_of(m, {delta, style}, second, experts.size(), module);
    }
    if (w.moe.experts > 0 && p.moe_system != MoeSystem::alltoall) {
        // The system runs what is between the norm and the residual, or the norm before that.
        const Part first[] = {{mixing, style}, {feed_forward.first(3), style}},
                   behind[] = {{feed_forward.last(w.post_norms ? 2 : 1), style}};
        plans.experts = m.make(first, plan_module<true>, nothing);
        plans.after_experts = m.make(behind, nothing, plan_module<true>);
    }
    if (p.cut == StageCut::modules) {
        const std::size_t at = cut(feed_forward);
        const Part first[] = {{mixing, style}, {feed_forward.first(at), style}},
                   rest[] = {{feed_forward.subspan(at), style}};
        plans.opened = m.make(first, plan_module<true>, plan_module<true>);
        plans.rest = m.make(rest, nothing, nothing);
    }
    add_ends(m, style, plans);
    return plans;
}

}  // namespace stepcast
