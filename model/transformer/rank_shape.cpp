#include "model/transformer/rank_shape.h"

#include <algorithm>

namespace stepcast {
namespace {

long share(long whole, long parts) { return (whole + parts - 1) / parts; }

}  // namespace

RankShape rank_shape(const Experiment& e) {
    const Workload& w = e.workload;
    const Parallelism& p = e.parallelism;
    RankShape s;
    s.batch = p.micro_batch;
    s.seq = w.seq;
    s.seq_q = share(w.seq, p.cp);
    s.tokens = s.batch * s.seq_q;
    s.outer_tokens = p.sequence_parallel ? share(s.tokens, p.tp) : s.tokens;
    s.hidden = w.hidden;
    s.ffn = share(w.ffn, p.tp);
    s.vocab = share(w.vocab, p.tp);
    s.heads = share(w.heads, p.tp);
    s.kv_heads = share(w.kv_heads > 0 ? w.kv_heads : w.heads, p.tp);
    const long head_dim = w.head_dim > 0 ? w.head_dim : w.hidden / std::max(1, w.heads);
    const bool mla = w.attention == AttentionKind::mla;
    s.qk_dim = mla ? w.mla.nope_dim + w.mla.rope_dim : head_dim;
    s.value_dim = mla ? w.mla.value_dim : head_dim;
    s.matrix = w.dtype;
    s.storage = w.dtype == Dtype::fp8 ? Dtype::bf16 : w.dtype;
    return s;
}

bool has_experts(const Workload& w, int layer) {
    return w.moe.experts > 0 && layer >= w.moe.dense_layers && (layer + 1) % w.moe.interval == 0;
}

}  // namespace stepcast
