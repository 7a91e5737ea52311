#include "model/multimodal/blocks.h"

namespace stepcast {
namespace {

TowerBlock block_of(const std::string& name, const Tower& t) {
    return {.name = name,
            .layers = t.layers,
            .seq = t.seq,
            .keys = t.seq,
            .key_width = t.hidden,
            .hidden = t.hidden,
            .heads = t.heads,
            .ffn = t.ffn,
            .gated = t.gated,
            .rotary = t.rotary,
            .sub_norms = t.sub_norms,
            .causal = t.causal,
            .fused_norms = t.fused_norms};
}

}  // namespace

TowerBlock vision_block(const Workload& w) { return block_of("vision", w.vision); }

TowerBlock text_block(const Workload& w) {
    Tower text;
    text.layers = w.layers;
    text.hidden = w.hidden;
    text.heads = w.heads;
    text.ffn = w.ffn;
    text.seq = w.seq;
    text.gated = w.gated;
    text.causal = w.causal;
    return block_of("text", text);
}

TowerBlock decoder_block(const Workload& w) { return block_of("decoder", w.decoder); }

TowerBlock cross_block(const Workload& w) {
    TowerBlock block = block_of("cross", w.decoder);
    block.keys = w.pool_queries;
    block.cross = true;
    block.causal = false;
    return block;
}

// The widths of the text: what the poolers make meets it.
TowerBlock pooler(const Workload& w) {
    return {.name = "pooler",
            .layers = 1,
            .seq = w.pool_queries,
            .keys = w.vision.seq,
            .key_width = w.vision.hidden,
            .hidden = w.hidden,
            .heads = w.heads,
            .cross = true,
            .fused_norms = false};
}

TowerBlock contrastive_pooler(const Workload& w) {
    TowerBlock block = pooler(w);
    block.name = "contrastive_pooler";
    block.seq = 1;
    block.keys = w.pool_queries;
    block.key_width = w.hidden;
    return block;
}

// One position is the class token.
long patches(const Workload& w) { return w.vision.seq - 1; }
long patch_width(const Workload& w) { return 3L * w.patch * w.patch; }

Flops block_flops(const TowerBlock& b) {
    const auto h = static_cast<double>(b.hidden), seq = static_cast<double>(b.seq), keys = static_cast<double>(b.keys);
    const double own = 2 * h * h + (b.gated ? 3 : 2) * h * static_cast<double>(b.ffn);
    const double of_keys = 2 * h * static_cast<double>(b.key_width);
    return Flops(b.layers * (2 * seq * own + 2 * keys * of_keys + 4 * seq * keys * h));
}

TowerFlops count_tower_flops(const Workload& w) {
    TowerFlops f;
    f.patches = Flops(2.0 * static_cast<double>(patches(w) * patch_width(w)) * w.vision.hidden);
    f.vision = block_flops(vision_block(w));
    f.poolers = block_flops(pooler(w)) + block_flops(contrastive_pooler(w));
    f.text = block_flops(text_block(w));
    f.decoder = block_flops(decoder_block(w));
    f.cross = block_flops(cross_block(w));
    f.head = Flops(2.0 * w.decoder.seq * w.decoder.hidden * w.vocab);
    return f;
}

}  // namespace stepcast
