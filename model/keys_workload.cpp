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
    {"workload.ffn", field<&E::workload, &W::ffn>, "inner width of the feed-forward block, of one expert", 1, widest},
    {"workload.vocab", field<&E::workload, &W::vocab>, "vocabulary", 0, 1 << 24},
    {"workload.seq", field<&E::workload, &W::seq>, "tokens of one sequence", 1, 1 << 24},
    {"workload.dtype", field<&E::workload, &W::dtype>, "element type of weights and activations"},
    {"workload.optimizer", field<&E::workload, &W::optimizer>, "optimizer"},
    {"workload.moe.experts", field<&E::workload, &W::moe, &Moe::experts>,
     "experts of a layer over all ranks; 0 = dense", 0, widest},
    {"workload.moe.top_k", field<&E::workload, &W::moe, &Moe::top_k>, "experts that a token goes to", 1, 1024},
    {"workload.moe.capacity_factor", field<&E::workload, &W::moe, &Moe::capacity_factor>,
     "slots of an expert over the balanced number; 0 = no token is dropped", 0, 1000},
    {"workload.moe.shared_experts", field<&E::workload, &W::moe, &Moe::shared_experts>,
     "experts that every token goes to", 0, 1024},

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
    {"parallelism.bucket", field<&E::parallelism, &P::bucket>, "gradient bucket", 1, 1e15},
    {"parallelism.overlap", field<&E::parallelism, &P::overlap>, "gradient exchange beside backward"},
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
