// What is trained. Says nothing about GPUs or how it is split.
#pragma once

#include <cstdint>
#include <string>

#include "model/dtype.h"

namespace stepcast {

enum class Optimizer : std::uint8_t { none, sgd, adam, lamb };
constexpr auto names_of(Optimizer) {
    using enum Optimizer;
    return name_table<Optimizer>("an optimizer", {{none, "none"}, {sgd, "sgd"}, {adam, "adam"}, {lamb, "lamb"}});
}

enum class Norm : std::uint8_t { layernorm, rmsnorm };
constexpr auto names_of(Norm) { return name_table<Norm>("a norm", {{Norm::layernorm, "layernorm"}, {Norm::rmsnorm, "rmsnorm"}}); }

// plain: scores, softmax and dropout go through memory; flash: one kernel, scores stay on chip; flash2: the same of the
// second generation (FlashAttention-2, written for A100; on newer devices below the vendor's kernels); triton: the same algorithm
// as Triton compiled it in 2022 and 2023; mla: flash over keys and values that are projected from a low-rank latent (Mla).
enum class AttentionKind : std::uint8_t { plain, flash, flash2, triton, mla };
constexpr auto names_of(AttentionKind) {
    using enum AttentionKind;
    return name_table<AttentionKind>("an attention kind", {{plain, "plain"}, {flash, "flash"}, {flash2, "flash2"}, {triton, "triton"}, {mla, "mla"}});
}

// learned: a table of max_positions x hidden is added to the embedding. relative: Transformer-XL (arXiv 1901.02860): scores of
// positions next to those of contents, projected in every layer; norms follow their blocks and none is at the end.
enum class Positions : std::uint8_t { none, learned, rotary, relative };
constexpr auto names_of(Positions) {
    using enum Positions;
    return name_table<Positions>("a position encoding", {{none, "none"}, {learned, "learned"}, {rotary, "rotary"}, {relative, "relative"}});
}

// gelu: one kernel; gelu_steps: its tanh approximation written out, eight operations.
enum class Activation : std::uint8_t { gelu, gelu_steps, relu };
constexpr auto names_of(Activation) {
    using enum Activation;
    return name_table<Activation>("an activation", {{gelu, "gelu"}, {gelu_steps, "gelu_steps"}, {relu, "relu"}});
}

// tokens: logits over the vocabulary; span: two scores a token, where an answer begins and ends.
enum class Head : std::uint8_t { tokens, span };
constexpr auto names_of(Head) { return name_table<Head>("a head", {{Head::tokens, "tokens"}, {Head::span, "span"}}); }

// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): ranks of the latents and widths of a head.
struct Mla {
    int q_rank = 0;  // 0: queries are projected directly
    int kv_rank = 0;
    int nope_dim = 0, rope_dim = 0, value_dim = 0;
    friend bool operator==(const Mla&, const Mla&) = default;
};

// A mixture-of-experts feed-forward block: `experts` of a layer over all ranks; 0 means dense.
struct Moe {
    int experts = 0;
    int top_k = 2;
    double capacity_factor = 0;  // 0 = dropless
    int shared_experts = 0;
    int ffn = 0;           // inner width of one expert; 0 = workload.ffn
    int shared_ffn = 0;    // inner width of all shared experts together; 0 = shared_experts x ffn of an expert
    int dense_layers = 0;  // the first layers keep the dense block of width workload.ffn
    int interval = 1;      // every interval-th layer has experts, the others are dense
    int groups = 1,
        top_groups = 1;        // a token's experts are in so many of so many groups (DeepSeek's node-limited routing)
    bool router_bias = false;  // one load-balancing bias an expert
    friend bool operator==(const Moe&, const Moe&) = default;
};

// Mamba-2 blocks in place of most of the attention (arXiv 2405.21060): each layer has one, and `attention` of an attention
// block, as those are few and spread evenly. heads = 0: none.
struct Mamba {
    int heads = 0, head_dim = 64, state = 128, groups = 8;
    double attention = 0;
    friend bool operator==(const Mamba&, const Mamba&) = default;
};

// One tower of a model of several: `layers` blocks of attention and feed-forward over `seq` positions of width `hidden`.
struct Tower {
    int layers = 0;
    int hidden = 0;
    int heads = 0;
    int ffn = 0;
    int seq = 0;
    bool gated = false;      // SwiGLU: three matrices
    bool rotary = false;     // queries and keys are turned, operation by operation; their projections are separate
    bool sub_norms = false;  // more norms: of the attention's result and of the feed-forward's inner width
    bool causal = false;
    bool fused_norms = true;  // a kernel of their own in 16 bit; false: the framework's, which autocast runs in fp32
    friend bool operator==(const Tower&, const Tower&) = default;
};

// `kind` says how the shapes are read. moe_layer: `layers` times gate + experts (two GEMMs hidden x ffn and back,
// GELU between), forward and backward, no optimizer; mlp: `layers` times two dense GEMMs of those shapes with GELU
// between, gradients all-reduced over the data-parallel ranks in buckets, then the optimizer. transformer: embedding,
// `layers` blocks of attention and feed-forward, final norm, logits, loss; optimizer. coca: the text tower has the shapes
// of the workload itself; `vision` reads patches, a pooler of `pool_queries` and one of a single query read what it makes,
// each layer of `decoder` is a block over the text and one that attends to the pooled patches (CoCa, arXiv 2205.01917).
struct Workload {
    enum class Kind : std::uint8_t { moe_layer, mlp, transformer, coca };
    std::string name;
    Kind kind = Kind::moe_layer;
    int layers = 1;
    int hidden = 0;
    int heads = 0;
    int kv_heads = 0;  // 0 = heads
    int head_dim = 0;  // 0 = hidden / heads
    int ffn = 0;
    bool gated = false;  // feed-forward with a gate: three matrices instead of two
    int vocab = 0;
    bool tied = true;  // logits use the embedding's weights
    int seq = 0;
    int max_positions = 0;  // rows of the learned position table; 0 = seq
    Positions positions = Positions::learned;
    int memory = 0;       // relative: positions before the sequence whose keys and values are attended too
    int window = 0;       // tokens that one sees in layers with sliding windows, itself among them; 0 = all before it
    double window_share = 1;  // of the layers that slide, where there is a window
    int token_types = 0;  // rows of the token-type table
    Norm norm = Norm::layernorm;
    AttentionKind attention = AttentionKind::plain;
    bool causal = true;
    bool linear_bias = true;     // biases of the output projection and of the feed-forward matrices, experts' too
    bool qkv_bias = true;        // biases of the query, key and value projections
    double dropout = 0;          // 0: no mask is made, read or kept
    bool inner_dropout = false;  // dropout after the activation too
    bool score_dropout = true;   // dropout of attention scores too
    Activation activation = Activation::gelu;  // of a block without gate
    Head head = Head::tokens;
    double head_share = 1;  // of the positions, those whose logits are made (masked language models: the masked ones)
    int table_slices = 1;   // slices of the embedding's table that logits are made of (adaptive softmax over one table)
    int adapter_rank = 0;   // LoRA (arXiv 2106.09685): layers are frozen but for two matrices of this rank next to each
    Mla mla;
    Mamba mamba;
    // Modules that predict further tokens (DeepSeek-V3, arXiv 2412.19437, section 2.2), on the last stage: norms of what the model
    // has made and of the next token's embedding, a projection of both together, a layer like the last, the logits again.
    int mtp_layers = 0;
    Dtype dtype = Dtype::fp16;
    bool autocast = false;   // norms, softmax and residuals in fp32, cast to and from `dtype` around matrix products
    bool fused_loss = true;  // softmax, loss and its gradient in one pass over the logits
    int loss_pieces = 1;     // slices of the logits whose losses are added up one by one
    bool loss_in_forward = true;  // false: the model returns logits, and the forward ends before the loss
    Optimizer optimizer = Optimizer::none;
    int optimizer_groups = 1;       // parameter groups, each with its own optimizer kernels and calls; 1 = fused
    int optimizer_calls = 1;        // of each group: gradient copies, norm, clip, update, zeroing
    bool reads_loss = false;        // the host waits for the loss before it calls the optimizer
    bool fused_projections = true;  // query, key and value are one product, gate and up another
    bool fused_gate = false;        // else: the activation and the product with the gate are one kernel all the same
    bool row_scales = false;        // narrow products: a scale a row (torchao's "rowwise"), not one a tensor
    bool fused_optimizer = true;    // adam: one pass over its tensors; else operation by operation, each a pass
    Moe moe;
    Tower vision, decoder;
    int patch = 16;          // pixels of a patch's side, three colours
    int pool_queries = 256;  // what the decoder sees of an image
    friend bool operator==(const Workload&, const Workload&) = default;
};
constexpr auto names_of(Workload::Kind) {
    using enum Workload::Kind;
    return name_table<Workload::Kind>(
        "a workload kind", {{moe_layer, "moe_layer"}, {mlp, "mlp"}, {transformer, "transformer"}, {coca, "coca"}});
}

}  // namespace stepcast
