// What a contrastive captioner's step is made of: its towers' blocks, their parameters, their plans, and ZeRO stage 1.
#pragma once

#include <string>
#include <vector>

#include "model/block/linear.h"
#include "model/block/operators.h"
#include "model/experiment.h"
#include "model/transformer/layer.h"
#include "model/transformer/stage.h"
#include "model/units.h"
#include "model/workload.h"

namespace stepcast {

// A model of several towers as blocks: attention of `seq` positions to `keys`, then a feed-forward. What its
// parameters, arithmetic, kernels and memory follow from.
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

// The parameters of a model of several towers, tensor by tensor, in the groups that its optimizer gets: for each
// layer the tensors that decay (matrices) and those that do not (biases, norms, positions), because each layer has a
// learning rate of its own; and how ZeRO cuts a group into pieces.
struct ParameterTensor {
    std::string name;
    double elements = 0;
    std::string unit;  // the layer or end whose backward makes its gradient: "decoder.layer3", "text.start"
    friend bool operator==(const ParameterTensor&, const ParameterTensor&) = default;
};
struct ParameterGroup {
    std::string name;
    std::vector<ParameterTensor> tensors;
    friend bool operator==(const ParameterGroup&, const ParameterGroup&) = default;
};

// As the layer-wise learning rates make them, then neighbours joined until there are workload.optimizer_groups. Throws
// ConfigError naming that key when there are fewer.
std::vector<ParameterGroup> parameter_groups(const Workload& workload);

// Elements of a group, of a list of groups; of the tensors whose name begins with `tower` and a dot.
double elements_of(const ParameterGroup& group);
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

// Gradient exchange and optimizer under ZeRO stage 1 as DeepSpeed runs them (stage_1_and_2.py, 0.8): with n ranks
//   exchange  each gradient is copied into a bucket buffer; when the next would not fit, or all are there, the whole
//             buffer is divided by n and each run of elements that one rank owns is reduced to it. Without overlap
//             all this follows the backward, group by group; with it each layer's gradients go as its backward has
//             made them, next to the rest
//   step      for each tensor that this rank owns a part of: is it finite, what is its norm: a value that the host
//             waits for each time; for each group the norms of all ranks are added (one value sent, one read); then
//             for each group the owned gradients are flattened and unscaled, the optimizer updates them, and at last
//             the ranks gather
// All of it costs the host a call a tensor or group whatever their sizes. Source: ZeRO, arXiv 1910.02054.
class ZeroOne {
public:
    ZeroOne(TaskGraph& graph, const TowerContext& context, Stage& stage);

    void gradients_ready(const std::string& unit);  // its backward is written
    void finish_gradients();                        // after the last backward
    void update();

private:
    [[nodiscard]] int ranks() const { return context_.data.size(); }
    void add(const ParameterTensor& tensor, const std::vector<Slice>& slices, Phase phase);
    void close();
    void check_finite(Planner& planner) const;
    void add_norms(Planner& planner) const;
    void update_groups(Planner& planner) const;
    void gather_groups(Planner& planner) const;
    [[nodiscard]] double owned(const ParameterGroup& group) const { return piece_elements(group, ranks()); }
    [[nodiscard]] double owned_tensors(const ParameterGroup& group) const {
        return tensors_on(group, ranks(), fullest_);
    }

    TaskGraph& graph_;
    const TowerContext& context_;
    Stage& stage_;
    std::vector<ParameterGroup> groups_;
    int fullest_ = 0;
    double filled_ = 0;        // elements in the bucket
    std::vector<Slice> runs_;  // of the bucket, neighbours of one owner joined
    std::vector<TasksByRank> sent_;
};

}  // namespace stepcast
