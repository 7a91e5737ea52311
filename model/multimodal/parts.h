// What a contrastive captioner's step is made of: its towers' blocks, their parameters and their plans.
#pragma once

#include <string>
#include <vector>

#include "model/block/block_pass.h"
#include "model/units.h"
#include "model/workload.h"

namespace stepcast {

// A model of several towers as blocks: attention of `seq` positions to `keys`, then a feed-forward. What its
// parameters, arithmetic, kernels and memory follow from.
struct TowerBlock : Tower {
    std::string name = {};  // begins the names of its tasks
    long keys = 0;          // positions that are attended to
    long key_width = 0;     // their width, before projection
    bool cross = false;
    // Without a feed-forward: attention alone, without residual, whose queries are parameters.
    [[nodiscard]] bool pools() const { return ffn == 0; }
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
};
TowerFlops count_tower_flops(const Workload& workload);

// The parameters of a model of several towers, tensor by tensor, in the groups that its optimizer gets: for each
// layer the tensors that decay (matrices) and those that do not (biases, norms, positions), because each layer has a
// learning rate of its own; and how ZeRO cuts a group into pieces.
struct ParameterTensor {
    double elements = 0;
    std::string unit;  // the layer or end whose backward makes its gradient: "decoder.layer3", "text.start"
};
using ParameterGroup = std::vector<ParameterTensor>;

// As the layer-wise learning rates make them, then neighbours joined until there are workload.optimizer_groups. Throws
// ConfigError naming that key when there are fewer.
std::vector<ParameterGroup> parameter_groups(const Workload& workload);

// Elements of a list of groups; of the units of a tower.
double elements_of(const std::vector<ParameterGroup>& groups, std::string_view tower = "");

// ZeRO 1: a group is laid out flat, padded to a multiple of 2 x ranks elements, and cut into one piece a rank
// (DeepSpeed's stage_1_and_2). A tensor may lie on several ranks.
struct Slice {
    int rank = 0;
    double elements = 0;
    friend bool operator==(const Slice&, const Slice&) = default;
};
double piece_elements(const ParameterGroup& group, int ranks);                      // of each rank, with padding
std::vector<std::vector<Slice>> slices_of(const ParameterGroup& group, int ranks);  // of each tensor, in order
int tensors_on(const ParameterGroup& group, int ranks, int rank);                   // tensors that have a slice there

// The passes of a model of several towers as plans (model/transformer/plan.h), operation by operation as an eager
// framework runs them: every tensor that is read or written counts.

// One rank's micro-batch.
struct TowerContext {
    const Experiment& experiment;
    Group data;  // the ranks that train together
    [[nodiscard]] const Workload& workload() const { return experiment.workload; }
    [[nodiscard]] long batch() const { return experiment.parallelism.micro_batch; }
    [[nodiscard]] Bytes element() const { return size_of(experiment.workload.dtype); }
    // fp32 copies that autocast makes of a 16-bit tensor: twice its bytes; 0 where nothing is cast.
    [[nodiscard]] bool casts() const { return experiment.workload.autocast && element() < Bytes(4); }
};

// Whole tensors of a block: rows of the model's width, of the attended ones, of the inner width, scores.
struct BlockSizes {
    Bytes rows, keys, inner, scores;
};
BlockSizes sizes_of(const TowerBlock& block, const TowerContext& context);

// One pass over a block, or over what stands around the blocks.
void plan_tower_block(const PassWriter& out, const TowerBlock& block, const TowerContext& context);
void plan_patches(const PassWriter& out, const TowerContext& context);       // patches, class token, positions
void plan_tokens(const PassWriter& out, const TowerContext& context);        // token embedding, positions
void plan_text_end(const PassWriter& out, const TowerContext& context);      // final norm, projection of one position
void plan_image_end(const PassWriter& out, const TowerContext& context);     // norm and projection of the pooled image
void plan_caption_head(const PassWriter& out, const TowerContext& context);  // final norm, logits
// The next batch; where in the step its host work lies makes no difference to its length. Contrastive loss: image and
// text features of all ranks are gathered, each rank compares its own with them; caption loss: cross entropy over the
// logits. The backward sends the gradients of gathered features home.
void plan_losses(const PassWriter& out, const TowerContext& context);

// What blocks and ends share: a product, without bias; a norm, which without a kernel of its own is cast to fp32 and back under
// autocast: x to fp32, norm of it, result to 16 bit.
void plan_tower_linear(const PassWriter& out, const Linear& linear, const TowerContext& context);
void plan_tower_norm(const PassWriter& out, const std::string& name, Bytes x, bool fused, const TowerContext& context);

}  // namespace stepcast
