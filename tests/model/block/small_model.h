// A model whose numbers are worked out by hand.
#pragma once

#include "model/experiment.h"

namespace stepcast {

// hidden 64, 8 heads of 8 and 4 key heads, inner width 128, 3 sequences of 16 tokens.
inline Experiment small_model() {
    Experiment e;
    Workload& w = e.workload;
    w.kind = Workload::Kind::transformer;
    w.layers = 2;
    w.hidden = 64;
    w.heads = 8;
    w.kv_heads = 4;
    w.ffn = 128;
    w.gated = true;
    w.vocab = 1000;
    w.seq = 16;
    w.norm = Norm::rmsnorm;
    w.positions = Positions::rotary;
    w.linear_bias = w.qkv_bias = false;
    w.dtype = Dtype::bf16;
    e.runtime.attention = AttentionKind::flash;
    e.parallelism.micro_batch = 3;
    return e;
}

}  // namespace stepcast
