// Keys of [workload], [parallelism], [routing] and [run].
#include "model/keys.h"

namespace stepcast {
namespace {

using E = Experiment;
using W = Workload;
using P = Parallelism;
using R = RoutingSpec;

constexpr double widest = 1 << 20;  // hidden, ffn, heads, experts
constexpr double ranks = 1 << 20;

const Key table[] = {
    {"workload.preset", PresetField{PresetKind::workload}, "workload to start from: a preset's name or a file"},
    {"workload.name", field<&E::workload, &W::name>, "name in reports"},
    {"workload.kind", field<&E::workload, &W::kind>, "how the shapes are read"},
    {"workload.layers", field<&E::workload, &W::layers>, "layers", 1, 10000},
    {"workload.hidden", field<&E::workload, &W::hidden>, "model width", 1, widest},
    {"workload.heads", field<&E::workload, &W::heads>, "attention heads", 0, widest},
    {"workload.kv_heads", field<&E::workload, &W::kv_heads>, "key and value heads; 0 = heads", 0, widest},
    {"workload.head_dim", field<&E::workload, &W::head_dim>, "width of a head; 0 = hidden / heads", 0, widest},
    {"workload.ffn", field<&E::workload, &W::ffn>, "inner width of the feed-forward block, of one expert", 1, widest},
    {"workload.vocab", field<&E::workload, &W::vocab>, "vocabulary", 0, 1 << 24},
    {"workload.gated", field<&E::workload, &W::gated>, "feed-forward with a gate: three matrices"},
    {"workload.tied", field<&E::workload, &W::tied>, "logits use the weights of the embedding"},
    {"workload.seq", field<&E::workload, &W::seq>, "tokens of one sequence", 1, 1 << 24},
    {"workload.max_positions", field<&E::workload, &W::max_positions>,
     "rows of the learned position table; 0 = seq", 0, 1 << 24},
    {"workload.positions", field<&E::workload, &W::positions>, "how positions are encoded"},
    {"workload.norm", field<&E::workload, &W::norm>, "normalisation"},
    {"workload.attention", field<&E::workload, &W::attention>, "attention kernel"},
    {"workload.causal", field<&E::workload, &W::causal>, "attention to earlier tokens only"},
    {"workload.linear_bias", field<&E::workload, &W::linear_bias>, "biases in linear layers"},
    {"workload.qkv_bias", field<&E::workload, &W::qkv_bias>, "biases in the query, key and value projections"},
    {"workload.dropout", field<&E::workload, &W::dropout>, "share of activations dropped; 0 = no dropout", 0, 1},
    {"workload.mla.q_rank", field<&E::workload, &W::mla, &Mla::q_rank>, "latent of the queries; 0 = none", 0, widest},
    {"workload.mla.kv_rank", field<&E::workload, &W::mla, &Mla::kv_rank>, "latent of keys and values", 0, widest},
    {"workload.mla.nope_dim", field<&E::workload, &W::mla, &Mla::nope_dim>, "width of a head without positions", 0,
     widest},
    {"workload.mla.rope_dim", field<&E::workload, &W::mla, &Mla::rope_dim>, "width of a head with positions", 0,
     widest},
    {"workload.mla.value_dim", field<&E::workload, &W::mla, &Mla::value_dim>, "width of a head's values", 0, widest},
    {"workload.dtype", field<&E::workload, &W::dtype>, "element type of weights and activations"},
    {"workload.optimizer", field<&E::workload, &W::optimizer>, "optimizer"},
    {"workload.fused_loss", field<&E::workload, &W::fused_loss>, "softmax and loss in one pass over the logits"},
    {"workload.optimizer_groups", field<&E::workload, &W::optimizer_groups>,
     "parameter groups with optimizer kernels of their own; 1 = fused", 1, 1 << 20},
    {"workload.moe.experts", field<&E::workload, &W::moe, &Moe::experts>,
     "experts of a layer over all ranks; 0 = dense", 0, widest},
    {"workload.moe.top_k", field<&E::workload, &W::moe, &Moe::top_k>, "experts that a token goes to", 1, 1024},
    {"workload.moe.capacity_factor", field<&E::workload, &W::moe, &Moe::capacity_factor>,
     "slots of an expert over the balanced number; 0 = no token is dropped", 0, 1000},
    {"workload.moe.shared_experts", field<&E::workload, &W::moe, &Moe::shared_experts>,
     "experts that every token goes to", 0, 1024},
    {"workload.moe.ffn", field<&E::workload, &W::moe, &Moe::ffn>, "inner width of one expert; 0 = workload.ffn", 0,
     widest},
    {"workload.moe.shared_ffn", field<&E::workload, &W::moe, &Moe::shared_ffn>,
     "inner width of all shared experts; 0 = shared_experts x ffn", 0, widest},
    {"workload.moe.dense_layers", field<&E::workload, &W::moe, &Moe::dense_layers>, "first layers without experts", 0,
     10000},
    {"workload.moe.interval", field<&E::workload, &W::moe, &Moe::interval>, "every how many layers experts occur", 1,
     10000},
    {"workload.moe.router_bias", field<&E::workload, &W::moe, &Moe::router_bias>,
     "one load-balancing bias an expert"},

    {"parallelism.dp", field<&E::parallelism, &P::dp>, "data-parallel replicas", 1, ranks},
    {"parallelism.tp", field<&E::parallelism, &P::tp>, "tensor-parallel ranks", 1, ranks},
    {"parallelism.pp", field<&E::parallelism, &P::pp>, "pipeline stages", 1, ranks},
    {"parallelism.vp", field<&E::parallelism, &P::vp>, "model pieces of a stage (interleaving)", 1, 1024},
    {"parallelism.ep", field<&E::parallelism, &P::ep>, "ranks that share the experts, out of dp x cp", 1, ranks},
    {"parallelism.cp", field<&E::parallelism, &P::cp>, "context-parallel ranks", 1, ranks},
    {"parallelism.sequence_parallel", field<&E::parallelism, &P::sequence_parallel>,
     "split the sequence outside tensor-parallel blocks"},
    {"parallelism.zero", field<&E::parallelism, &P::zero>, "ZeRO stage", 0, 3},
    {"parallelism.micro_batch", field<&E::parallelism, &P::micro_batch>, "sequences per rank and micro-batch", 1,
     1 << 20},
    {"parallelism.global_batch", field<&E::parallelism, &P::global_batch>,
     "sequences per step over all ranks; 0 = dp x micro_batch", 0, 1 << 28},
    {"parallelism.schedule", field<&E::parallelism, &P::schedule>, "pipeline schedule"},
    {"parallelism.recompute", field<&E::parallelism, &P::recompute>, "activations computed again in backward"},
    {"parallelism.recompute_layers", field<&E::parallelism, &P::recompute_layers>,
     "full recompute: layers of a stage; 0 = all", 0, 10000},
    {"parallelism.stage_layers", field<&E::parallelism, &P::stage_layers>,
     "layers of each stage piece, first to last; empty = even"},
    {"parallelism.overlap_p2p", field<&E::parallelism, &P::overlap_p2p>, "sends between stages beside other tasks"},
    {"parallelism.overlap_tp", field<&E::parallelism, &P::overlap_tp>, "tensor-parallel exchanges beside GEMMs"},
    {"parallelism.overlap_weight_gradient", field<&E::parallelism, &P::overlap_weight_gradient>,
     "tensor-parallel exchanges of the backward beside the weight gradient"},
    {"parallelism.context_exchange", field<&E::parallelism, &P::context_exchange>,
     "how keys and values of other context-parallel ranks arrive"},
    {"parallelism.rank_order", field<&E::parallelism, &P::rank_order>, "order of the groups over ranks, innermost first"},
    {"parallelism.shard", field<&E::parallelism, &P::shard>,
     "zero 3: ranks that hold one copy between them; 0 = dp x cp", 0, ranks},
    {"parallelism.gradient_dtype", field<&E::parallelism, &P::gradient_dtype>,
     "element type of accumulated and exchanged gradients"},
    {"parallelism.fused_accumulation", field<&E::parallelism, &P::fused_accumulation>,
     "weight-gradient GEMMs add into the accumulated gradients themselves"},
    {"parallelism.expert_tensor_parallel", field<&E::parallelism, &P::expert_tensor_parallel>,
     "each expert is split over the tensor-parallel ranks"},
    {"parallelism.bucket", field<&E::parallelism, &P::bucket>, "gradient bucket", 1, 1e15},
    {"parallelism.overlap", field<&E::parallelism, &P::overlap>, "gradient exchange beside backward"},
    {"parallelism.overlap_params", field<&E::parallelism, &P::overlap_params>,
     "zero 1, 2: parameters are gathered beside the next forward"},
    {"parallelism.overlap_chunks", field<&E::parallelism, &P::overlap_chunks>,
     "alltoall: overlapping pieces of exchange and experts", 1, 64},
    {"parallelism.moe_system", field<&E::parallelism, &P::moe_system>, "how the MoE layer runs"},
    {"parallelism.messages_per_tensor", field<&E::parallelism, &P::messages_per_tensor>,
     "messages that carry one tensor between stages", 1, 1000},

    {"routing.kind", field<&E::routing, &R::kind>, "which tokens go where"},
    {"routing.seed", field<&E::routing, &R::seed>, "seed of the first draw", 0, 9e18},
    {"routing.skew", field<&E::routing, &R::skew>,
     "zipf: exponent; random-gate: offset over token-dependent spread, in units of 1.732", 0, 1000},
    {"routing.file", field<&E::routing, &R::file>, "routing file, for kind = file"},
    {"routing.draws", field<&E::routing, &R::draws>, "Monte Carlo draws", 1, 100000},

    {"run.steps", field<&E::run, &Run::steps>, "measured steps", 1, 1e6},
    {"run.warmup", field<&E::run, &Run::warmup>, "steps before the measured ones", 0, 1e6},
    {"run.seed", field<&E::run, &Run::seed>, "seed of operand values", 0, 9e18},
    {"run.timeout", field<&E::run, &Run::timeout>, "longest wait for another rank", 1e-3, 1e6},
};

}  // namespace

std::span<const Key> workload_keys() { return table; }

}  // namespace stepcast
