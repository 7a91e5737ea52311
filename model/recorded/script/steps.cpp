#include "model/recorded/script/steps.h"

#include "model/base/numbers.h"
#include "model/base/refuse.h"
#include "model/input/keys.h"
#include "model/recorded/script/rules.h"
#include "model/transformer/counts.h"
#include "model/transformer/rank_shape.h"

namespace stepcast {
namespace {

// Per layer two parameters for each norm and linear layer; then two embeddings, the final norm and
// the logits.
int tensors(const Workload& w) { return w.layers * 12 + 5; }

// The script's loop over experts, which skips experts without tokens. The layer's input needs no
// gradient.
Block expert_loop(const Workload& w, long tokens, const Routing& routing) {
    Block block{Linear{.name = "gate",
                       .tokens = tokens,
                       .out = w.moe.experts,
                       .in = w.hidden,
                       .bias = true,
                       .constant_input = true},
                Route{}};
    for (int expert = 0; expert < routing.experts; ++expert) {
        const long rows = routing.count(0, expert);
        if (rows == 0) continue;
        const auto inner = real(rows * w.ffn);
        block.insert(block.end(), {ToExperts{},
                                   Linear{.name = "expert_up",
                                          .tokens = rows,
                                          .out = w.ffn,
                                          .in = w.hidden,
                                          .bias = true,
                                          .constant_input = true},
                                   Elementwise{.name = "gelu", .read = inner, .written = inner},
                                   Linear{.name = "expert_down",
                                          .tokens = rows,
                                          .out = w.hidden,
                                          .in = w.ffn,
                                          .bias = true}});
    }
    block.push_back(FromExperts{});
    return block;
}

}  // namespace

void check_eager(const Experiment& e) {
    const Workload& w = e.workload;
    struct Rule {
        const char* key;
        bool holds;
        const char* expected;
    };
    const auto check = [&](std::initializer_list<Rule> rules) {
        for (const auto& [key, holds, expected] : rules)
            if (!holds)
                refuse("{}: {}, with runtime.kernels = script expected {}", key,
                       text_of(*find_key(key), e), expected);
    };
    check({{"cluster.gpus_per_node", e.cluster.gpus_per_node == 1, "1 rank"},
           {"cluster.nodes", e.cluster.nodes == 1, "1 rank"},
           {"parallelism.global_batch", micro_batches(e.parallelism) == 1, "one micro-batch"},
           {"workload.dtype", !is_narrow(w.dtype), "fp32, tf32, fp16 or bf16"}});
    if (w.kind == Workload::Kind::moe_layer) return;
    check({{"workload.kind", w.kind == Workload::Kind::transformer, "transformer or moe_layer"},
           {"parallelism.recompute", e.parallelism.recompute == Recompute::none, "none"},
           {"workload.moe.experts", w.moe.experts == 0, "0"},
           {"workload.gated", !w.gated, "false"},
           {"workload.activation", w.activation == Activation::gelu, "gelu"},
           {"workload.norm", w.norm == Norm::layernorm, "layernorm"},
           {"workload.positions", w.positions == Positions::learned, "learned"},
           {"workload.head", w.head == Head::tokens, "tokens"},
           {"workload.tied", !w.tied, "false"},
           {"workload.linear_bias", w.linear_bias, "true"},
           {"workload.qkv_bias", w.qkv_bias, "true"},
           {"workload.dropout", w.dropout == 0, "0"},
           {"runtime.autocast", !e.runtime.autocast, "false"},
           {"workload.kv_heads", w.kv_heads == 0 || w.kv_heads == w.heads, "as many as heads"},
           {"workload.heads", w.heads > 0 && head_dim(w) * w.heads == w.hidden,
            "a divisor of hidden"},
           {"workload.mla.kv_rank", !is_latent(w), "0"},
           {"workload.optimizer", w.optimizer == Optimizer::adam || w.optimizer == Optimizer::none,
            "adam or none"}});
}

TaskGraph build_eager_transformer_step(const Experiment& e) {
    const Workload& w = e.workload;
    const RankShape shape = rank_shape(e);
    TaskGraph graph(1, e.cluster.launch_blocking);
    Eager eager(graph, e);
    const Block attention = attention_block(w, shape), feed_forward = feed_forward_block(w, shape),
                end = head_block(w, shape);
    // skips the Fork: only the final norm reads the last layer's output
    const auto head = std::span(end).subspan(1);
    eager.begin(Phase::forward);
    eager.run(embedding_block());
    for (int l = 0; l < w.layers; ++l) {
        eager.host(issue::module);
        eager.run(attention);
        eager.run(feed_forward);
    }
    eager.run(head);
    eager.begin(Phase::backward);
    eager.host(issue::event + issue::backward_start);
    eager.run(head);
    for (int l = 0; l < w.layers; ++l) {
        eager.run(feed_forward);
        eager.run(attention);
    }
    eager.run(embedding_block());
    if (w.optimizer == Optimizer::adam) {
        eager.begin(Phase::optimizer);
        eager.host(issue::event);
        eager.adam(count_parameters(w).total(), tensors(w));
    }
    return graph;
}

TaskGraph build_eager_moe_step(const Experiment& e, const Routing& routing) {
    const Workload& w = e.workload;
    TaskGraph graph(1, e.cluster.launch_blocking);
    Eager eager(graph, e);
    const Block layer =
        expert_loop(w, static_cast<long>(e.parallelism.micro_batch) * w.seq, routing);
    eager.begin(Phase::forward);
    for (int l = 0; l < w.layers; ++l) eager.run(layer);
    eager.begin(Phase::backward);
    for (int l = 0; l < w.layers; ++l) {
        eager.mean_square();
        eager.run(layer);
        eager.small(issue::event, "end_of_step", 1);
    }
    return graph;
}

}  // namespace stepcast
