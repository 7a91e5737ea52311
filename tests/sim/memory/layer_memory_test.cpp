#include "sim/memory/layer_memory.h"

#include <catch2/catch.hpp>

#include "model/experiment.h"
#include "model/rank_groups.h"

using namespace stepcast;

namespace {

// hidden 64, 8 heads of 8 over 4 of keys, inner 128, 3 sequences of 16 tokens.
Experiment experiment() {
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
    w.attention = AttentionKind::flash;
    w.linear_bias = w.qkv_bias = false;
    w.dtype = Dtype::bf16;
    e.parallelism.micro_batch = 3;
    return e;
}

}  // namespace

// Feed-forward, 2 bytes an element, T = 48 tokens: norm in and out 2 x 64, the product's 256 and the activation's 128 elements.
// Attention: norm in and out 2 x 64, queries 64, keys and values 2 x 32, result 64, and 4 bytes for each of 8 heads' rows.
// Work: two of 64 and the widest operator's gradients: 256; 64 + 64 + 64.
TEST_CASE("a layer keeps what its backward reads") {
    const Experiment e = experiment();
    const Routing balanced;
    const LayerContext c{e, rank_shape(e), rank_groups(e.parallelism), balanced};
    const LayerMemory memory = layer_memory(c, 0);
    CHECK(memory.feed_forward.kept == 48 * 2.0 * Bytes(128 + 256 + 128));
    CHECK(memory.feed_forward.work == 48 * 2.0 * Bytes(128 + 256));
    CHECK(memory.attention.kept == 48 * 2.0 * Bytes(128 + 64 + 64 + 64) + 48 * 8.0 * Bytes(4));
    CHECK(memory.attention.work == 48 * 2.0 * Bytes(128 + 64 + 128));
}
