// A model of several towers as blocks: attention of `seq` positions to `keys`, then a feed-forward. What its
// parameters, arithmetic, kernels and memory follow from.
#pragma once

#include <string>

#include "model/block/operators.h"
#include "model/units.h"
#include "model/workload.h"

namespace stepcast {

struct TowerBlock {
    std::string name;  // begins the names of its tasks
    int layers = 0;    // how many of them
    long seq = 0;
    long keys = 0;       // positions that are attended to
    long key_width = 0;  // their width, before projection
    long hidden = 0, heads = 0;
    long ffn = 0;  // 0: attention alone, without residual: a pooler, whose queries are parameters
    bool cross = false;
    bool gated = false, rotary = false, sub_norms = false, causal = false, fused_norms = true;
    [[nodiscard]] bool pools() const { return ffn == 0; }
    friend bool operator==(const TowerBlock&, const TowerBlock&) = default;
};

TowerBlock vision_block(const Workload& workload);
TowerBlock pooler(const Workload& workload);              // pool_queries over the patches
TowerBlock contrastive_pooler(const Workload& workload);  // one query over what the pooler made
TowerBlock text_block(const Workload& workload);
TowerBlock decoder_block(const Workload& workload);  // over the text ..
TowerBlock cross_block(const Workload& workload);    // .. then over the pooled patches

// The operators of one of its layers over a batch; biases as EVA-02 (arXiv 2303.11331) has them: none of rotary keys.
Block operators_of(const TowerBlock& block, long batch, Dtype dtype);

// Patches of an image.
long patches(const Workload& workload);
long patch_width(const Workload& workload);  // numbers in one: three colours

// Arithmetic of one sample's forward, 2 for each weight that a position meets and attention over all keys, also hidden
// ones, as in model/transformer/counts.h.
struct TowerFlops {
    Flops patches, vision, poolers, text, decoder, cross, head;
    [[nodiscard]] Flops total() const { return patches + vision + poolers + text + decoder + cross + head; }
    [[nodiscard]] Flops blocks() const { return vision + text + decoder + cross; }  // what recompute runs again
    friend bool operator==(const TowerFlops&, const TowerFlops&) = default;
};
Flops block_flops(const TowerBlock& block);  // of all its layers
TowerFlops count_tower_flops(const Workload& workload);

}  // namespace stepcast
