// What stands around the blocks of a model of several towers, and its two losses.
// Patches are laid out as rows (a convolution whose stride is its width), multiplied, the class token put in front,
// positions added. The caption loss is computed in fp32 under autocast: logits cast (r2 w4 bytes), log-softmax (r4
// w4); its backward sets a gradient of that size to zero (w4), reads it with the probabilities (r8 w4) and casts back
// (r4 w2).
#include "model/multimodal/parts.h"

namespace stepcast {
namespace {

Bytes tensor(const TowerContext& c, long positions, long width) {
    return static_cast<double>(c.batch() * positions) * static_cast<double>(width) * c.element();
}

Linear patch_linear(const TowerContext& c) {
    const Workload& w = c.workload();
    return {"patches", c.batch() * patches(w), w.vision.hidden, patch_width(w), w.dtype};
}
Linear logits_linear(const TowerContext& c) {
    const Workload& w = c.workload();
    return {"caption_logits", c.batch() * w.decoder.seq, w.vocab, w.decoder.hidden, w.dtype};
}
// One position of each sample.
Linear projection(const TowerContext& c, std::string_view name) {
    const Workload& w = c.workload();
    return {name, c.batch(), w.hidden, w.hidden, w.dtype};
}
// Own features against everybody's, image to text and text to image.
Linear similarity(const TowerContext& c) {
    const Workload& w = c.workload();
    return {"similarity", c.batch(), c.batch() * c.data.size(), w.hidden, w.dtype};
}
Bytes features(const TowerContext& c) { return tensor(c, c.data.size(), c.workload().hidden); }

void both_gradients(Planner& planner, const Linear& linear, const TowerContext& c) {
    plan_input_gradient(planner, linear);
    plan_weight_gradient(planner, linear, c.experiment);
}

// Elements of the caption logits.
double logit_count(const TowerContext& c) {
    const Linear l = logits_linear(c);
    return static_cast<double>(l.tokens) * static_cast<double>(l.out.rank);
}

}  // namespace

void plan_patches_forward(Planner& planner, const TowerContext& c) {
    const Workload& w = c.workload();
    const Bytes image = tensor(c, patches(w), patch_width(w)), x = tensor(c, w.vision.seq, w.vision.hidden);
    planner.compute("patch_layout", MemoryPass{image, image});
    plan_linear(planner, patch_linear(c));
    planner.compute("class_token", MemoryPass{x, x});
    planner.compute("positions", MemoryPass{x, x});
}

// Images need no gradient.
void plan_patches_backward(Planner& planner, const TowerContext& c) {
    const Workload& w = c.workload();
    const Bytes x = tensor(c, w.vision.seq, w.vision.hidden);
    planner.compute("positions_gradient", MemoryPass{x, Bytes(0)});
    planner.compute("class_token_backward", MemoryPass{x, x});
    plan_weight_gradient(planner, patch_linear(c), c.experiment);
    planner.compute("bias_gradient", MemoryPass{x, Bytes(0)});
}

void plan_tokens_forward(Planner& planner, const TowerContext& c) {
    const Workload& w = c.workload();
    const Bytes x = tensor(c, w.seq, w.hidden);
    planner.compute("embedding", MemoryPass{x, x});
    planner.compute("positions", MemoryPass{x, x});
}

// A dense gradient of the table: set to zero, rows added.
void plan_tokens_backward(Planner& planner, const TowerContext& c) {
    const Workload& w = c.workload();
    const Bytes x = tensor(c, w.seq, w.hidden), table = static_cast<double>(w.vocab) * w.hidden * c.element();
    planner.compute("positions_gradient", MemoryPass{x, Bytes(0)});
    planner.compute("embedding_gradient", MemoryPass{2 * x, table + x}, 2);
}

void plan_text_end_forward(Planner& planner, const TowerContext& c) {
    const Workload& w = c.workload();
    plan_tower_norm(planner, "text_final_norm", tensor(c, w.seq, w.hidden), true, c);
    plan_linear(planner, projection(c, "text_projection"));
}

// The decoder's gradient of the text meets that of its one projected position.
void plan_text_end_backward(Planner& planner, const TowerContext& c) {
    const Workload& w = c.workload();
    const Bytes x = tensor(c, w.seq, w.hidden);
    both_gradients(planner, projection(c, "text_projection"), c);
    planner.compute("text_sum", MemoryPass{2 * x, 2 * x}, 2);
    plan_tower_norm_backward(planner, "text_final_norm_backward", x, true, c);
}

void plan_image_end_forward(Planner& planner, const TowerContext& c) {
    plan_tower_norm(planner, "image_final_norm", tensor(c, 1, c.workload().hidden), true, c);
    plan_linear(planner, projection(c, "image_projection"));
}

void plan_image_end_backward(Planner& planner, const TowerContext& c) {
    both_gradients(planner, projection(c, "image_projection"), c);
    plan_tower_norm_backward(planner, "image_final_norm_backward", tensor(c, 1, c.workload().hidden), true, c);
}

void plan_caption_head_forward(Planner& planner, const TowerContext& c) {
    const Tower& t = c.workload().decoder;
    plan_tower_norm(planner, "decoder_final_norm", tensor(c, t.seq, t.hidden), t.fused_norms, c);
    plan_linear(planner, logits_linear(c));
}

void plan_caption_head_backward(Planner& planner, const TowerContext& c) {
    const Tower& t = c.workload().decoder;
    both_gradients(planner, logits_linear(c), c);
    plan_tower_norm_backward(planner, "decoder_final_norm_backward", tensor(c, t.seq, t.hidden), t.fused_norms, c);
}

void plan_losses_forward(Planner& planner, const TowerContext& c) {
    planner.host("input", HostWork{HostWork::Kind::input, 1}, true);
    const Bytes scores = tensor(c, c.batch() * c.data.size(), 1);
    for (const char* name : {"gather_images", "gather_texts"}) planner.collective(name, AllGather{features(c)}, c.data);
    for (int i = 0; i < 2; ++i) plan_linear(planner, similarity(c));
    planner.compute("contrastive_loss", MemoryPass{6 * scores, 6 * scores}, 8);
    const double n = logit_count(c);
    const Bytes e = c.element();
    if (c.casts())
        planner.compute("caption_loss", MemoryPass{n * (e + Bytes(4)), n * Bytes(4 + 4)}, 3);
    else
        planner.compute("caption_loss", MemoryPass{n * e, n * e}, 2);
}

void plan_losses_backward(Planner& planner, const TowerContext& c) {
    const Bytes scores = tensor(c, c.batch() * c.data.size(), 1);
    const double n = logit_count(c);
    const Bytes e = c.element();
    if (c.casts())
        planner.compute("caption_loss_backward", MemoryPass{n * Bytes(8 + 4), n * (Bytes(4 + 4) + e)}, 3);
    else
        planner.compute("caption_loss_backward", MemoryPass{n * 2 * e, n * 2 * e}, 2);
    planner.compute("contrastive_loss_backward", MemoryPass{4 * scores, 4 * scores}, 8);
    for (int i = 0; i < 2; ++i) both_gradients(planner, similarity(c), c);
    for (const char* name : {"scatter_images", "scatter_texts"})
        planner.collective(name, ReduceScatter{features(c)}, c.data);
}

}  // namespace stepcast
