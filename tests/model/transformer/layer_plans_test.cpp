// What a layer's passes are made of: its blocks, the host's part before them, and where stages cut
// it.
#include <catch2/catch.hpp>

#include "model/transformer/layer_plans.h"
#include "tests/model/block/plan_lines.h"
#include "tests/model/block/small_model.h"

using namespace stepcast;

namespace {

using Lines = std::vector<std::string>;

// Plans of an experiment and their tasks by name; tests/model/block tests the numbers.
struct Planned {
    explicit Planned(const Experiment& experiment) : e(experiment) {}

    [[nodiscard]] Lines names(const Plan& plan) const {
        Lines names;
        for (const std::string& line : lines_of(graph, plan))
            names.push_back(line.substr(0, line.find(' ')));
        return names;
    }

    Experiment e;
    Routing balanced;
    TaskGraph graph{1, false};
    LayerContext context{e, rank_shape(e), rank_groups(e.parallelism), balanced};
    LayerPlans plans = layer_plans(graph, context);
};

Lines joined(Lines a, const Lines& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

const Lines attends{"attention_norm", "qkv", "rotary", "attention", "attention_output", "residual"};
const Lines feeds{"ffn_norm", "ffn_up", "activation", "ffn_down", "residual"};

const Lines remembers{"delta_norm",   "delta_in",     "convolution",       "delta_gates",
                      "delta_norms",  "delta_system", "delta_corrections", "delta_corrections",
                      "delta_states", "delta_states", "delta_output",      "delta_output",
                      "delta_output", "gated_norm",   "delta_out",         "residual"};

Experiment apart() {
    Experiment e = small_model();
    e.runtime.fused_projections = false;
    return e;
}

}  // namespace

// Each pass of a layer costs the host once. If exchanges cost it too, a pass has two all-reduces,
// or with sequence parallelism two gathers and two scatters. The loop around the model costs once
// per micro-batch, before the embedding.
TEST_CASE("what the host does for a layer comes before its kernels") {
    Experiment e = small_model();
    e.parallelism.tp = 2;
    const auto first = [&](const Plan& (*of)(const LayerPlans&)) {
        const Planned p(e);
        const Lines lines = lines_of(p.graph, of(p.plans));
        return Lines(lines.begin(), lines.begin() + 2);
    };
    const auto forward = [](const LayerPlans& plans) -> const Plan& { return plans.dense.forward; };
    const auto backward = [](const LayerPlans& plans) -> const Plan& {
        return plans.dense.backward;
    };
    const auto embedding = [](const LayerPlans& plans) -> const Plan& {
        return plans.embedding.forward;
    };
    CHECK(first(forward)[1].starts_with("attention_norm"));
    CHECK(first(embedding)[0].starts_with("embedding"));
    e.cluster.host.exchange = e.cluster.host.micro_batch = Seconds(1e-5);
    CHECK(first(forward) == Lines{"layer 1 calls", "exchanges 2 calls"});
    CHECK(first(backward) == Lines{"layer 1 calls", "exchanges 2 calls"});
    CHECK(first(embedding)[0] == "micro_batch 1 calls");
    e.parallelism.sequence_parallel = true;
    CHECK(first(forward)[1] == "exchanges 4 calls");
    e.parallelism.sequence_parallel = false;
    e.parallelism.tp = 1;
    CHECK(first(forward)[1].starts_with("attention_norm"));
    e.runtime.blocking_layers = true;  // the host comes to the layer when its kernels have ended
    CHECK(first(forward)[0] == "layer 1 calls waits");
    CHECK(first(backward)[0] == "layer 1 calls waits");
}

// Instead of one projection of queries, keys and values there are one for the queries, one down to
// the keys' latent width and one up from it: two modules more. With a latent width of the queries
// there are four instead of one: three more.
TEST_CASE("latent attention calls two or three modules more") {
    Experiment e = small_model();
    e.workload.mla = {.q_rank = 0, .kv_rank = 16, .nope_dim = 8, .rope_dim = 4, .value_dim = 8};
    const auto second = [&](const Plan& (*of)(const LayerPlans&)) {
        const Planned p(e);
        return lines_of(p.graph, of(p.plans)).at(1);
    };
    const auto forward = [](const LayerPlans& plans) -> const Plan& { return plans.dense.forward; };
    const auto backward = [](const LayerPlans& plans) -> const Plan& {
        return plans.dense.backward;
    };
    CHECK(second(forward) == "latent_modules 2 calls");
    e.workload.mla.q_rank = 24;
    CHECK(second(forward) == "latent_modules 3 calls");
    CHECK(second(backward) == "latent_modules 3 calls");
}

// Hooks of ZeRO 3: the layer, its attention and its feed-forward block, two norms, query, key,
// value, output, gate, up, activation and down are 13 modules; norms of queries and keys are two
// more. Adapters beside four products call four modules more at each: 15 + 4 x 4 = 31. Around the
// layers: two models, positions and the embedding; the last norm and the logits. Other stages have
// none, nor has a framework that does not state their cost.
TEST_CASE("hooks at every module cost the host under ZeRO 3") {
    Experiment e = apart();
    e.parallelism.zero = 3;
    const auto first = [&](const Plan& (*of)(const LayerPlans&)) {
        const Planned p(e);
        return lines_of(p.graph, of(p.plans)).at(0);
    };
    const auto forward = [](const LayerPlans& plans) -> const Plan& { return plans.dense.forward; };
    const auto backward = [](const LayerPlans& plans) -> const Plan& {
        return plans.dense.backward;
    };
    CHECK(first(forward) == "layer 1 calls");
    e.runtime.module_hooks = true;
    CHECK(first(forward) == "hooks 13 calls");
    CHECK(first(backward) == "hooks 13 calls");
    CHECK(first([](const LayerPlans& plans) -> const Plan& { return plans.embedding.forward; }) ==
          "hooks 4 calls");
    CHECK(first([](const LayerPlans& plans) -> const Plan& { return plans.head.backward; }) ==
          "hooks 2 calls");
    e.workload.qk_norm = true;
    CHECK(first(forward) == "hooks 15 calls");
    e.workload.adapter_rank = 8;
    CHECK(first(forward) == "hooks 31 calls");
    e.parallelism.zero = 2;
    CHECK(first(forward) == "layer 1 calls");
}

// A layer of modules with separate gate and up: q, k, v, output, gate, its activation, up, down.
// The cut is behind the up projection, so the product of gate and up belongs to the next stage; the
// host's part of the layer belongs to the first.
TEST_CASE("stages cut by modules part a layer behind its up projection") {
    Experiment e = apart();
    e.parallelism.cut = StageCut::modules;
    const Planned p(e);
    const PassPlans &opened = p.plans.opened, &rest = p.plans.rest;
    CHECK(p.names(opened.forward) == Lines{"layer", "attention_norm", "query", "key", "value",
                                           "rotary", "attention", "attention_output", "residual",
                                           "ffn_norm", "ffn_gate", "activation", "ffn_up"});
    CHECK(p.names(rest.forward) == Lines{"gate_product", "ffn_down", "residual"});
    CHECK(p.names(p.plans.dense.forward) == joined(p.names(opened.forward), p.names(rest.forward)));
    CHECK(p.names(rest.backward) == Lines{"ffn_down", "ffn_down", "gate_product_backward"});
    const Lines backward = p.names(opened.backward);
    CHECK(Lines(backward.begin(), backward.begin() + 4) ==
          Lines{"layer", "ffn_up", "ffn_up", "activation_backward"});
    CHECK(p.names(p.plans.dense.backward) == joined(joined({"layer"}, p.names(rest.backward)),
                                                    Lines(backward.begin() + 1, backward.end())));
    e.parallelism.cut = StageCut::layers;
    CHECK(Planned(e).plans.rest.forward == Plan{});
}

// It stops before the down projection, whose input is the last tensor that the backward reads.
TEST_CASE("a recompute that stops early leaves out the product down and what follows") {
    Experiment e = small_model();
    const Planned whole(e);
    CHECK(whole.names(whole.plans.dense.recompute) == whole.names(whole.plans.dense.forward));
    e.runtime.recompute_stops_early = true;
    const Planned p(e);
    CHECK(p.names(p.plans.dense.forward) ==
          Lines{"layer", "attention_norm", "qkv", "rotary", "attention", "attention_output",
                "residual", "ffn_norm", "ffn_up", "activation", "ffn_down", "residual"});
    CHECK(p.names(p.plans.dense.recompute) == Lines{"layer", "attention_norm", "qkv", "rotary",
                                                    "attention", "attention_output", "residual",
                                                    "ffn_norm", "ffn_up", "activation"});
    e.workload.post_norms = true;  // the norm of the product down reads its result again
    const Lines with_norms = Planned(e).names(Planned(e).plans.dense.recompute);
    CHECK(with_norms.back() == "ffn_down");
    e.workload.post_norms = false;
    e.workload.adapter_rank = 8;  // at the attention
    CHECK(Planned(e).names(Planned(e).plans.dense.recompute).back() == "activation");
    // the second product of its adapters, behind it, keeps its input
    e.workload.adapter_on = Adapted::linear;
    const Lines with_adapters = Planned(e).names(Planned(e).plans.dense.recompute);
    CHECK(std::ranges::count(with_adapters, "ffn_down") == 1);
    CHECK(std::ranges::count(with_adapters, "residual") == 1);
    e.workload.adapter_rank = 0;
    e.runtime.kernels =
        KernelStyle::operations;  // an interpreter of every operation runs the whole module again
    e.runtime.attention = AttentionKind::plain;
    const Planned unfused(e);
    CHECK(unfused.names(unfused.plans.dense.recompute) ==
          unfused.names(unfused.plans.dense.forward));
}

// The backward has two products for each; a schedule that splits it puts those of the weights into
// a pass of their own.
TEST_CASE("weight gradients are a pass of their own where the schedule splits the backward") {
    Experiment e = small_model();
    CHECK(Planned(e).plans.dense.weight_backward == Plan{});
    e.parallelism.schedule = Schedule::zb_h1;
    const Planned p(e);
    CHECK(p.names(p.plans.dense.weight_backward) ==
          Lines{"ffn_down", "ffn_up", "attention_output", "qkv"});
    CHECK(p.names(p.plans.dense.input_backward) ==
          Lines{"layer", "ffn_down", "activation_backward", "ffn_up", "ffn_norm_backward",
                "residual_backward", "attention_output", "attention_backward", "rotary_backward",
                "head_layout_backward", "qkv", "attention_norm_backward", "residual_backward"});
    CHECK(p.plans.dense.backward.tasks.size() == 4 + 13);
}

// Logits and loss of the next token; then, for each further token, its embedding, two norms, a
// projection of both, and a layer like the last one before the same head (arXiv 2412.19437,
// section 2.2).
TEST_CASE("each token predicted further ahead is a layer and a head more") {
    Experiment e = small_model();
    const Planned once(e);
    const Lines head = once.names(once.plans.head.forward);
    CHECK(head == Lines{"final_norm", "logits", "loss"});
    e.workload.mtp_layers = 2;
    const Planned p(e);
    const Lines further = joined(
        joined(joined({"embedding", "mtp_embedding_norm", "mtp_norm", "mtp_projection"}, attends),
               feeds),
        head);
    CHECK(p.names(p.plans.head.forward) == joined(joined(head, further), further));
}

// Unfused kernels state every byte that each operation moves, so eager passes, which double those
// of fused ones, add nothing to them.
TEST_CASE("what runs operation by operation is not counted twice") {
    Experiment e = small_model();
    e.workload.gated = false;
    e.runtime.attention = AttentionKind::plain;
    e.workload.positions = Positions::learned;
    const auto lines = [&](KernelStyle style, double eager_traffic) {
        e.runtime.kernels = style;
        e.runtime.eager_traffic = eager_traffic;
        const Planned p(e);
        Lines all;
        for (const PassPlans* of : {&p.plans.embedding, &p.plans.dense, &p.plans.head})
            for (const Plan* plan : {&of->forward, &of->backward})
                all = joined(all, lines_of(p.graph, *plan));
        return all;
    };
    CHECK(lines(KernelStyle::operations, 3) == lines(KernelStyle::operations, 2));
    CHECK(lines(KernelStyle::eager, 3) != lines(KernelStyle::eager, 2));
}

// Layers 0, 1, 2, 4, 5 of 6 have delta nets, layer 3 attention; experts in every second layer.
TEST_CASE("a layer's mixing and its feed-forward are two choices") {
    Experiment e = small_model();
    e.workload.layers = 6;
    e.workload.delta = {.value_heads = 4, .key_heads = 2, .key_dim = 16, .value_dim = 8};
    e.workload.moe = {.experts = 4, .ffn = 32, .interval = 2};
    const Planned p(e);
    const auto is = [&](int layer, const PassPlans& plans) {
        return &p.plans.of_layer(e.workload, layer) == &plans;
    };
    CHECK(is(0, p.plans.delta_dense));
    CHECK(is(1, p.plans.delta_experts));
    CHECK(is(2, p.plans.delta_dense));
    CHECK(is(3, p.plans.experts));
    CHECK(is(5, p.plans.delta_experts));
    const Lines host{"layer"};
    CHECK(p.names(p.plans.dense.forward) == joined(joined(host, attends), feeds));
    CHECK(p.names(p.plans.delta_dense.forward) == joined(joined(host, remembers), feeds));
    CHECK(p.names(p.plans.delta_dense.recompute) == p.names(p.plans.delta_dense.forward));
    const Lines experts = p.names(p.plans.experts.forward),
                behind = p.names(p.plans.delta_experts.forward);
    CHECK(Lines(experts.begin() + 7, experts.end()) == Lines(behind.begin() + 17, behind.end()));
    e.workload.delta.interval = 3;
    CHECK(&p.plans.of_layer(e.workload, 2) == &p.plans.dense);
    CHECK(&p.plans.of_layer(e.workload, 3) == &p.plans.delta_experts);
}
