// Keys of [framework] and of framework files. What a file does not state stays as the experiment, or the key's own default,
// says.
#include "model/keys/key_values.h"

namespace stepcast {
namespace {

using E = Experiment;
using F = Framework;
using H = FrameworkHost;
using A = FrameworkAbilities;

constexpr double longest = 1e6;

template <auto... of> constexpr KeyField f = field<&E::framework, of...>;

// clang-format off: a key a line, where it fits
const Key table[] = {
    {"framework.preset", PresetField{PresetKind::framework}, "framework to start from: a preset's name or a file"},
    {"framework.name", f<&F::name>, "name in reports"},
    {"framework.about", f<&F::about>, "what it stands for, in reports"},
    {"framework.may_be", f<&F::may_be>, "frameworks that it may stand for: the interval covers them too"},
    {"framework.attention", f<&F::attention>, "attention kernel, of models without a kind of their own"},
    {"framework.dropout", f<&F::dropout>, "share of activations dropped", 0, 1},
    {"framework.tied", f<&F::tied>, "false: models with learned positions that do not say it share no weights between embedding and logits"},
    {"framework.optimizer", f<&F::optimizer>, "optimizer"},
    {"framework.recompute", f<&F::recompute>, "recompute of a case that does not state it; empty: the least that fits"},
    {"framework.gradients", f<&F::gradients>, "element type of gradients; training: the 16-bit type of training"},
    {"framework.bucket_weights", f<&F::bucket_weights>, "weights in a gradient bucket; 0 = one bucket for all", 0, 1e15},
    {"framework.overlap", f<&F::overlap>, "gradient collectives overlap the backward"},
    {"framework.overlap_params", f<&F::overlap_params>, "zero 1, 2: parameters are gathered during the next forward"},
    {"framework.overlap_tp", f<&F::overlap_tp>, "tensor-parallel collectives overlap GEMMs, where the sequence is split too"},
    {"framework.overlap_p2p", f<&F::overlap_p2p>, "sends between stages overlap other tasks"},
    {"framework.overlap_weight_gradient", f<&F::overlap_weight_gradient>,
     "tensor-parallel collectives of the backward overlap the weight gradient"},
    {"framework.gather_copies", f<&F::gather_copies>, "tensor-parallel collectives of a split sequence put the whole in order by a copy"},
    {"framework.fused_projections", f<&F::fused_projections>, "query, key and value are one product, gate and up another"},
    {"framework.fused_gate", f<&F::fused_gate>, "without fused projections: activation and gate's product are one kernel"},
    {"framework.interleaves", f<&F::interleaves>, "cases that do not state vp: stages hold several chunks"},
    {"framework.balances_stages", f<&F::balances_stages>,
     "cases: stages hold layers of equal matrix products, those of the logits counted"},
    {"framework.fused_accumulation", f<&F::fused_accumulation>,
     "weight-gradient GEMMs add into the accumulated gradients themselves"},
    {"framework.fused_loss", f<&F::fused_loss>, "softmax and loss in one pass over the logits"},
    {"framework.eager", f<&F::eager>, "element-wise passes run operation by operation"},
    {"framework.eager_traffic", f<&F::eager_traffic>, "eager: bytes of element-wise passes over those of fused ones", 0, 10},
    {"framework.shard_rate", f<&F::shard_rate>,
     "zero 3: rate of its collectives between nodes over the law's, in place of link.inter.training; 0 = that", 0, 10},
    {"framework.unfused", f<&F::unfused>, "each element-wise operation is a kernel by itself"},
    {"framework.recompute_stops_early", f<&F::recompute_stops_early>,
     "full recompute ends with the last tensor that the backward needs"},
    {"framework.reads_loss", f<&F::reads_loss>, "the host waits for the loss before the optimizer"},
    {"framework.head_share", f<&F::head_share>,
     "share of the positions whose logits are made; 1 = as the model says", 0.001, 1},
    {"framework.mean_sequence", f<&F::mean_sequence>,
     "cases: tokens of a padded sequence in the mean; 0 = all are full", 0, 1 << 24},
    {"framework.optimizer_groups_a_layer", f<&F::optimizer_groups_a_layer>,
     "parameters of a layer that the optimizer updates one by one; 0 = fused, or two an expert with more calls than one", 0, 1000},
    {"framework.optimizer_calls", f<&F::optimizer_calls>, "calls of the optimizer for each of them", 1, 1000},
    {"framework.expert_graphs", f<&F::expert_graphs>, "on Blackwell, expert layers but their experts run as CUDA graphs"},
    {"framework.expert_products", f<&F::expert_products>,
     "how a rank's experts multiply; fused only in fp8 and fp4 on Blackwell, else each by itself"},
    {"framework.expert_tensor_parallel", f<&F::expert_tensor_parallel>,
     "wide experts are split over the tensor-parallel ranks; narrow ones are not"},
    {"framework.cuts_narrow_experts", f<&F::cuts_narrow_experts>, "narrow experts are split like wide ones"},
    {"framework.blocking_p2p", f<&F::blocking_p2p>, "one chunk a stage: the host waits for every send and receive between stages"},
    {"framework.launch_blocking", f<&F::launch_blocking>, "the host waits for every kernel of a layer (CUDA_LAUNCH_BLOCKING): what a pass costs it adds to them"},
    {"framework.dispatch_once", f<&F::dispatch_once>, "dropless routing sends a token once to a rank and once to a node"},
    {"framework.reserved", f<&F::reserved>, "memory that its allocator reserves over what tensors take", 1, 10},

    {"framework.host.call", f<&F::host, &H::call>, "issue one kernel", 0, longest},
    {"framework.host.layer", f<&F::host, &H::layer>, "one pass of a transformer layer, on top of its calls", 0, longest},
    {"framework.host.expert_layer", f<&F::host, &H::expert_layer>,
     "one pass of an expert layer whose tokens go once; else of each expert, which then run one by one; on top of its calls", 0, longest},
    {"framework.host.micro_batch", f<&F::host, &H::micro_batch>,
     "one pass of a micro-batch through a stage, on top of its layers", 0, longest},
    {"framework.host.exchange", f<&F::host, &H::exchange>, "one tensor-parallel collective, on top of its call", 0, longest},
    {"framework.host.exchange_setup", f<&F::host, &H::exchange_setup>, "one group of sends and receives", 0, longest},
    {"framework.host.update", f<&F::host, &H::update>, "call the optimizer of a parameter group", 0, longest},

    {"framework.can.tensor", f<&F::can, &A::tensor>, "has tensor parallelism"},
    {"framework.can.sequence", f<&F::can, &A::sequence>, "has sequence parallelism"},
    {"framework.can.context", f<&F::can, &A::context>, "has context parallelism"},
    {"framework.can.pipeline", f<&F::can, &A::pipeline>, "has pipelines"},
    {"framework.can.interleaved", f<&F::can, &A::interleaved>, "has 1f1b with several chunks a stage"},
    {"framework.can.schedules", f<&F::can, &A::schedules>, "its pipeline schedules; empty = all"},
    {"framework.can.zero", f<&F::can, &A::zero>, "its ZeRO stages; empty = all"},
    {"framework.can.recompute", f<&F::can, &A::recompute>, "what it recomputes; empty = all"},
};
// clang-format on

}  // namespace

std::span<const Key> framework_keys() { return table; }

}  // namespace stepcast
