// The parts of a contrastive captioner's step: the blocks of its towers, their parameters and their
// plans.
#pragma once

#include <string>
#include <vector>

#include "model/base/units.h"
#include "model/block/block_pass.h"
#include "model/runtime_rules.h"
#include "model/workload.h"

namespace stepcast {

// A block of a tower: attention of `seq` positions to `keys`, then a feed-forward. It determines
// parameters, arithmetic, kernels, memory.
struct TowerBlock : Tower {
    std::string name = {};  // prefix of its tasks' names
    long keys = 0;          // number of positions attended to
    long key_width = 0;     // width of those positions before projection
    bool cross = false;
    // A pooler has no feed-forward and no residual, and its queries are parameters.
    [[nodiscard]] bool pools() const { return ffn == 0; }
};

TowerBlock vision_block(const Workload& workload);
TowerBlock pooler(const Workload& workload);              // pool_queries queries over the patches
TowerBlock contrastive_pooler(const Workload& workload);  // one query over the pooler's result
TowerBlock text_block(const Workload& workload);
TowerBlock decoder_block(const Workload& workload);  // over the text
TowerBlock cross_block(const Workload& workload);    // then over the pooled patches

std::vector<TowerBlock> tower_blocks(const Workload& workload);  // all of them

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

// The parameters of a model of several towers, tensor by tensor, in the groups that its optimizer
// receives. Each layer has its own learning rate and two groups: tensors that decay (matrices) and
// others (biases, norms, positions). ZeRO cuts groups into pieces.
struct ParameterTensor {
    double elements = 0;
    // layer or end whose backward makes its gradient: "decoder.layer3", "text.start"
    std::string unit;
};
using ParameterGroup = std::vector<ParameterTensor>;

// The groups that layer-wise learning rates create, with neighbours joined until
// runtime.optimizer.groups are left. Throws ConfigError with that key if there are fewer.
std::vector<ParameterGroup> parameter_groups(const Experiment& experiment);

// Elements of a list of groups, or only of the units of one tower.
double elements_of(const std::vector<ParameterGroup>& groups, std::string_view tower = "");

// ZeRO 1 stores a group flat, padded to a multiple of 2 x ranks elements, and cuts it into one
// piece per rank (DeepSpeed's stage_1_and_2). A tensor may lie on several ranks.
struct Slice {
    int rank = 0;
    double elements = 0;
    friend bool operator==(const Slice&, const Slice&) = default;
};
// per rank, with padding
double piece_elements(const ParameterGroup& group, int ranks);
// for each tensor, in order
std::vector<std::vector<Slice>> slices_of(const ParameterGroup& group, int ranks);
// number of tensors with a slice on the rank
int tensors_on(const ParameterGroup& group, int ranks, int rank);

// The passes of a model of several towers as plans (model/transformer/plan.h), operation by
// operation as an eager framework runs them: every tensor that is read or written counts.

// The micro-batch of one rank.
struct TowerContext {
    const Experiment& experiment;
    Group data;  // the data-parallel ranks
    [[nodiscard]] const Workload& workload() const { return experiment.workload; }
    [[nodiscard]] long batch() const { return experiment.parallelism.micro_batch; }
    [[nodiscard]] Bytes element() const { return size_of(experiment.workload.dtype); }
    // Whether autocast makes fp32 copies of 16-bit tensors, with twice their bytes.
    [[nodiscard]] bool casts() const { return experiment.runtime.autocast && element() < Bytes(4); }
};

// Sizes of a block's tensors: rows of the model's width, of the attended positions, of the inner
// width, and scores.
struct BlockSizes {
    Bytes rows, keys, inner, scores;
};
BlockSizes sizes_of(const TowerBlock& block, const TowerContext& context);

// Each plans one pass over a block, or over what precedes or follows the blocks.
void plan_tower_block(const PassWriter& out, const TowerBlock& block, const TowerContext& context);
// patches, class token, positions
void plan_patches(const PassWriter& out, const TowerContext& context);
// token embedding, positions
void plan_tokens(const PassWriter& out, const TowerContext& context);
// final norm, projection of one position
void plan_text_end(const PassWriter& out, const TowerContext& context);
// norm and projection of the pooled image
void plan_image_end(const PassWriter& out, const TowerContext& context);
void plan_caption_head(const PassWriter& out, const TowerContext& context);  // final norm, logits
// The input batch and both losses; the place of the input's host work in the step does not change
// its length. Contrastive loss: features of images and texts of all ranks are gathered, and each
// rank compares its own with them. Caption loss: cross entropy over the logits. The backward
// returns the gradients of gathered features to their ranks.
void plan_losses(const PassWriter& out, const TowerContext& context);

// A norm, of blocks and ends. Without its own kernel it is computed in fp32 under autocast: cast x
// to fp32, norm, cast the result to 16 bit.
void plan_tower_norm(const PassWriter& out, const std::string& name, Bytes x, bool fused,
                     const TowerContext& context);

}  // namespace stepcast
