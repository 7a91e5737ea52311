#include "model/transformer/counts.h"

#include <algorithm>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/block/blocks.h"
#include "model/transformer/rank_shape.h"

namespace stepcast {
namespace {

double norm_width(const Workload& w, double width) {
    return w.norm == Norm::layernorm ? 2 * width : width;
}

// Sums over operators of blocks: weights of the rank that they are written for, and what a token
// takes without a weight.
struct Tally {
    const Workload& w;
    double share = 1;  // share of the block per layer
    double dense = 0, norms = 0, router = 0, experts = 0;
    double adapters = 0;  // beside the dense weights
    // weights of matrices that multiply a token; not those that multiply a constant once for all
    // sequences
    double met = 0;
    double scores = 0;  // operations of attention and scans
    double masked = 0;  // those of attention that a causal mask hides
    double once = 0;    // operations that a backward repeats neither for inputs nor for weights

    void operator()(const Linear& l) {
        const double matrix = share * number(l.out.rank * l.in.rank),
                     bias = l.bias ? share * number(l.out.rank) : 0;
        (l.name == "router" ? router : dense) += matrix + bias;
        adapters += share * l.adapter_rank * number(l.in.rank + l.out.rank);
        if (!l.constant_input) met += matrix;
        if (l.detached) once += matrix;
    }
    void operator()(const GroupedLinear& l) {
        const double weights = number(l.out.rank * l.in.rank);
        experts += w.moe.experts * (weights + (l.bias ? number(l.out.rank) : 0));
        met += w.moe.top_k * weights;
    }
    void operator()(const Normalize& n) {
        norms += share * (n.shifted ? 2 * number(n.width) : norm_width(w, number(n.width)));
    }
    void operator()(const Elementwise& e) {
        dense += share * e.weights;
        met += share * e.weights;
    }
    // Scores, then the values weighted by them.
    void operator()(const Attend&) {
        const double window = w.window > 0 ? std::min(w.window, w.seq) : w.seq,
                     seen = selects_keys(w)
                                ? w.indexer.top_k
                                : w.window_share * window + (1 - w.window_share) * w.seq;
        scores += share * 2.0 * seen * w.heads * widths();
        const auto hidden = [&](double keys) { return keys * keys / (2 * w.seq); };
        if (w.causal)
            masked += share * 2.0 * w.heads * widths() *
                      (selects_keys(w) ? hidden(w.indexer.top_k)
                                       : w.window_share * hidden(window) +
                                             (1 - w.window_share) * hidden(w.seq));
    }
    void operator()(const Index&) {
        const double key = share * 2.0 * w.indexer.heads * w.indexer.head_dim;
        scores += key * w.seq;
        once += key * std::max(0, w.seq - w.indexer.top_k);
    }
    // Adds scores of relative positions, and projects keys and values of the memory again.
    void operator()(const AttendRelative&) {
        const double again = 2.0 * 2 * w.hidden * kv_heads(w) * head_dim(w) * w.memory / w.seq;
        scores += 2.0 * (w.seq + w.memory) * w.heads * (widths() + head_dim(w)) + again;
    }
    void operator()(const Scan& s) { scores += 4.0 * number(s.state) * number(s.inner().rank); }
    void operator()(const DeltaRule& d) {
        scores += 6.0 * number(d.key_dim) * number(d.inner().rank);
    }
    // These have no weights, and their arithmetic is not counted.
    void operator()(const OneOf<Fork, Cast, HeadLayout, WithMemory, Activate, Residual, Route,
                                ToExperts, FromExperts, AddShared, Embed, Loss, SpanLoss> auto&) {}

private:
    [[nodiscard]] double widths() const {
        return is_latent(w) ? w.mla.nope_dim + w.mla.rope_dim + w.mla.value_dim : 2.0 * head_dim(w);
    }
};

Tally tally(const Workload& w, const std::vector<SharedBlock>& blocks) {
    Tally sum{w};
    for (const auto& [share, block] : blocks) {
        sum.share = share;
        for (const Operator& op : block) std::visit(sum, op);
    }
    return sum;
}

RankShape whole(const Workload& w) { return rank_shape(w, {}, {}); }
Tally layer_tally(const Workload& w, int layer) {
    return tally(w, layer_blocks(w, whole(w), layer));
}

// What the two passes of a backward would take if they repeated all operations of the forward, over
// what they take.
Flops forward_only_flops(const Workload& w, double sequences) {
    if (w.indexer.heads == 0) return {};
    Flops token;
    for (int layer = 0; layer < w.layers + w.mtp_layers; ++layer)
        token += Flops(2 * layer_tally(w, std::min(layer, w.layers - 1)).once);
    return token * (sequences * w.seq);
}

// Forward operations of the matrices that adapters leave frozen.
Flops frozen_flops(const Workload& w, double sequences) {
    if (w.adapter_rank == 0) return {};
    Flops token = logits_forward_flops(w);
    for (int layer = 0; layer < w.layers; ++layer) token += Flops(2 * layer_tally(w, layer).met);
    return token * (sequences * w.seq);
}

// Of a micro-batch's reference, whose forward has no adapters.
Flops reference_flops(const Workload& w, double sequences) {
    if (w.reference == Reference::none) return {};
    Workload bare = w;
    bare.adapter_rank = 0;
    return w.reference_forwards * forward_flops(bare, sequences);
}

}  // namespace

int head_dim(const Workload& w) {
    return w.head_dim > 0 || w.heads == 0 ? w.head_dim : w.hidden / w.heads;
}
int kv_heads(const Workload& w) { return w.kv_heads > 0 ? w.kv_heads : w.heads; }
int position_rows(const Workload& w) { return w.max_positions > 0 ? w.max_positions : w.seq; }
int expert_ffn(const Workload& w) { return w.moe.ffn > 0 ? w.moe.ffn : w.ffn; }
int delta_key_heads(const Workload& w) {
    return w.delta.key_heads > 0 ? w.delta.key_heads : w.delta.value_heads;
}
int shared_ffn(const Workload& w) {
    return w.moe.shared_ffn > 0 ? w.moe.shared_ffn : w.moe.shared_experts * expert_ffn(w);
}
bool has_experts(const Workload& w, int layer) {
    return w.moe.experts > 0 && layer >= w.moe.dense_layers && (layer + 1) % w.moe.interval == 0;
}

bool has_attention(const Workload& w, int layer) {
    const Delta& d = w.delta;
    return d.value_heads == 0 || (d.interval > 0 && (layer + 1) % d.interval == 0);
}
bool selects_keys(const Workload& w) { return w.indexer.heads > 0 && w.seq > w.indexer.top_k; }

ParameterCount layer_parameters(const Workload& w, int layer) {
    return layer_parameters(w, whole(w), layer);
}
ParameterCount layer_parameters(const Workload& w, const RankShape& s, int layer) {
    std::vector<SharedBlock> blocks = layer_blocks(w, s, layer);
    const Tally block = tally(w, {blocks.back()});
    blocks.pop_back();
    const Tally mixing = tally(w, blocks);
    return {.attention = mixing.dense,
            .feed_forward = block.dense,
            .experts = block.experts,
            .router = block.router,
            .norms = mixing.norms + block.norms};
}

double adapter_parameters(const Workload& w, int layer, bool fused_projections) {
    RankShape shape = whole(w);
    shape.fused_projections = fused_projections;
    return tally(w, layer_blocks(w, shape, layer)).adapters;
}
double expert_parameters(const Workload& w) {
    return w.moe.experts > 0 ? tally(w, {{1, expert_block(w, whole(w))}}).experts / w.moe.experts
                             : 0;
}
double embedding_parameters(const Workload& w) { return real(w.vocab) * w.hidden; }
double position_parameters(const Workload& w) {
    const double types = real(w.token_types) * w.hidden;
    if (w.positions == Positions::relative) return types + 2.0 * w.heads * head_dim(w);
    if (w.positions != Positions::learned) return types;
    return types + real(position_rows(w)) * w.hidden;
}
double final_norm_parameters(const Workload& w) {
    return w.positions == Positions::relative ? 0 : norm_width(w, w.hidden);
}
double prediction_parameters(const Workload& w) {
    const Tally own = tally(w, {{1, prediction_block(w, whole(w))}});
    return own.dense + own.norms + final_norm_parameters(w);
}
double logits_parameters(const Workload& w) {
    if (w.head == Head::span) return 2.0 * w.hidden + 2;
    return (w.tied ? 0 : embedding_parameters(w)) +
           (w.positions == Positions::relative ? w.vocab : 0);
}

ParameterCount count_parameters(const Workload& w) {
    ParameterCount count;
    for (int layer = 0; layer < w.layers; ++layer) {
        const ParameterCount p = layer_parameters(w, layer);
        count.attention += p.attention;
        count.feed_forward += p.feed_forward;
        count.experts += p.experts;
        count.router += p.router;
        count.norms += p.norms;
        if (has_experts(w, layer)) count.active_experts += w.moe.top_k * expert_parameters(w);
    }
    count.norms += final_norm_parameters(w);
    count.embedding = embedding_parameters(w);
    count.positions = position_parameters(w);
    count.logits = logits_parameters(w);
    if (w.mtp_layers > 0)
        count.prediction =
            w.mtp_layers * (layer_parameters(w, w.layers - 1).total() + prediction_parameters(w));
    return count;
}

Flops layer_forward_flops(const Workload& w, int layer) {
    const Tally all = layer_tally(w, layer);
    return Flops(2 * (all.met + all.adapters) + all.scores);
}

Flops logits_forward_flops(const Workload& w) {
    return Flops(w.head == Head::span ? 4.0 * w.hidden
                                      : 2 * embedding_parameters(w) * w.head_share);
}

Flops forward_flops(const Workload& w, double sequences) {
    Flops token = logits_forward_flops(w);
    for (int layer = 0; layer < w.layers; ++layer) token += layer_forward_flops(w, layer);
    for (int i = 0; i < w.mtp_layers; ++i)
        token += layer_forward_flops(w, w.layers - 1) + logits_forward_flops(w) +
                 Flops(4.0 * w.hidden * w.hidden);
    return token * (sequences * w.seq);
}

Flops model_flops(const Workload& w, double sequences) {
    return 3 * forward_flops(w, sequences) - frozen_flops(w, sequences) -
           forward_only_flops(w, sequences) + reference_flops(w, sequences);
}

Flops masked_flops(const Workload& w, double sequences) {
    Flops token;
    for (int layer = 0; layer < w.layers + w.mtp_layers; ++layer)
        token += Flops(3 * layer_tally(w, std::min(layer, w.layers - 1)).masked);
    return token * (sequences * w.seq);
}

std::vector<RecomputedModule> modules_of(const Workload& w,
                                         const std::vector<RecomputedModule>& named) {
    const bool experts = w.moe.experts > 0, latent = is_latent(w);
    return where(named, [&](RecomputedModule module) {
        using enum RecomputedModule;
        switch (module) {
            case core_attn: return true;
            case layernorm: return latent || experts;
            case mla_up_proj: return latent;
            case mlp: return !experts || w.moe.dense_layers > 0 || w.moe.interval > 1;
            case moe_act:
            case moe: return experts;
            case shared_experts: return w.moe.shared_experts > 0;
        }
        return false;
    });
}

}  // namespace stepcast
