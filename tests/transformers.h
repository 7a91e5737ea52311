// Small transformers for tests: sizes that divide by everything.
#pragma once

#include "model/experiment.h"

namespace stepcast {

// Four layers of width 64, plain attention, one rank.
inline Experiment small_gpt() {
    Experiment e;
    Workload& w = e.workload;
    w.name = "small_gpt";
    w.kind = Workload::Kind::transformer;
    w.layers = 4;
    w.hidden = 64;
    w.heads = 4;
    w.ffn = 256;
    w.vocab = 1000;
    w.seq = 128;
    w.dtype = Dtype::bf16;
    w.optimizer = Optimizer::adam;
    w.tied = false;
    e.cluster.name = "test";
    e.cluster.gpus_per_node = 4;
    e.cluster.gpu = {"test",
                     "",
                     4,
                     Bytes(80e9),
                     BytesPerSecond(1e12),
                     {},
                     {},
                     {FlopsPerSecond(1e12), FlopsPerSecond(2e12), FlopsPerSecond(4e12),
                      FlopsPerSecond(4e12), FlopsPerSecond(8e12), FlopsPerSecond(0)}};
    e.cluster.intra.bandwidth = BytesPerSecond(100e9);
    e.cluster.intra.latency = Seconds(2e-6);
    e.cluster.inter.bandwidth = BytesPerSecond(10e9);
    e.cluster.inter.latency = Seconds(8e-6);
    e.cluster.overheads.context = Bytes(0);
    return e;
}

// The same with four experts a layer on two ranks, two chosen by each token.
inline Experiment small_moe() {
    Experiment e = small_gpt();
    e.workload.moe.experts = 4;
    e.workload.moe.top_k = 2;
    e.parallelism.dp = e.parallelism.ep = 2;
    return e;
}

}  // namespace stepcast
