// What is trained, without GPUs and without how it is split.
#pragma once

#include <string>
#include <vector>

#include "model/base/dtype.h"
#include "model/input/keyed.h"

namespace stepcast {

// adam8bit: moments in 8 bits and one fp32 factor for each 256 of them (bitsandbytes 0.50.2,
// optim/optimizer.py). adafactor: of the second moment one sum for each row and column, no first
// one (arXiv 1804.04235; transformers 5.24.0, optimization.py). muon: one momentum of each matrix
// of a layer, which is orthogonalized (model/transformer/muon.h); Adam for everything else.
NAMED_ENUM(Optimizer, "an optimizer", none, sgd, adam, lamb, adam8bit, adafactor, muon);

NAMED_ENUM(Norm, "a norm", layernorm, rmsnorm);

// learned: a table of max_positions x hidden is added to the embedding. relative: Transformer-XL
// (arXiv 1901.02860) adds scores of positions, projected in every layer, to those of contents;
// norms follow their blocks and there is no final norm.
NAMED_ENUM(Positions, "a position encoding", none, learned, rotary, relative);

// gelu: one kernel. gelu_steps: the tanh approximation as eight operations. relu: its result alone
// serves its backward.
NAMED_ENUM(Activation, "an activation", gelu, gelu_steps, relu, squared_relu);

// tokens: logits over the vocabulary. span: two scores per token, for where an answer begins and
// ends.
NAMED_ENUM(Head, "a head", tokens, span);

// Layers with adapters. attention: the projections to queries, keys and values (not those of latent
// attention) and of the result. linear: every linear layer of a block but the router; the experts
// of a layer have none, because their stacked matrices are no linear layers to PEFT, unlike shared
// experts.
NAMED_ENUM(Adapted, "a place of adapters", attention, linear);

// Projections of a block that can have adapters one by one, as PEFT's target_modules names them
// (tuners/tuners_utils.py, check_target_module_exists: a module whose name ends in one of them).
// gate, up and down: also of shared experts.
NAMED_ENUM(AdaptedModule, "a projection with adapters", query, key, value, output, gate, up, down);

// A frozen model whose scores of the same answers a loss of preferences reads (DPO, arXiv
// 2305.18290; KTO, arXiv 2402.01306). copy: the model as it was, with weights of its own. base:
// what adapters stand beside, which needs none.
NAMED_ENUM(Reference, "a reference model", none, copy, base);

// How frozen weights beside adapters are kept. nf4: 4 bits and an fp32 scale for each 64 of them;
// nf4_double: these scales in 8 bits with an fp32 one for each 256 (bitsandbytes 0.50.2,
// functional.py: quantize_4bit, blocksize 64, compress_statistics; QLoRA, arXiv 2305.14314). Every
// product first makes 16-bit weights of them (autograd/_functions.py: MatMul4Bit). int8: 8 bits and
// a scale for each row (MatMul8bitLt, LLM.int8, arXiv 2208.07339), whose backward does the same;
// its forward, an 8-bit product between casts beside a 16-bit one of outliers, is taken to last as
// long.
NAMED_ENUM(FrozenWeights, "a form of frozen weights", stored, nf4, nf4_double, int8);

// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): ranks of the latents
// and widths of a head.
struct Mla {
    KEY(int, q_rank, 0, "latent of the queries; 0 = none", 0, upto::width);
    KEY(int, kv_rank, 0, "latent of keys and values; 0 = attention without latents", 0,
        upto::width);
    KEY(int, nope_dim, 0, "width of a head without positions", 0, upto::width);
    KEY(int, rope_dim, 0, "width of a head with positions", 0, upto::width);
    KEY(int, value_dim, 0, "width of a head's values", 0, upto::width);
    friend bool operator==(const Mla&, const Mla&) = default;
};

// A mixture-of-experts feed-forward block: `experts` per layer over all ranks; 0 means dense.
struct Moe {
    KEY(int, experts, 0, "experts of a layer over all ranks; 0 = dense", 0, upto::width);
    KEY(int, top_k, 2, "experts that a token goes to", 1, 1024);
    KEY(double, capacity_factor, 0,
        "slots of an expert over the balanced number; 0 = no token is dropped", 0, 1000);
    KEY(int, shared_experts, 0, "experts that every token goes to", 0, 1024);
    KEY(int, ffn, 0, "inner width of one expert; 0 = workload.ffn", 0, upto::width);
    KEY(int, shared_ffn, 0, "inner width of all shared experts; 0 = shared_experts x ffn", 0,
        upto::width);
    KEY(int, dense_layers, 0, "first layers without experts", 0, 10000);  // of width workload.ffn
    KEY(int, interval, 1, "every how many layers experts occur", 1, 10000);
    KEY(int, groups, 1, "groups of experts", 1, upto::width);
    // DeepSeek's node-limited routing
    KEY(int, top_groups, 1, "groups that the experts of a token are in", 1, upto::width);
    KEY(bool, router_bias, false, "one load-balancing bias an expert");
    KEY(bool, shared_gate, false,
        "what the shared experts give is multiplied by a gate of one number a token");
    friend bool operator==(const Moe&, const Moe&) = default;
};

// Mamba-2 blocks in place of most of the attention (arXiv 2405.21060). Each layer has one Mamba
// block and the share `attention` of an attention block, because attention blocks are few and
// evenly spread. heads = 0: no Mamba blocks.
struct Mamba {
    KEY(int, heads, 0, "Mamba-2 blocks: heads; 0 = no such blocks", 0, upto::width);
    KEY(int, head_dim, 64, "width of such a head", 1, upto::width);
    KEY(int, state, 128, "state of a group", 1, upto::width);
    KEY(int, groups, 8, "groups that share a state", 1, upto::width);
    KEY(double, attention, 0, "attention blocks a layer next to them", 0, 1);
    friend bool operator==(const Mamba&, const Mamba&) = default;
};

// Gated delta nets (arXiv 2412.06464) in place of attention in all layers but every `interval`-th,
// as Qwen3-Next has them: transformers 5.24.0, models/qwen3_next/modeling_qwen3_next.py.
struct Delta {
    KEY(int, value_heads, 0, "gated delta nets: heads of values; 0 = no such layers", 0,
        upto::width);
    KEY(int, key_heads, 0, "heads of queries and keys; 0 = value_heads", 0, upto::width);
    // as fla's kernels (flash-linear-attention 0.6.0, fla/ops/common/chunk_delta_h.py)
    KEY(int, key_dim, 128, "width of a query and of a key", 1, 256);
    KEY(int, value_dim, 128, "width of a value", 1, upto::width);
    KEY(int, conv, 4, "tokens that the short convolution before them spans", 1, 64);
    KEY(int, interval, 4, "every how many layers attention occurs in their place; 0 = never", 0,
        10000);
    friend bool operator==(const Delta&, const Delta&) = default;
};

// DeepSeek's sparse attention: an indexer scores all earlier tokens for each query, and latent
// attention reads the keys with the highest scores (transformers 5.24.0,
// models/deepseek_v32/modeling_deepseek_v32.py; Megatron-Core 0.16.0,
// transformer/experimental_attention_variant/dsa.py).
struct Indexer {
    KEY(int, heads, 0,
        "sparse attention: heads of the indexer that selects keys; 0 = attention to all keys", 0,
        upto::width);
    KEY(int, head_dim, 128, "width of such a head", 1, upto::width);
    KEY(int, top_k, 2048, "keys that a token attends to", 1, upto::tokens);
    friend bool operator==(const Indexer&, const Indexer&) = default;
};

// One tower of a model with several towers: `layers` blocks of attention and feed-forward over
// `seq` positions of width `hidden`.
struct Tower {
    KEY(int, layers, 0, "layers", 0, 10000);
    KEY(int, hidden, 0, "width", 0, upto::width);
    KEY(int, heads, 0, "attention heads", 0, upto::width);
    KEY(int, ffn, 0, "inner width of the feed-forward block", 0, upto::width);
    KEY(int, seq, 0, "positions", 0, upto::tokens);
    KEY(bool, gated, false, "feed-forward with a gate");  // SwiGLU: three matrices
    // operation by operation, with separate projections
    KEY(bool, rotary, false, "queries and keys are turned");
    // of the attention's result and of the feed-forward's inner width
    KEY(bool, sub_norms, false, "norms inside attention and feed-forward");
    KEY(bool, causal, false, "causal: attention to earlier positions only");
    // in 16 bit; false: the framework's, which autocast runs in fp32
    KEY(bool, fused_norms, true, "norms have a kernel of their own");
    friend bool operator==(const Tower&, const Tower&) = default;
};

// `kind` determines how the shapes are read. moe_layer: `layers` times gate + experts (two GEMMs
// hidden x ffn and back, GELU between), forward and backward, no optimizer. mlp: `layers` times two
// dense GEMMs of those shapes with GELU between, gradients all-reduced over the data-parallel ranks
// in buckets, then the optimizer. transformer: embedding, `layers` blocks of attention and
// feed-forward, final norm, logits, loss, optimizer. coca (CoCa, arXiv 2205.01917): the workload's
// own shapes are those of the text tower; `vision` reads patches; a pooler of `pool_queries` reads
// its result, and a pooler of one query reads the first pooler's result; each layer of `decoder`
// has a block over the text and one that attends to the pooled patches.
struct Workload {
    NAMED_ENUM_IN(Kind, "a workload kind", moe_layer, mlp, transformer, coca);
    KEY(std::string, name, {}, "name in reports");
    KEY(Kind, kind, Kind::moe_layer, "how the shapes are read");
    KEY(int, layers, 1, "layers", 1, 10000);
    KEY(int, hidden, 0, "model width", 1, upto::width);
    KEY(int, heads, 0, "attention heads", 0, upto::width);
    KEY(int, kv_heads, 0, "key and value heads; 0 = heads", 0, upto::width);
    KEY(int, head_dim, 0, "width of a head; 0 = hidden / heads", 0, upto::width);
    KEY(int, ffn, 0, "inner width of the feed-forward block, of one expert", 1, upto::width);
    KEY(int, vocab, 0, "vocabulary", 0, upto::tokens);
    KEY(bool, gated, false, "feed-forward with a gate: three matrices");
    KEY(bool, tied, true, "logits use the weights of the embedding");
    KEY(int, seq, 0, "tokens of one sequence", 1, upto::tokens);
    KEY(int, max_positions, 0, "rows of the learned position table; 0 = seq", 0, upto::tokens);
    KEY(Positions, positions, Positions::learned, "how positions are encoded");
    KEY(int, memory, 0, "Transformer-XL memory length: tokens before the sequence", 0,
        upto::tokens);
    // itself among them
    KEY(int, window, 0, "tokens that one sees in layers with sliding windows; 0 = all before it", 0,
        upto::tokens);
    KEY(double, window_share, 1, "share of the layers with sliding windows", 0, 1);
    // Modules that predict further tokens, on the last stage (DeepSeek-V3, arXiv 2412.19437,
    // section 2.2). Each has norms of the model's output and of the next token's embedding, a
    // projection of both together, a layer like the last, and the logits again.
    KEY(int, mtp_layers, 0,
        "multi-token prediction: modules of one layer and the logits that predict further tokens",
        0, 8);
    KEY(int, token_types, 0, "rows of the token-type table", 0, 1024);
    KEY(Norm, norm, Norm::layernorm, "normalisation");
    KEY(bool, causal, true, "causal: attention to earlier tokens only");
    // also of experts
    KEY(bool, linear_bias, true, "biases in the output projection and the feed-forward block");
    KEY(bool, qkv_bias, true, "biases in the query, key and value projections");
    KEY(bool, post_norms, false,
        "what attention and feed-forward add to the residual stream is normalized first");
    KEY(bool, qk_norm, false, "queries and keys are normalized, head by head");
    KEY(bool, attention_gate, false,
        "what attention gives is multiplied by a gate, which a query projection of twice the width "
        "makes");
    // 0: no mask is made, read or kept
    KEY(double, dropout, 0, "share of activations dropped; 0 = no dropout", 0, 1);
    KEY(bool, inner_dropout, false, "dropout after the activation");
    KEY(bool, score_dropout, true, "dropout of attention scores, where there is dropout");
    KEY(Activation, activation, Activation::gelu,
        "activation of a feed-forward block without gate");
    KEY(Head, head, Head::tokens, "what the model's end scores");
    // for masked language models: the masked positions
    KEY(double, head_share, 1, "share of the positions whose logits are made", 0, 1);
    // adaptive softmax over one table
    KEY(int, table_slices, 1, "slices of the embedding's table that logits are made of", 1, 1024);
    // arXiv 2106.09685
    KEY(int, adapter_rank, 0,
        "LoRA: rank of the matrices trained in addition to frozen ones; 0 = all weights are "
        "trained",
        0, upto::width);
    KEY(Adapted, adapter_on, Adapted::attention,
        "LoRA: where such matrices are: at attention's projections, or at all linear layers but "
        "routers and experts");
    KEY(std::vector<AdaptedModule>, adapter_modules, {},
        "LoRA: the projections that have such matrices, not those of latent attention; empty = as "
        "adapter_on says");
    KEY(FrozenWeights, frozen, FrozenWeights::stored,
        "LoRA: how the linear layers of blocks keep their frozen weights: as other weights, or in "
        "4 or 8 bits, which every product first makes 16-bit weights of");
    KEY(Reference, reference, Reference::none,
        "frozen model whose forward each micro-batch also takes, as DPO's: a copy of this one, or "
        "the base that adapters stand beside");
    KEY(int, reference_forwards, 1,
        "forwards of the reference for each micro-batch: 1 of DPO; 3 of KTO, one of which is the "
        "model's own without gradients",
        1, 16);
    KEY(Mla, mla, {}, "");
    KEY(Mamba, mamba, {}, "");
    KEY(Delta, delta, {}, "");
    KEY(Indexer, indexer, {}, "");
    KEY(Dtype, dtype, Dtype::fp16, "element type of weights and activations");
    KEY(Optimizer, optimizer, Optimizer::none, "optimizer");
    KEY(bool, fp32_loss, true, "composed loss: the logits are cast to fp32 before it");
    KEY(Tower, vision, {}, "vision tower");
    KEY(Tower, decoder, {}, "decoder of the text that sees the image");
    KEY(int, patch, 16, "pixels of a patch's side", 1, 1024);  // three colours
    KEY(int, pool_queries, 256, "what the decoder sees of an image", 1, 1 << 20);
    KEY(Moe, moe, {}, "");
    friend bool operator==(const Workload&, const Workload&) = default;
};

// Whether keys and values of attention are projected from a low-rank latent.
inline bool is_latent(const Workload& w) { return w.mla.kv_rank > 0; }

}  // namespace stepcast
