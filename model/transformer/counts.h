// How many weights a transformer has and how many floating-point operations its model asks for, from its shapes alone.
// Knows nothing of how it is recomputed or run.
#pragma once

#include "model/units.h"
#include "model/workload.h"

namespace stepcast {

struct RankShape;

// Counts are doubles because they are multiplied into bytes; every one here is an integer below 2^53, so exact.

// Weights of a layer, or of the whole model. `experts` are the routed experts alone: they are data-parallel over another group.
// `feed_forward`: dense blocks, and the shared experts of layers with experts. `logits` is 0 when they are tied to the embedding.
struct ParameterCount {
    double embedding = 0, positions = 0, attention = 0, feed_forward = 0, experts = 0, router = 0, norms = 0,
           logits = 0;
    double prediction = 0;      // modules of multi-token prediction, whole
    double active_experts = 0;  // the part of `experts` that one token meets
    [[nodiscard]] double total() const {
        return embedding + positions + attention + feed_forward + experts + router + norms + logits + prediction;
    }
    [[nodiscard]] double dense() const { return attention + norms + feed_forward + router; }  // of a layer
    [[nodiscard]] double active() const { return total() - experts + active_experts; }
    friend bool operator==(const ParameterCount&, const ParameterCount&) = default;
};

// Shapes with their defaults filled in.
int head_dim(const Workload& workload);    // hidden / heads unless stated
int kv_heads(const Workload& workload);    // heads unless stated
int expert_ffn(const Workload& workload);  // inner width of one expert
int shared_ffn(const Workload& workload);  // inner width of all shared experts together; 0 without
// Layer (from 0) has experts: it is past the dense first ones, and the last of its interval.
bool has_experts(const Workload& workload, int layer);

// What is counted: query, key, value and output projections (MLA: the latents' too, and their norms among the norms),
// two norms a layer and a final one, the matrices of the feed-forward block, biases where the workload has them, the
// router with its load-balancing bias, embedding, learned positions, token types, logits when untied, the span head.
// Relative positions: a projection a layer, two biases of the queries that all layers share (counted with the positions), no
// biases in attention, no final norm, a bias of the logits. Not counted, because the workload does not state them: poolers
// and heads of other tasks, buffers.
ParameterCount layer_parameters(const Workload& workload, int layer);
// What a rank of this shape holds of them, all routed experts being there: what tensor parallelism does not split is whole, and
// a key and value head that several ranks share is on each of them.
ParameterCount layer_parameters(const Workload& workload, const RankShape& shape, int layer);
double adapter_parameters(const Workload& workload);    // of the adapters of one layer
double expert_parameters(const Workload& workload);     // of one routed expert
double embedding_parameters(const Workload& workload);  // vocab x hidden
double position_parameters(const Workload& workload);
double final_norm_parameters(const Workload& workload);
double prediction_parameters(const Workload& workload);  // of a module of multi-token prediction, without its layer
double logits_parameters(const Workload& workload);  // without those that are tied; of the span head, its own
ParameterCount count_parameters(const Workload& workload);

// Forward operations of one token of a full sequence: 2 for each weight of a matrix that the token meets (top-k of the
// routed experts) and attention scores over all `seq` positions, or those of a window, also where a causal mask hides half of them. The
// embedding look-up, norms, biases and activations are left out. That is the count of Megatron-LM (arXiv 2104.04473,
// appendix) and of PaLM's MFU (arXiv 2204.02311, appendix B): training takes three times as much, which for a GPT is
// 72 B s l h^2 (1 + s / 6h + V / 12 l h). With adapters (LoRA) the matrices beside them are frozen: they take twice as much, no
// gradient of their weights being made, and scores and adapters, which are counted too, three times.
Flops layer_forward_flops(const Workload& workload, int layer);  // a token
Flops logits_forward_flops(const Workload& workload);            // a token
Flops forward_flops(const Workload& workload, double sequences = 1);
Flops model_flops(const Workload& workload, double sequences = 1);  // forward and backward, nothing computed twice

}  // namespace stepcast
