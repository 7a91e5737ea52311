// The numbers of weights and of floating-point operations of a transformer, from its shapes only,
// not from recompute or execution.
#pragma once

#include <vector>

#include "model/base/units.h"
#include "model/parallelism.h"
#include "model/workload.h"

namespace stepcast {

struct RankShape;

// Counts are doubles because they multiply bytes. Each is an integer below 2^53 and thus exact.

// Weights of a layer, or of the whole model. `experts` counts only routed experts, which are
// data-parallel over another group. `feed_forward` counts dense blocks and shared experts. `logits`
// is 0 if tied to the embedding.
struct ParameterCount {
    double embedding = 0, positions = 0, attention = 0, feed_forward = 0, experts = 0, router = 0,
           norms = 0, logits = 0;
    double prediction = 0;      // all weights of the multi-token-prediction modules
    double active_experts = 0;  // the part of `experts` that one token uses
    [[nodiscard]] double total() const {
        return embedding + positions + attention + feed_forward + experts + router + norms +
               logits + prediction;
    }
    // per layer
    [[nodiscard]] double dense() const { return attention + norms + feed_forward + router; }
    [[nodiscard]] double active() const { return total() - experts + active_experts; }
    friend bool operator==(const ParameterCount&, const ParameterCount&) = default;
};

// Shapes with their defaults filled in.
int head_dim(const Workload& workload);       // hidden / heads unless stated
int kv_heads(const Workload& workload);       // heads unless stated
int position_rows(const Workload& workload);  // of a learned table: seq unless stated
int expert_ffn(const Workload& workload);     // inner width of one expert
int shared_ffn(const Workload& workload);  // inner width of all shared experts together; 0 without
int delta_key_heads(const Workload& workload);
// True if the layer (from 0) is past the first dense layers and the last of its interval.
bool has_experts(const Workload& workload, int layer);
// True unless a gated delta net stands in the place of the layer's attention.
bool has_attention(const Workload& workload, int layer);
// True if attention reads only keys that an indexer selects; a sequence no longer than that is read
// whole.
bool selects_keys(const Workload& workload);

// Counted: query, key, value and output projections (MLA: also those of the latents, with their
// norms among the norms), two norms per layer and a final one, the matrices of the feed-forward
// block, biases if the workload has them, the router with its load-balancing bias, embedding,
// learned positions, token types, untied logits, the span head. Relative positions: a projection
// per layer, two query biases that all layers share (counted with the positions), no biases in
// attention, no final norm, a bias of the logits. Not counted, because the workload does not state
// them: poolers and heads of other tasks, buffers.
ParameterCount layer_parameters(const Workload& workload, int layer);
// The part on a rank of this shape, with all routed experts. What tensor parallelism does not split
// counts whole, and a key and value head that several ranks share counts on each.
ParameterCount layer_parameters(const Workload& workload, const RankShape& shape, int layer);
// Projections of one input that are one product have one adapter.
double adapter_parameters(const Workload& workload, int layer, bool fused_projections = true);
double expert_parameters(const Workload& workload);     // one routed expert
double embedding_parameters(const Workload& workload);  // vocab x hidden
double position_parameters(const Workload& workload);
double final_norm_parameters(const Workload& workload);
// one multi-token-prediction module without its layer
double prediction_parameters(const Workload& workload);
double logits_parameters(const Workload& workload);  // 0 if tied; the span head has its own
ParameterCount count_parameters(const Workload& workload);

// Forward operations of one token of a full sequence: 2 per weight of each matrix that multiplies
// the token (top-k of the routed experts), and attention scores over all `seq` positions or those
// of a window, even if a causal mask hides half of them. Embedding look-up, norms, biases and
// activations are not counted. This is the count of Megatron-LM (arXiv 2104.04473, appendix) and of
// PaLM's MFU (arXiv 2204.02311, appendix B). Training takes three times as much, for a GPT 72 B s l
// h^2 (1 + s / 6h + V / 12 l h). With adapters (LoRA) the frozen matrices take only twice as much,
// because they need no weight gradient; scores and adapters, also counted, take three times. The
// forwards of a reference model are work of the step, too.
// A gated delta net reads a head's state with the key and with the query, and adds to it: 6 x
// key_dim x value_dim. Sparse attention: scores over the selected keys; the indexer scores all
// positions, of which its backward meets only the selected, and it sends no gradient to its inputs.
Flops layer_forward_flops(const Workload& workload, int layer);  // per token
Flops logits_forward_flops(const Workload& workload);            // per token
Flops forward_flops(const Workload& workload, double sequences = 1);
// forward and backward without recompute
Flops model_flops(const Workload& workload, double sequences = 1);
// What of them is of scores that a causal mask hides, half of full attention: Megatron-LM's count
// leaves it out since 2025 (megatron/training/training.py, num_floating_point_operations()).
Flops masked_flops(const Workload& workload, double sequences = 1);

// The modules of these that the model has.
std::vector<RecomputedModule> modules_of(const Workload& workload,
                                         const std::vector<RecomputedModule>& named);

}  // namespace stepcast
