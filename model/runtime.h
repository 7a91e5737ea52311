// How the software executes a step: the style of its kernels, what it fuses, what overlaps, the
// types of gradients and states, how tokens and gradients are sent. A framework is an overlay of
// this table (framework.h). What a key means together with other keys is in runtime_rules.h.
#pragma once

#include <vector>

#include "model/base/bucket_size.h"
#include "model/base/dtype.h"
#include "model/base/units.h"
#include "model/input/keyed.h"

namespace stepcast {

// fused: element-wise passes are compiled into few kernels. eager: operation by operation, with
// more traffic. operations: each element-wise operation is a kernel of its own
// (model/block/unfused.h). script: one rank, each operator is the kernels that an eager PyTorch
// script launches for it (model/recorded/script/).
NAMED_ENUM(KernelStyle, "a style of kernels", fused, eager, operations, script);

// Operators that a library writes in Python: each of their steps is a kernel
// (model/block/composed.h).
NAMED_ENUM(Composed, "a composed operator", norms, rotary, activation, experts, loss, column_sums,
           adapters, softmax);

// plain: scores, softmax and dropout go through memory. flash: one kernel keeps the scores on chip.
// flash2: the second generation (FlashAttention-2, written for A100; on newer devices slower than
// the vendor's kernels). triton: the same algorithm as Triton compiled it in 2022 and 2023.
NAMED_ENUM(AttentionKind, "an attention kernel", plain, flash, flash2, triton);

// How attention gets the keys of the other context-parallel ranks: around a ring during the
// computation, or gathered before it.
NAMED_ENUM_AS(ContextExchange, "a context exchange", "ring, all-gather", ring, all_gather);

// training: the 16-bit type of training, or fp32 if training is in fp32 or tf32.
NAMED_ENUM(GradientType, "a gradient type", training, fp32, fp16, bf16);

// When gradient collectives overlap the backward. zero3: under ZeRO 3 alone.
NAMED_ENUM(GradientOverlap, "an overlap of gradients", never, zero3, always);
// When tensor-parallel collectives overlap GEMMs. split_sequence: where the sequence is split too.
NAMED_ENUM(TensorOverlap, "an overlap of tensor-parallel collectives", never, split_sequence,
           always);

// Which experts are split over the tensor-parallel ranks. wide: those of at least the model's
// width; published recipes do not split narrower ones (expert_tensor_parallel_size 1).
NAMED_ENUM(ExpertSplit, "a split of experts", all, wide, none);

// How tokens reach their experts. once: once a rank and once a node, however many of its experts
// are there (DeepEP). once_dropless: so where several ranks hold the experts and no token is
// dropped.
NAMED_ENUM(TokenDispatch, "a dispatch of tokens", all_to_all, once, once_dropless);

// How a rank's experts multiply. grouped: one kernel over all experts; casts and activation are
// separate passes. each: expert by expert, with separate kernels (Transformer Engine's
// GroupedLinear). fused: one kernel with activation and casts (its grouped MLP in MXFP8 and NVFP4,
// from 2.20 on); tokens are sorted by expert while they are sent.
NAMED_ENUM(ExpertProducts, "a kind of expert products", grouped, each, fused);

// When logits exist. whole: all of a micro-batch, from the product to the loss's backward. chunks:
// of some rows at a time, whose loss and gradients are made in the forward (liger-kernel 0.8.5,
// ops/fused_linear_cross_entropy.py). recomputed: blocks on chip, multiplied again in the backward
// (cut-cross-entropy 25.1.1, cce.py).
NAMED_ENUM(LogitsKept, "a way of the logits", whole, chunks, recomputed);

// Where device memory comes from. caching: PyTorch's allocator, which keeps what it once took.
// arena: one region that the compiler plans ahead (XLA), so nothing lies between tensors.
NAMED_ENUM(AllocatorKind, "an allocator", caching, arena);

// What ranks hold parts of. flat: of one tensor for each unit of the model, which is gathered
// whole, its parameters views of it (FSDP 1, Megatron's). dtensors: of each parameter, by PyTorch's
// DTensor (FSDP 2): units are gathered in one tensor, which is copied out to the parameters, and
// under tensor parallelism the gather of a split sequence is an operator of automatic
// differentiation.
NAMED_ENUM(WeightShards, "a kind of weight shards", flat, dtensors);

struct LossKernels {
    KEY(bool, fused, true, "softmax and loss in one kernel over the logits");
    KEY(int, pieces, 1, "slices of the logits whose losses are added up", 1, 1 << 20);
    // false: the model returns logits, and its forward ends before the loss
    KEY(bool, in_forward, true, "the forward computes the loss too");
    // Hugging Face's Trainer, logging_nan_inf_filter
    KEY(bool, read, false,
        "the host reads the loss after each micro-batch's backward, and waits for the device");
    KEY(LogitsKept, logits, LogitsKept::whole,
        "when logits exist: all of a micro-batch; of some rows at a time, with their gradients; or "
        "never, and they are multiplied twice");
    friend bool operator==(const LossKernels&, const LossKernels&) = default;
};

struct Gradients {
    KEY(GradientType, type, GradientType::fp32,
        "element type of accumulated and reduced gradients; training: the 16-bit type of training");
    KEY(BucketSize, bucket, BucketSize(Bytes(25e6)),
        "gradient bucket: bytes, \"40e6 weights\", or \"one\" for all");
    // fusion is off (one collective a tensor), or a bucket's size was stated in too small a unit
    KEY(int, pieces, 1, "equal parts of a bucket, each reduced by a collective of its own", 1,
        4096);
    // PyTorch's set_to_none
    KEY(bool, freed, false, "gradients are freed after the update, not set to zero");
    // DeepSpeed's contiguous_gradients: sim/memory/flat_tensors.h
    KEY(bool, flat, false,
        "zero 1 to 3: gradients are copied into whole buckets; a rank's parts of gradients, "
        "weights "
        "and states are one tensor each");
    KEY(bool, fused_accumulation, true,
        "weight-gradient GEMMs add into the accumulated gradients themselves");
    KEY(std::vector<int>, copies, {},
        "by ZeRO stage: kernels over all gradients of a rank around their reduction (into buckets, "
        "division, back), of zero 2 and 3 in every micro-batch; empty = none");
    KEY(bool, clip_per_rank, false,
        "the gradient norm is each stage's own, not summed over stages");
    KEY(bool, join_tied, true, "stages that share tied embeddings sum their gradients");
    friend bool operator==(const Gradients&, const Gradients&) = default;
};

struct OptimizerKernels {
    // false: moments have the weights' type
    KEY(bool, master_weights, true, "16-bit weights have an fp32 copy that the optimizer updates");
    KEY(bool, clip_scales, false,
        "clipping scales the gradients in every step, as torch.nn.utils.clip_grad_norm_; else only "
        "where their norm is too large, which is not counted");
    KEY(bool, fused, true,
        "one kernel over the optimizer's tensors; else PyTorch's foreach, one for each of its "
        "operations");
    KEY(bool, reads_loss, false, "the host waits for the loss before the optimizer");
    KEY(int, groups, 0,
        "parameter groups with optimizer kernels of their own; 0 = as groups_a_layer or "
        "visits_experts say, else one",
        0, 1 << 20);
    // gradient copies, norm, clip, update, zeroing
    KEY(int, calls, 1, "calls of the optimizer for each group", 1, 1000);
    KEY(int, groups_a_layer, 0,
        "parameters of a layer that the optimizer updates one by one; 0 = fused", 0, 1000);
    KEY(bool, visits_experts, false,
        "fused but for experts: each of an expert's two tensors is a group of its own");
    KEY(std::vector<int>, copies, {},
        "by ZeRO stage: further kernels over the gradients that a rank updates (checks, flat "
        "copies); the update then holds flat copies of them, one in fp32, and takes one call; "
        "empty = none");
    KEY(std::vector<int>, copy_calls, {},
        "by ZeRO stage: calls for each parameter (groups_a_layer) that these kernels take");
    KEY(BucketSize, part, BucketSize::one(),
        "zero 3, gradients.flat: weights that an update takes at a time");
    KEY(bool, wide_norm, false, "zero 1 to 3: gradients are cast to fp64 for their norm");
    KEY(bool, flat_gathers, false,
        "zero 1: updated weights are gathered through flat copies, one of each rank's part and one "
        "of all");
    KEY(bool, waits, false,
        "the host waits for the backward before the optimizer, and for the gradients' check and "
        "norm in it");
    KEY(Dtype, muon, Dtype::bf16, "muon: element type of the GEMMs that orthogonalize");
    // DeepSpeed, runtime/zero/stage_1_and_2.py
    KEY(bool, host_gradients, false,
        "run.offload_optimizer: no gradient stays on the device, each micro-batch adds to the "
        "host's, and the host casts the weights; else weights and gradients cross once, in fp32");
    friend bool operator==(const OptimizerKernels&, const OptimizerKernels&) = default;
};

// Switches of collectives and sends; a sweep walks them with the split (ParallelPlan).
struct Exchanges {
    KEY(GradientOverlap, gradients, GradientOverlap::always,
        "gradient collectives overlap the backward", Affects::overlap);
    KEY(bool, parameters, true, "zero 1, 2: parameters are gathered during the next forward",
        Affects::overlap);
    KEY(TensorOverlap, tensor, TensorOverlap::never,
        "tensor-parallel collectives overlap GEMMs, in chunks", Affects::shape);
    KEY(bool, weight_gradient, true,
        "tensor-parallel collectives of the backward overlap the weight gradient", Affects::shape);
    KEY(bool, sends, true, "sends between stages overlap other tasks", Affects::pipeline);
    // without sequence_parallel
    KEY(bool, scatter_sends, true,
        "each tensor-parallel rank sends its part to the next stage, then they gather",
        Affects::sends);
    friend bool operator==(const Exchanges&, const Exchanges&) = default;
};

struct ExpertKernels {
    // none: ep includes those ranks
    KEY(ExpertSplit, tensor_parallel, ExpertSplit::all,
        "which experts are split over the tensor-parallel ranks");
    KEY(TokenDispatch, dispatch, TokenDispatch::all_to_all, "how tokens reach their experts");
    KEY(ExpertProducts, products, ExpertProducts::grouped,
        "GEMMs of a rank's experts: one kernel, each by itself, or one kernel with activation and "
        "casts");
    KEY(bool, one_by_one, false,
        "experts of all-to-alls run one by one, each for cluster.host.expert_layer");
    friend bool operator==(const ExpertKernels&, const ExpertKernels&) = default;
};

// What a hop between stages sends: model/transformer/hops.h.
struct StageMessages {
    // in sequence; these hosts run nothing else meanwhile
    KEY(bool, blocking, false, "each message between stages holds the hosts of both ends");
    KEY(int, messages_per_tensor, 1,
        "messages that carry one tensor between stages: headers and data", 1, 1000);
    KEY(int, messages_per_tuple, 0, "messages that frame the tensors of one stage", 0, 1000);
    KEY(bool, resend_first_stage, false,
        "every later hop carries what the first stage sent once more");
    KEY(int, gradient_tensors, 0,
        "tensors of a hop back, those without data too; 0 = the tensors of the cut", 0, 1000);
    friend bool operator==(const StageMessages&, const StageMessages&) = default;
};

struct Runtime {
    KEY(KernelStyle, kernels, KernelStyle::fused,
        "style of elementwise kernels: compiled, operation by operation, each a kernel of its own, "
        "or as an eager script launches them");
    KEY(double, eager_traffic, 2, "eager: bytes of elementwise kernels over those of fused ones",
        0.5, 10);
    KEY(std::vector<Composed>, composed, {},
        "operators that run op by op in PyTorch, not fused: RMS norms, rotary positions, GELU in "
        "steps, kernels around experts, cross entropy, gradients of biases and norms, adapters, "
        "plain attention's softmax in "
        "fp32");
    KEY(AttentionKind, attention, AttentionKind::plain,
        "attention kernel; MLA (workload.mla) has its own");
    KEY(bool, autocast, false, "norms, softmax and residuals in fp32, casts around GEMMs");
    // FSDP's mixed precision, JAX
    KEY(bool, wide_weights, false,
        "weights are kept in fp32 alone; passes gather or cast 16-bit copies, which the optimizer "
        "does not see");
    KEY(bool, narrow_weights, false,
        "fp8 and fp4: matrices of layers are kept in that type alone, without 16-bit ones");
    KEY(bool, fused_projections, true, "query, key and value are one GEMM, gate and up another");
    KEY(bool, fused_gate, false,
        "without fused projections: activation and the product with the gate are one kernel");
    // torchao's "rowwise"
    KEY(bool, row_scales, false,
        "fp8: GEMMs with a scale for each row, whose casts are kernels of their own");
    KEY(int, vocab_multiple, 1,
        "vocabulary padding: each tensor-parallel rank holds a multiple of so many words", 1,
        65536);
    KEY(bool, recompute_stops_early, false,
        "full recompute ends with the last tensor that the backward needs");
    KEY(ContextExchange, context_exchange, ContextExchange::ring,
        "how keys and values of other context-parallel ranks arrive");
    KEY(bool, gather_copies, false,
        "sequence parallelism: tensor-parallel collectives without overlap put the whole sequence "
        "in order by a copy ([batch, sequence, hidden])");
    KEY(WeightShards, weight_shards, WeightShards::flat,
        "what ranks hold parts of: a unit's flat tensor, or each parameter as a DTensor, to which "
        "gathered units are copied out and whose products keep a gathered sequence");
    KEY(bool, root_unit, false,
        "zero 3: embedding, final norm and head are one unit, gathered from the forward to the "
        "backward; else only the head stays gathered");
    KEY(bool, module_hooks, false,
        "zero 3: hooks around every module of a layer, embedding or head");
    KEY(double, reuse_distance, 0,
        "module_hooks: weights stay gathered that are used again before so many others", 0, 1e12);
    KEY(bool, blocking_layers, false,
        "the host waits for every kernel of a layer (CUDA_LAUNCH_BLOCKING): host time of a layer "
        "adds to the kernels'");
    KEY(double, reserved, 1, "memory that the allocator reserves over memory of the tensors", 1,
        10);
    KEY(AllocatorKind, allocator, AllocatorKind::caching,
        "where tensors get their memory: PyTorch's cache, or a region planned ahead (XLA)");
    // record_stream: memory comes back when the device has passed
    KEY(int, host_lead, 0,
        "layers that the host is ahead of the device: so long is kept what asynchronous "
        "tensor-parallel collectives read and write",
        0, 16);
    KEY(bool, stacked_heads, false,
        "queries stay a view of the projections' result, keys and values are copied out of it, "
        "where every head has keys of its own");
    KEY(LossKernels, loss, {}, "");
    KEY(Gradients, gradients, {}, "");
    KEY(OptimizerKernels, optimizer, {}, "");
    KEY(Exchanges, exchanges, {}, "");
    KEY(ExpertKernels, experts, {}, "");
    KEY(StageMessages, pipeline, {}, "");
    friend bool operator==(const Runtime&, const Runtime&) = default;
};

}  // namespace stepcast
