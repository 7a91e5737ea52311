// How a training framework runs an experiment: kernels, overlaps, types, and the host time of its
// own code. It is data (model/presets/frameworks/): keys that a file leaves out keep the value of
// workload, split and cluster.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/cluster.h"
#include "model/parallelism.h"
#include "model/workload.h"

namespace stepcast {

// "KEY=VALUE" from the command line, e.g. {"cluster.link.intra.bandwidth", "900 GB/s"}. The table
// may be omitted where only one table has the key: tp for parallelism.tp.
struct Override {
    std::string key, value;
    friend bool operator==(const Override&, const Override&) = default;
};

// training: the 16-bit type of training, or fp32 if training is in fp32 or tf32.
NAMED_ENUM(GradientType, "a gradient type", training, fp32, fp16, bf16);

// Host costs of the framework's own code. They replace the cluster's host costs of the same names.
struct FrameworkHost {
    KEY(std::optional<Seconds>, call, {}, "issue one kernel", 0, 1e6);
    KEY(std::optional<Seconds>, layer, {}, "one pass of a transformer layer, on top of its calls",
        0, 1e6);
    KEY(std::optional<Seconds>, expert_layer, {},
        "one pass of an expert layer whose tokens go once; else of each expert, which then run one "
        "by one; on top of its calls",
        0, 1e6);
    KEY(std::optional<Seconds>, micro_batch, {},
        "one pass of a micro-batch through a stage, on top of its layers", 0, 1e6);
    KEY(std::optional<Seconds>, exchange, {}, "one tensor-parallel collective, on top of its call",
        0, 1e6);
    KEY(std::optional<Seconds>, exchange_setup, {}, "one group of sends and receives", 0, 1e6);
    KEY(std::optional<Seconds>, update, {}, "call the optimizer of a parameter group", 0, 1e6);
    KEY(std::optional<Seconds>, module_forward, {},
        "zero 3: hooks around one module of a layer, embedding or head, in forward; empty = no "
        "module has hooks",
        0, 1e6);
    KEY(std::optional<Seconds>, module_backward, {}, "the same in backward", 0, 1e6);
    friend bool operator==(const FrameworkHost&, const FrameworkHost&) = default;
};

// What the framework can run; `sweep --vary parallelism=all` walks nothing else. An empty list
// allows everything. Experts whose split it refuses at its start are refused by every verb
// (check_framework()).
struct FrameworkAbilities {
    KEY(bool, tensor, true, "has tensor parallelism");
    KEY(bool, sequence, true, "has sequence parallelism");
    KEY(bool, experts_without_sequence, true,
        "runs experts on tensor-parallel ranks without sequence parallelism");
    KEY(bool, context, true, "has context parallelism");
    KEY(bool, pipeline, true, "has pipelines");
    KEY(bool, interleaved, true, "has 1f1b with several chunks a stage");
    KEY(std::vector<Schedule>, schedules, {}, "its pipeline schedules; empty = all");
    KEY(std::vector<StageLayout>, layouts, {}, "its layouts of stages; empty = all");
    KEY(std::vector<int>, zero, {}, "its ZeRO stages; empty = all");
    KEY(std::vector<Recompute>, recompute, {}, "what it recomputes; empty = all");
    friend bool operator==(const FrameworkAbilities&, const FrameworkAbilities&) = default;
};

struct Framework {
    // empty: no framework, the experiment sets every key
    KEY(std::string, name, {}, "name in reports");
    KEY(std::string, about, {}, "what it stands for, in reports");
    KEY(std::vector<std::string>, may_be, {},
        "frameworks that it may stand for: the interval covers them too");
    KEY(std::optional<AttentionKind>, attention, {},
        "attention kernel, of models without a kind of their own");
    KEY(std::optional<double>, dropout, {}, "share of activations dropped", 0, 1);
    KEY(std::optional<bool>, tied, {},
        "false: models with learned positions that do not say it share no weights between "
        "embedding and logits");
    KEY(std::optional<Optimizer>, optimizer, {}, "optimizer");
    KEY(std::optional<bool>, master_weights, {},
        "16-bit weights have an fp32 copy that the optimizer updates");
    KEY(std::optional<bool>, clip_scales, {},
        "clipping scales the gradients in every step, as torch.nn.utils.clip_grad_norm_");
    KEY(std::optional<bool>, fused_optimizer, {},
        "the optimizer's update is one pass; false: PyTorch's foreach, pass by pass");
    KEY(std::optional<Recompute>, recompute, {},
        "recompute of a case that does not state it; empty: the least that fits");
    KEY(std::optional<GradientType>, gradients, {},
        "element type of gradients; training: the 16-bit type of training");
    KEY(std::vector<int>, gradient_copies, {},
        "by ZeRO stage: passes over all gradients of a rank around their reduction (into buckets, "
        "division, back), of zero 2 and 3 in every micro-batch; empty = none");
    KEY(std::vector<int>, update_copies, {},
        "by ZeRO stage: further passes over the gradients that a rank updates (checks, flat "
        "copies); the update then holds flat copies of them, one in fp32, and takes one call; "
        "empty = none");
    KEY(bool, wide_norm, false, "zero 1 to 3: gradients are cast to fp64 for their norm");
    KEY(std::vector<int>, update_calls, {},
        "by ZeRO stage: calls for each parameter (optimizer_groups_a_layer) that these passes "
        "take");
    KEY(bool, update_waits, false,
        "the host waits for the backward before the optimizer, and for the gradients' check and "
        "norm in it");
    KEY(std::optional<bool>, frees_gradients, {},
        "gradients are freed after the update, not set to zero");
    KEY(std::optional<double>, bucket_weights, {},
        "weights in a gradient bucket; 0 = one bucket for all", 0, 1e15);
    // always under ZeRO 3, which gathers parameters early
    KEY(std::optional<bool>, overlap, {}, "gradient collectives overlap the backward");
    KEY(std::optional<bool>, overlap_params, {},
        "zero 1, 2: parameters are gathered during the next forward");
    KEY(std::optional<bool>, overlap_tp, {},
        "tensor-parallel collectives overlap GEMMs, where the sequence is split too");
    KEY(std::optional<bool>, overlap_p2p, {}, "sends between stages overlap other tasks");
    KEY(std::optional<bool>, overlap_weight_gradient, {},
        "tensor-parallel collectives of the backward overlap the weight gradient");
    KEY(std::optional<bool>, gather_copies, {},
        "tensor-parallel collectives of a split sequence put the whole in order by a copy");
    KEY(std::optional<bool>, fused_projections, {},
        "query, key and value are one product, gate and up another");
    KEY(std::optional<bool>, fused_gate, {},
        "without fused projections: activation and gate's product are one kernel");
    KEY(bool, interleaves, false, "cases that do not state vp: stages hold several chunks");
    KEY(bool, balances_stages, false,
        "cases: stages hold layers of equal matrix products, those of the logits counted");
    KEY(std::optional<bool>, fused_accumulation, {},
        "weight-gradient GEMMs add into the accumulated gradients themselves");
    KEY(std::optional<bool>, fused_loss, {}, "softmax and loss in one pass over the logits");
    KEY(std::optional<bool>, eager, {}, "element-wise passes run operation by operation");
    KEY(std::optional<double>, eager_traffic, {},
        "eager: bytes of element-wise passes over those of fused ones", 0, 10);
    KEY(std::vector<Composed>, composed, {},
        "operators that it composes of PyTorch's; empty = as the experiment says");
    KEY(std::optional<bool>, autocast, {},
        "norms and residuals in fp32, casts around matrix products");
    KEY(std::optional<double>, shard_rate, {},
        "zero 3: rate of its collectives between nodes over the law's, in place of "
        "link.inter.training; 0 = that",
        0, 10);
    KEY(std::optional<bool>, unfused, {}, "each element-wise operation is a kernel by itself");
    KEY(std::optional<bool>, recompute_stops_early, {},
        "full recompute ends with the last tensor that the backward needs");
    KEY(std::optional<bool>, reads_loss, {}, "the host waits for the loss before the optimizer");
    KEY(double, head_share, 1,
        "share of the positions whose logits are made; 1 = as the model says", 0.001, 1);
    KEY(int, vocab_multiple, 0,
        "each tensor-parallel rank holds a multiple of this many words; 0 = as the experiment says",
        0, 65536);
    KEY(int, mean_sequence, 0, "cases: tokens of a padded sequence in the mean; 0 = all are full",
        0, upto::tokens);
    KEY(int, optimizer_groups_a_layer, 0,
        "parameters of a layer that the optimizer updates one by one; 0 = fused, or two an expert "
        "with more calls than one",
        0, 1000);
    KEY(int, optimizer_calls, 1, "calls of the optimizer for each of them", 1, 1000);
    KEY(bool, expert_graphs, false,
        "on Blackwell, expert layers but their experts run as CUDA graphs");
    KEY(ExpertProducts, expert_products, ExpertProducts::grouped,
        "how a rank's experts multiply; fused only in fp8 and fp4 on Blackwell, else each by "
        "itself");
    KEY(std::optional<bool>, expert_tensor_parallel, {},
        "wide experts are split over the tensor-parallel ranks; narrow ones are not");
    // the default of Megatron-Core's script
    KEY(bool, cuts_narrow_experts, false, "narrow experts are split like wide ones");
    KEY(std::optional<bool>, blocking_p2p, {},
        "one chunk a stage: the host waits for every send and receive between stages");
    KEY(std::optional<bool>, launch_blocking, {},
        "the host waits for every kernel of a layer (CUDA_LAUNCH_BLOCKING): what a pass costs it "
        "adds to them");
    KEY(bool, dispatch_once, false,
        "dropless routing sends a token once to a rank and once to a node");
    KEY(double, reserved, 1, "memory that its allocator reserves over what tensors take", 1, 10);
    KEY(FrameworkHost, host, {}, "");
    KEY(FrameworkAbilities, can, {}, "");
    std::optional<Fitted> fitted;

    // Keys that the adopting experiment states itself, so the framework leaves them alone.
    std::vector<std::string> stated;
    // Values that the framework replaced; they are restored before another framework is adopted.
    std::vector<Override> replaced;
    friend bool operator==(const Framework&, const Framework&) = default;
};

// Used if nobody names a framework.
inline constexpr std::string_view default_framework = "default";

// A file, or a preset by name. Throws ConfigError with file:line:column, or with the known names
// and how to write a new one.
Framework read_framework(const std::string& path_or_preset);
// TOML text that read_framework() reads back to an equal value.
std::string write_framework(const Framework& framework);

struct Experiment;

// Restores what the framework had replaced, then sets every key that it decides, a step of this
// workload reads and the experiment does not state. Sets nothing if the framework has no name.
// Idempotent.
void adopt_framework(Experiment& experiment);
// True if adopt_framework() may set the key.
bool decides(const Framework& framework, std::string_view key);
// Sets in `split` what adopt_framework() derives there from the rest of the split, for walks over
// many splits of `base`, which has adopted its framework.
void follow_framework(const Experiment& base, Parallelism& split);
// True if hooks around every module gather its weights under ZeRO 3.
bool hooks_modules(const Framework& framework);
// The keys of the split that decide more: keys beyond [parallelism], or parallelism.blocking_p2p.
// Such splits have no common base.
std::vector<std::string_view> split_keys_beyond(const Experiment& base);

}  // namespace stepcast
