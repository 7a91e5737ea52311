#include "model/recorded/coca/ends.h"

#include "model/base/numbers.h"
#include "model/recorded/coca/block_passes.h"
#include "model/recorded/coca/blocks.h"
#include "model/recorded/coca/parts.h"

namespace stepcast {
namespace {

Bytes tensor(const TowerContext& c, long positions, long width) {
    return real(c.batch() * positions) * real(width) * c.element();
}

// A norm followed by a linear layer. The backward runs in reverse order, with `between` in the
// middle.
struct NormThenLinear {
    std::string norm;
    Bytes x;
    bool fused_norm;
    Linear linear;
};
template <typename Between>
void plan(const PassWriter& out, const TowerContext& c, const NormThenLinear& end,
          Between between) {
    if (out.ahead != nullptr) plan_tower_norm(out, end.norm, end.x, end.fused_norm, c);
    plan_products(out, end.linear, c.experiment);
    between();
    if (out.back != nullptr) plan_tower_norm(out, end.norm, end.x, end.fused_norm, c);
}
void nothing() {}

// A projection of one position of each sample.
Linear projection(const TowerContext& c, std::string_view name) {
    const Workload& w = c.workload();
    return {name, c.batch(), w.hidden, w.hidden, w.dtype};
}

}  // namespace

// Images need no gradient.
void plan_patches(const PassWriter& out, const TowerContext& c) {
    const Workload& w = c.workload();
    const Bytes image = tensor(c, patches(w), patch_width(w)),
                x = tensor(c, w.vision.seq, w.vision.hidden);
    out.forward("patch_layout", MemoryPass{image, image});
    out.backward("positions_gradient", MemoryPass{x, Bytes(0)});
    out.backward("class_token_backward", MemoryPass{x, x});
    plan_products(out,
                  {.name = "patches",
                   .tokens = c.batch() * patches(w),
                   .out = w.vision.hidden,
                   .in = patch_width(w),
                   .dtype = w.dtype,
                   .constant_input = true},
                  c.experiment);
    out.forward("class_token", MemoryPass{x, x});
    out.forward("positions", MemoryPass{x, x});
    out.backward("bias_gradient", MemoryPass{x, Bytes(0)});
}

// The gradient of the table is dense: it is set to zero, then rows are added.
void plan_tokens(const PassWriter& out, const TowerContext& c) {
    const Workload& w = c.workload();
    const Bytes x = tensor(c, w.seq, w.hidden), table = real(w.vocab) * w.hidden * c.element();
    out.forward("embedding", MemoryPass{x, x});
    out.forward("positions", MemoryPass{x, x});
    out.backward("positions_gradient", MemoryPass{x, Bytes(0)});
    out.backward("embedding_gradient", MemoryPass{2 * x, table + x}, 2);
}

// Sums two gradients of the text: from the decoder, and from its one projected position.
void plan_text_end(const PassWriter& out, const TowerContext& c) {
    const Bytes x = tensor(c, c.workload().seq, c.workload().hidden);
    plan(out, c, {"text_final_norm", x, true, projection(c, "text_projection")}, [&] {
        out.backward("text_sum", MemoryPass{2 * x, 2 * x}, 2);
    });
}

void plan_image_end(const PassWriter& out, const TowerContext& c) {
    plan(out, c,
         {"image_final_norm", tensor(c, 1, c.workload().hidden), true,
          projection(c, "image_projection")},
         nothing);
}

void plan_caption_head(const PassWriter& out, const TowerContext& c) {
    const Workload& w = c.workload();
    const Tower& t = w.decoder;
    plan(out, c,
         {"decoder_final_norm",
          tensor(c, t.seq, t.hidden),
          t.fused_norms,
          {"caption_logits", c.batch() * t.seq, w.vocab, t.hidden, w.dtype}},
         nothing);
}

void plan_losses(const PassWriter& out, const TowerContext& c) {
    const Workload& w = c.workload();
    const Bytes scores = tensor(c, c.batch() * c.data.size(), 1),
                features = tensor(c, c.data.size(), w.hidden);
    const Bytes e = c.element();
    // number of caption logits
    const double n = real(c.batch() * w.decoder.seq) * w.vocab;
    if (out.ahead != nullptr) {
        out.ahead->host("input", HostWork{HostWork::Kind::input, 1}, true);
        for (const char* name : {"gather_images", "gather_texts"})
            out.ahead->collective(name, AllGather{features}, c.data);
    }
    if (c.casts())
        out.backward("caption_loss_backward", MemoryPass{n * Bytes(8 + 4), n * (Bytes(4 + 4) + e)},
                     3);
    else
        out.backward("caption_loss_backward", MemoryPass{n * 2 * e, n * 2 * e}, 2);
    out.backward("contrastive_loss_backward", MemoryPass{4 * scores, 4 * scores}, 8);
    // Own features against those of all ranks, image to text and text to image.
    for (int i = 0; i < 2; ++i)
        plan_products(out, {"similarity", c.batch(), c.batch() * c.data.size(), w.hidden, w.dtype},
                      c.experiment);
    out.forward("contrastive_loss", MemoryPass{6 * scores, 6 * scores}, 8);
    if (c.casts())
        out.forward("caption_loss", MemoryPass{n * (e + Bytes(4)), n * Bytes(4 + 4)}, 3);
    else
        out.forward("caption_loss", MemoryPass{n * e, n * e}, 2);
    if (out.back == nullptr) return;
    for (const char* name : {"scatter_images", "scatter_texts"})
        out.back->inputs.collective(name, ReduceScatter{features}, c.data);
}

}  // namespace stepcast
