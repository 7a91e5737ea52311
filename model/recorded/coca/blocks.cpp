#include "model/recorded/coca/blocks.h"

#include "model/base/numbers.h"
#include "model/recorded/coca/parts.h"

namespace stepcast {
namespace {

TowerBlock block_of(const std::string& name, const Tower& t) { return {t, name, t.seq, t.hidden}; }

template <typename Make>
void add_projections(Block& block, const TowerBlock& b, Make linear, double rows, double keys) {
    if (b.cross) {
        block.push_back(linear("query", b.seq, b.hidden, b.hidden));
        block.push_back(Fork{"projection_sum", keys});
        for (int i = 0; i < 2; ++i)
            block.push_back(linear("key_value", b.keys, b.hidden, b.key_width));
        return;
    }
    if (!b.rotary) return block.push_back(linear("qkv", b.seq, 3 * b.hidden, b.hidden));
    block.push_back(Fork{"projection_sum", rows, 3});
    for (int i = 0; i < 3; ++i) {
        Linear projection = linear("qkv", b.seq, b.hidden, b.hidden);
        projection.bias = i != 1;
        block.push_back(projection);
    }
}

template <typename Make>
void add_feed_forward(Block& block, const TowerBlock& b, long batch, Make linear, double rows) {
    const long positions = batch * b.seq;
    const double inner = real(positions * b.ffn);
    block.push_back(Fork{"residual_backward", rows});
    block.push_back(Normalize{.name = "norm2", .rows = positions, .width = b.hidden});
    if (b.gated) block.push_back(Fork{"projection_sum", rows});
    for (int i = 0; i < (b.gated ? 2 : 1); ++i)
        block.push_back(linear("up", b.seq, b.ffn, b.hidden));
    block.push_back(Activate{.width = b.ffn});
    if (b.gated) block.push_back(Elementwise{.name = "gate", .read = 2 * inner, .written = inner});
    if (b.sub_norms)
        block.push_back(
            Normalize{.name = "ffn_norm", .rows = positions, .width = b.ffn, .inner = true});
    block.push_back(linear("down", b.seq, b.hidden, b.ffn));
    block.push_back(Residual{});
}

}  // namespace

TowerBlock vision_block(const Workload& w) { return block_of("vision", w.vision); }

TowerBlock text_block(const Workload& w) {
    return block_of("text", {.layers = w.layers,
                             .hidden = w.hidden,
                             .heads = w.heads,
                             .ffn = w.ffn,
                             .seq = w.seq,
                             .gated = w.gated,
                             .causal = w.causal});
}

TowerBlock decoder_block(const Workload& w) { return block_of("decoder", w.decoder); }

TowerBlock cross_block(const Workload& w) {
    TowerBlock block = block_of("cross", w.decoder);
    block.keys = w.pool_queries;
    block.cross = true;
    block.causal = false;
    return block;
}

// Its width is that of the text, because its result is compared with the text.
TowerBlock pooler(const Workload& w) {
    return {{.layers = 1,
             .hidden = w.hidden,
             .heads = w.heads,
             .seq = w.pool_queries,
             .fused_norms = false},
            "pooler",
            w.vision.seq,
            w.vision.hidden,
            true};
}

TowerBlock contrastive_pooler(const Workload& w) {
    TowerBlock block = pooler(w);
    block.name = "contrastive_pooler";
    block.seq = 1;
    block.keys = w.pool_queries;
    block.key_width = w.hidden;
    return block;
}

Block operators_of(const TowerBlock& b, long batch, Dtype dtype) {
    const auto linear = [&](std::string_view name, long positions, long out, long in) {
        return Linear{.name = name,
                      .tokens = batch * positions,
                      .out = out,
                      .in = in,
                      .dtype = dtype,
                      .bias = true};
    };
    const double rows = real(batch * b.seq * b.hidden), keys = real(batch * b.keys * b.key_width);
    Block block;
    if (!b.pools()) {
        block.push_back(Fork{"residual_backward", rows});
        block.push_back(Normalize{.name = "norm1", .rows = batch * b.seq, .width = b.hidden});
    }
    if (b.cross && !b.pools()) block.push_back(Fork{"key_sum", keys});
    if (b.cross)
        block.push_back(
            Normalize{.name = "key_norm", .rows = batch * b.keys, .width = b.key_width});
    add_projections(block, b, linear, rows, keys);
    block.push_back(HeadLayout{});
    block.push_back(Attend{});
    if (b.sub_norms)
        block.push_back(Normalize{
            .name = "inner_norm", .rows = batch * b.seq, .width = b.hidden, .inner = true});
    block.push_back(linear("output", b.seq, b.hidden, b.hidden));
    if (b.pools()) return block;
    block.push_back(Residual{});
    add_feed_forward(block, b, batch, linear, rows);
    return block;
}

std::vector<TowerBlock> tower_blocks(const Workload& w) {
    return {vision_block(w), pooler(w),        contrastive_pooler(w),
            text_block(w),   decoder_block(w), cross_block(w)};
}

// One position of the sequence is the class token.
long patches(const Workload& w) { return w.vision.seq - 1; }
long patch_width(const Workload& w) { return 3L * w.patch * w.patch; }

Flops block_flops(const TowerBlock& b) {
    double sum = 4 * real(b.seq * b.keys * b.hidden);
    for (const Operator& op : operators_of(b, 1, Dtype::fp16))
        if (const auto* l = std::get_if<Linear>(&op))
            sum += 2 * real(l->tokens * l->out.whole * l->in.whole);
    return Flops(b.layers * sum);
}

Flops tower_flops(const Workload& w) {
    Flops sum(2.0 * real(patches(w) * patch_width(w)) * w.vision.hidden +
              2.0 * w.decoder.seq * w.decoder.hidden * w.vocab);
    for (const TowerBlock& b : tower_blocks(w)) sum += block_flops(b);
    return sum;
}

}  // namespace stepcast
