// CoCa's towers as blocks of operators, and their FLOPs.
#pragma once

#include <vector>

#include "model/base/units.h"
#include "model/block/operators.h"
#include "model/recorded/coca/parts.h"
#include "model/workload.h"

namespace stepcast {

TowerBlock vision_block(const Workload& workload);
TowerBlock pooler(const Workload& workload);              // pool_queries queries over the patches
TowerBlock contrastive_pooler(const Workload& workload);  // one query over the pooler's result
TowerBlock text_block(const Workload& workload);
TowerBlock decoder_block(const Workload& workload);  // over the text
TowerBlock cross_block(const Workload& workload);    // then over the pooled patches

std::vector<TowerBlock> tower_blocks(const Workload& workload);  // all of them

// Full recompute leaves out the poolers.
inline bool runs_again(const Parallelism& parallelism, const TowerBlock& block) {
    return recomputes_layers(parallelism) && !block.pools();
}

// The operators of one layer over a batch. Biases as in EVA-02 (arXiv 2303.11331): rotary keys have
// none.
Block operators_of(const TowerBlock& block, long batch, Dtype dtype);

// Patches of an image, and the numbers in one patch (three colours).
long patches(const Workload& workload);
long patch_width(const Workload& workload);

// Arithmetic of one sample's forward: 2 for each weight per position, and attention over all keys,
// hidden ones included, as in model/transformer/counts.h.
Flops tower_flops(const Workload& workload);
Flops block_flops(const TowerBlock& block);  // of all its layers

}  // namespace stepcast
