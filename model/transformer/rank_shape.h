// The sizes of one rank's share of a layer.
#pragma once

#include "model/base/numbers.h"
#include "model/experiment.h"

namespace stepcast {

// The sizes of a transformer on one rank, after tensor, context and sequence parallelism have split
// its layers.
struct RankShape {
    long batch = 0;   // sequences per micro-batch
    long tokens = 0;  // per micro-batch on this rank: batch * seq / cp
    // outside tensor-parallel blocks: tokens / tp with sequence parallelism, else tokens
    long outer_tokens = 0;
    long seq = 0;                         // tokens of a whole sequence
    long seq_q = 0;                       // query tokens per sequence on this rank: seq / cp
    long head_tokens = 0;                 // tokens whose logits are computed
    long routed_tokens = 0;               // tokens that this rank sends to experts
    long hidden = 0, ffn = 0, vocab = 0;  // ffn and vocab: this rank's part
    // width of one expert and of all shared experts: this rank's part
    long expert_ffn = 0, shared_ffn = 0;
    long heads = 0, kv_heads = 0;  // this rank's
    long mamba_heads = 0, mamba_groups = 0;
    long delta_key_heads = 0, delta_value_heads = 0;
    long qk_dim = 0, value_dim = 0;  // width of a head's query and key, and of its value
    // query, key and value are one product, gate and up another; else activation and gate may be
    // one
    bool fused_projections = true, fused_gate = false;
    bool adapters = true;        // those of the model; false: of its forward without them
    Dtype matrix = Dtype::bf16;  // type of matrix products
    // type of activations in memory and of attention: bf16 if matrices are fp8
    Dtype storage = Dtype::bf16;
    [[nodiscard]] Bytes element() const { return size_of(storage); }
    [[nodiscard]] Bytes outer() const { return real(outer_tokens * hidden) * element(); }
    [[nodiscard]] Bytes inner(long width) const { return real(tokens * width) * element(); }
    friend bool operator==(const RankShape&, const RankShape&) = default;
};

// Parts that do not divide evenly are rounded up, because the largest rank determines the time.
RankShape rank_shape(const Workload& workload, const Parallelism& parallelism,
                     const Runtime& runtime);
inline RankShape rank_shape(const Experiment& e) {
    return rank_shape(e.workload, e.parallelism, e.runtime);
}

// Rows whose logits exist at once where they come in chunks: as many as fill the final norm's
// result, of a power of two.
long loss_rows(const RankShape& shape);

// The words that are counted: those of all ranks, with those that fill each one's part.
inline long padded_vocab(const Experiment& e) { return rank_shape(e).vocab * e.parallelism.tp; }

}  // namespace stepcast
