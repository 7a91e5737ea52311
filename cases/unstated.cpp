#include "cases/row_parts.h"

#include <algorithm>

#include "model/transformer/counts.h"

namespace stepcast {
namespace {

// CUDA context, communicators and work space that no tensor shows.
const Bytes reserve = parse_bytes("4 GiB");

double layers_of_stage(const Experiment& e) { return static_cast<double>(e.workload.layers) / e.parallelism.pp; }

// Weights of a rank of the first stage, the experts' apart: they are spread over ep ranks.
struct Share {
    double dense = 0, experts = 0;
};
Share weights_of_rank(const Experiment& e) {
    const ParameterCount all = count_parameters(e.workload);
    const auto& p = e.parallelism;
    const double outside = all.embedding + all.positions + (p.pp == 1 ? all.logits : 0);
    const double layers = all.total() - all.embedding - all.positions - all.logits - all.experts;
    return {(outside + layers / p.pp) / p.tp,
            all.experts / (static_cast<double>(p.pp) * p.ep * (p.expert_tensor_parallel ? p.tp : 1))};
}

// 2 bytes a weight, gradients, and 12 bytes of fp32 master weights and moments; ZeRO 1, 2, 3 share out the last, the
// last two, all of them (arXiv 1910.02054).
double state_bytes(const Experiment& e, double weights, double replicas) {
    if (e.workload.adapter_rank > 0) return 2 * weights;  // frozen; adapters are a percent of them
    const auto& p = e.parallelism;
    const double gradient = size_of(p.gradient_dtype).si();
    const double ranks = p.shard > 0 && p.zero == 3 ? p.shard : replicas;
    const auto share = [&](int from) { return p.zero >= from ? ranks : 1.0; };
    return weights * (2 / share(3) + gradient / share(2) + 12 / share(1));
}

// Bytes a token that one layer keeps for backward: inputs of norms, of the projections, queries, keys and values, the
// attention's result, inputs and inner tensors of the feed-forward block, and for plain attention 5 bytes a score.
double kept_by_layer(const Experiment& e, bool scores) {
    const auto& w = e.workload;
    const auto& p = e.parallelism;
    const double head = w.attention == AttentionKind::mla ? w.mla.nope_dim + w.mla.rope_dim : head_dim(w);
    const double keys = w.attention == AttentionKind::mla ? w.heads : kv_heads(w);
    const double inner = has_experts(w, w.layers - 1) ? w.moe.top_k * expert_ffn(w) + shared_ffn(w) : w.ffn;
    const double outside = 10.0 * w.hidden;
    const double inside = 2 * head * (2.0 * w.heads + 2 * keys) + 2 * (w.gated ? 3 : 2) * inner;
    const double plain = scores && w.attention == AttentionKind::plain ? 5.0 * w.heads * w.seq : 0;
    return outside / (p.sequence_parallel ? p.tp : 1) + (inside + plain) / p.tp;
}

// Layers whose activations wait on the first stage: pp micro-batches of its layers, more when interleaved (2205.05198,
// appendix C).
double micro_batches_in_flight(const Parallelism& p) {
    if (p.pp == 1) return 1;
    const double waiting = p.vp > 1 ? p.pp + (p.pp - 1.0) / p.vp : p.pp;
    return std::min<double>(waiting, micro_batches(p));
}

}  // namespace

Bytes estimated_memory(const Experiment& e) {
    const auto& w = e.workload;
    const auto& p = e.parallelism;
    const Share weights = weights_of_rank(e);
    const double replicas = static_cast<double>(p.dp) * p.cp;
    const double states =
        state_bytes(e, weights.dense, replicas) +
        state_bytes(e, weights.experts, std::max(1.0, replicas * (p.expert_tensor_parallel ? 1 : p.tp) / p.ep));
    const double tokens = static_cast<double>(p.micro_batch) * w.seq / p.cp;
    const double layers = layers_of_stage(e);
    const double full = p.recompute == Recompute::full
                            ? (p.recompute_layers > 0 ? std::min<double>(p.recompute_layers, layers) : layers)
                            : 0;
    const double layer = kept_by_layer(e, p.recompute == Recompute::none);
    const double kept = 2.0 * w.hidden / (p.sequence_parallel ? p.tp : 1);  // the input alone
    const double in_flight = micro_batches_in_flight(p) * (full * kept + (layers - full) * layer);
    const double again = full > 0 ? kept_by_layer(e, true) : 0;
    const double logits = p.pp == 1 ? 6.0 * w.vocab / p.tp : 0;  // 16-bit logits and fp32 probabilities
    return Bytes(states + tokens * (in_flight + again + logits)) + reserve;
}

int fitting_micro_batch(const Experiment& experiment) {
    Experiment e = experiment;
    const int sequences = e.parallelism.global_batch / e.parallelism.dp;
    for (int size = sequences; size > 1; --size) {
        if (sequences % size != 0) continue;
        e.parallelism.micro_batch = size;
        if (estimated_memory(e) <= e.cluster.gpu.memory) return size;
    }
    return 1;
}

ChosenRecompute fitting_recompute(const Experiment& experiment, double room) {
    Experiment e = experiment;
    auto& p = e.parallelism;
    const auto fits = [&](Recompute kind, int layers) {
        p.recompute = kind;
        p.recompute_layers = layers;
        return estimated_memory(e) <= room * e.cluster.gpu.memory;
    };
    if (fits(Recompute::none, 0)) return {};
    if (e.workload.attention == AttentionKind::plain && fits(Recompute::selective, 0)) return {Recompute::selective, 0};
    const int layers = static_cast<int>(layers_of_stage(e));
    for (int n = 1; n < layers; ++n)
        if (fits(Recompute::full, n)) return {Recompute::full, n};
    return {Recompute::full, 0};
}

}  // namespace stepcast
