// What precedes and follows the blocks of a model of several towers, and its two losses. Patches
// are copied into rows (a convolution whose stride equals its width) and multiplied; then the class
// token is put in front and positions are added. Under autocast the caption loss is in fp32: logits
// cast (r2 w4 bytes), log-softmax (r4 w4). Its backward sets a gradient of that size to zero (w4),
// reads it with the probabilities (r8 w4) and casts back (r4 w2).
#pragma once

#include "model/block/block_pass.h"
#include "model/recorded/coca/parts.h"

namespace stepcast {

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

}  // namespace stepcast
