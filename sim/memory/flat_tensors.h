// What an optimizer with flat gradients (runtime.gradients.flat: DeepSpeed's ZeRO) holds, for the
// list of tensors and for the closed form. Read in deepspeed 0.19.8, below deepspeed/runtime/zero:
//   zero 1, 2: a flat tensor of 16-bit weights, padded to two elements a rank
//     (stage_1_and_2.py:432, 520); the masters of this rank's part are one tensor (:555).
//     Buckets of reduce_bucket_size, whatever is in them, from the first gradient of a backward
//     (:3256, two with overlap_comm) to its end (:1061); under zero 1 to the reduction that ends
//     the step. A gradient's own tensor goes when it has been copied (:1457), unless it is larger
//     than a bucket (:1443). A bucket of several is copied once more to be reduced (:2367), and the
//     norm is of fp64 copies, one gradient after another (:2684). What a rank keeps of the first
//     full bucket makes one tensor of its part (:2186); later micro-batches make another and add it
//     (:1043). The update flattens the part once more, casts that to fp32 and frees the others
//     (:3114).
//   zero 3: masters, moments and updates in pieces of sub_group_size (stage3.py:1210); one bucket
//     and the part of the gradients stay from the first step on (:780, :791); a bucket of several
//     gradients is copied once more to be scattered (comm/coalesced_collectives.py:122).
// Of zero 0: fp16/fused_optimizer.py:285 casts each gradient to fp32 and flattens these.
#pragma once

#include <vector>

#include "sim/memory/memory_parts.h"

namespace stepcast {

// Elements that make one flat tensor: all that the ranks share, and this rank's part.
struct FlatGroup {
    double all = 0, part = 0;
};
// Experts are a group of their own, if there are any.
std::vector<FlatGroup> flat_groups(const LayerContext& context, const RankWeights& trained);
double part_of(const std::vector<FlatGroup>& groups);

// Of one bucket; a bucket for all takes what there is.
double flat_bucket(const LayerContext& context, const RankWeights& trained);
int flat_buckets(const Experiment& experiment);

// Elements of a part that are updated at a time.
std::vector<double> update_pieces(const Experiment& experiment, double part);

// The gradient of the first of a part's tensors, the embedding's, in fp64 for its norm.
Bytes norm_copy(const LayerContext& context, double part);

// Whether each module brings its weights for a pass (gathered_weights.h).
bool brings_modules(const LayerContext& context);

// Closed forms: what lasts, the most that a backward adds, and what the reduction that zero 1 ends
// a step with, or an update, adds to the gradients.
Bytes flat_lasting(const LayerContext& context, const StageWeights& stage);
Bytes flat_backward(const LayerContext& context, const StageWeights& stage);
Bytes flat_update(const LayerContext& context, const StageWeights& stage);

}  // namespace stepcast
