// The passes of a model of several towers as plans (model/transformer/plan.h), operation by operation as an eager
// framework runs them: every tensor that is read or written counts.
#pragma once

#include "model/experiment.h"
#include "model/multimodal/blocks.h"
#include "model/block/linear.h"
#include "model/transformer/layer.h"

namespace stepcast {

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

void plan_block_forward(Planner& planner, const TowerBlock& block, const TowerContext& context);
void plan_block_backward(Planner& planner, const TowerBlock& block, const TowerContext& context);

// Element-wise pieces that blocks and ends share. A norm without a kernel of its own is cast to fp32 and back under
// autocast: x to fp32, norm of it, result to 16 bit.
void plan_tower_norm(Planner& planner, const std::string& name, Bytes x, bool fused, const TowerContext& context);
void plan_tower_norm_backward(Planner& planner, const std::string& name, Bytes x, bool fused,
                              const TowerContext& context);

// What stands around the blocks.
void plan_patches_forward(Planner& planner, const TowerContext& context);  // patches, class token, positions
void plan_patches_backward(Planner& planner, const TowerContext& context);
void plan_tokens_forward(Planner& planner, const TowerContext& context);  // token embedding, positions
void plan_tokens_backward(Planner& planner, const TowerContext& context);
void plan_text_end_forward(Planner& planner, const TowerContext& context);  // final norm, projection of one position
void plan_text_end_backward(Planner& planner, const TowerContext& context);
void plan_image_end_forward(Planner& planner, const TowerContext& context);  // norm and projection of the pooled image
void plan_image_end_backward(Planner& planner, const TowerContext& context);
void plan_caption_head_forward(Planner& planner, const TowerContext& context);  // final norm, logits
void plan_caption_head_backward(Planner& planner, const TowerContext& context);

// The next batch; where in the step its host work lies makes no difference to its length. Contrastive loss: image and
// text features of all ranks are gathered, each rank compares its own with them; caption loss: cross entropy over the
// logits. The backward sends the gradients of gathered features home.
void plan_losses_forward(Planner& planner, const TowerContext& context);
void plan_losses_backward(Planner& planner, const TowerContext& context);

}  // namespace stepcast
