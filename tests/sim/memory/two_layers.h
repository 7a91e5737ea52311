// A transformer so small that its tensors are counted by hand: two layers, hidden 64, 2 heads,
// inner 256, 32 tokens, 1,000 words.
#pragma once

#include "model/experiment.h"

namespace stepcast {

inline Experiment two_layers() {
    Experiment e;
    Workload& w = e.workload;
    w.kind = Workload::Kind::transformer;
    w.layers = 2;
    w.hidden = 64;
    w.heads = 2;
    w.ffn = 256;
    w.seq = 32;
    w.vocab = 1000;
    return e;
}

}  // namespace stepcast
