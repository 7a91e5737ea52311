#include "model/transformer/rank_shape.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "model/base/numbers.h"
#include "model/runtime_rules.h"
#include "model/transformer/counts.h"

namespace stepcast {
namespace {

long share(long whole, long parts) { return (whole + parts - 1) / parts; }

}  // namespace

long loss_rows(const RankShape& s) {
    const auto rows = static_cast<unsigned long>(share(s.head_tokens, share(s.vocab, s.hidden)));
    return std::min(s.head_tokens, static_cast<long>(std::bit_ceil(rows)));
}

RankShape rank_shape(const Workload& w, const Parallelism& p, const Runtime& r) {
    const bool split = splits_experts(w, r.experts);
    const int multiple = r.vocab_multiple;
    RankShape s;
    s.batch = p.micro_batch;
    s.seq = w.seq;
    s.seq_q = share(w.seq, p.cp);
    s.tokens = s.batch * s.seq_q;
    s.outer_tokens = p.sequence_parallel ? share(s.tokens, p.tp) : s.tokens;
    s.head_tokens = std::max(1L, std::lround(w.head_share * real(s.tokens)));
    s.routed_tokens = split ? s.outer_tokens : share(s.tokens, p.tp);
    s.hidden = w.hidden;
    s.ffn = share(w.ffn, p.tp);
    s.vocab = share(w.vocab, long{p.tp} * multiple) * multiple;
    s.heads = share(w.heads, p.tp);
    s.kv_heads = share(kv_heads(w), p.tp);
    s.expert_ffn = share(expert_ffn(w), split ? p.tp : 1);
    s.shared_ffn = share(shared_ffn(w), p.tp);
    s.mamba_heads = share(w.mamba.heads, p.tp);
    s.mamba_groups = share(w.mamba.groups, p.tp);
    s.delta_key_heads = share(delta_key_heads(w), p.tp);
    s.delta_value_heads = share(w.delta.value_heads, p.tp);
    const bool latent = is_latent(w);
    s.qk_dim = latent ? w.mla.nope_dim + w.mla.rope_dim : head_dim(w);
    s.value_dim = latent ? w.mla.value_dim : head_dim(w);
    s.fused_projections = r.fused_projections;
    s.fused_gate = r.fused_gate;
    s.matrix = w.dtype;
    s.storage = between_products(w.dtype);
    return s;
}

}  // namespace stepcast
