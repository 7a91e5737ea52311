// S elements of scores, A of a tensor tokens x hidden:
//   causal (GPT-2): mask by choosing between score and a constant; softmax reads narrow and writes wide scores, which are cast
//   back before dropout. Not causal (BERT): the mask is added, which makes the scores wide until after dropout.
// Queries, keys and values are copied head by head, as batched products want them.
// Transformer-XL over L = memory + sequence keys (arXiv 1901.02860, section 3.3 and appendix B): memory and input are put one
// after the other; scores of contents (q + u) k and of positions (q + v) r are two batched products; the positions' are
// shifted row by row (a padded copy); then sum, scale, mask, softmax. Memory has no gradient of its own, but its rows go
// through the projection's backward.
#include "model/block/unfused.h"

namespace stepcast {
namespace {

double number(long count) { return static_cast<double>(count); }

long keys(const LayerContext& c) { return c.shape.seq + c.experiment.workload.memory; }
double key_elements(const LayerContext& c) { return number(c.shape.batch * keys(c) * c.shape.hidden); }
double scores(const LayerContext& c) { return number(c.shape.batch * c.shape.heads * c.shape.seq_q) * number(keys(c)); }
double projected(const LayerContext& c, const HeadLayout& op) {
    return number(c.shape.tokens * ((op.heads + 2 * op.kv_heads) * c.shape.qk_dim));
}

// Products of every head: rows of scores from queries and keys, or of queries or keys from scores.
Gemm to_scores(const LayerContext& c, long width) {
    return {c.shape.seq_q, keys(c), width, c.shape.batch * c.shape.heads, c.shape.storage};
}
Gemm to_queries(const LayerContext& c, long width) {
    return {c.shape.seq_q, width, keys(c), c.shape.batch * c.shape.heads, c.shape.storage};
}
Gemm to_keys(const LayerContext& c, long width) {
    return {keys(c), width, c.shape.seq_q, c.shape.batch * c.shape.heads, c.shape.storage};
}

}  // namespace

void Unfused::forward(Planner& planner, const HeadLayout& op) const {
    pass(planner, "head_layout", projected(c_, op), matrix_, matrix_, 3);
}
void Unfused::backward(BackwardPlanners b, const HeadLayout& op) const {
    pass(b.inputs, "head_layout_backward", projected(c_, op), 2.0 * matrix_, 2.0 * matrix_, 4);
}

void Unfused::softmax(Planner& planner, double all) const {
    const bool causal = workload().causal;
    const Bytes width = causal ? matrix_ : wide_;
    pass(planner, "scale", all, matrix_, matrix_);
    pass(planner, "mask", all, matrix_, width);
    pass(planner, "softmax", all, width, wide_);
    if (causal) narrow(planner, all);
    if (drops_scores()) pass(planner, "score_dropout", all, width, width + mask_);
    if (!causal) narrow(planner, all);
}

void Unfused::softmax_backward(Planner& planner, double all) const {
    const bool causal = workload().causal;
    const Bytes width = causal ? matrix_ : wide_;
    if (!causal) widen(planner, all);
    if (drops_scores()) pass(planner, "score_dropout_backward", all, width + mask_, width);
    if (causal) widen(planner, all);
    pass(planner, "softmax_backward", all, 2.0 * wide_, width);
    if (causal)
        pass(planner, "mask_backward", all, matrix_, matrix_);
    else
        narrow(planner, all);
    pass(planner, "scale_backward", all, matrix_, matrix_);
}

void Unfused::forward(Planner& planner, const Attend&) const {
    planner.compute("scores", to_scores(c_, c_.shape.qk_dim));
    softmax(planner, scores(c_));
    planner.compute("values", to_queries(c_, c_.shape.value_dim));
    pass(planner, "head_layout", outer(), matrix_, matrix_);
}

void Unfused::backward(BackwardPlanners b, const Attend&) const {
    pass(b.inputs, "head_layout_backward", outer(), matrix_, matrix_);
    b.inputs.compute("values", to_scores(c_, c_.shape.value_dim));
    b.inputs.compute("values", to_keys(c_, c_.shape.value_dim));
    softmax_backward(b.inputs, scores(c_));
    b.inputs.compute("scores", to_queries(c_, c_.shape.qk_dim));
    b.inputs.compute("scores", to_keys(c_, c_.shape.qk_dim));
}

void Unfused::forward(Planner& planner, const WithMemory&) const {
    pass(planner, "memory", key_elements(c_), wide_, wide_);
}
void Unfused::backward(BackwardPlanners b, const WithMemory&) const {
    pass(b.inputs, "memory_backward", outer(), wide_, wide_);
}

void Unfused::forward(Planner& planner, const AttendRelative&) const {
    const double all = scores(c_);
    pass(planner, "position_bias", 2 * outer(), matrix_, matrix_, 2);
    pass(planner, "head_layout", 2 * key_elements(c_), matrix_, matrix_, 2);
    planner.compute("scores", to_scores(c_, c_.shape.qk_dim));
    planner.compute("position_scores", to_scores(c_, c_.shape.qk_dim));
    pass(planner, "shift", all, matrix_, matrix_);
    pass(planner, "sum", all, 2.0 * matrix_, matrix_);
    pass(planner, "scale", all, matrix_, matrix_);
    pass(planner, "mask", all, matrix_, matrix_);
    pass(planner, "softmax", all, matrix_, wide_);
    narrow(planner, all);
    if (drops_scores()) pass(planner, "score_dropout", all, matrix_, matrix_ + mask_);
    planner.compute("values", to_queries(c_, c_.shape.qk_dim));
    pass(planner, "head_layout", outer(), matrix_, matrix_);
}

void Unfused::backward(BackwardPlanners b, const AttendRelative&) const {
    const double all = scores(c_);
    const long width = c_.shape.qk_dim;
    pass(b.inputs, "head_layout_backward", outer(), matrix_, matrix_);
    b.inputs.compute("values", to_scores(c_, width));
    b.inputs.compute("values", to_keys(c_, width));
    if (drops_scores()) pass(b.inputs, "score_dropout_backward", all, matrix_ + mask_, matrix_);
    widen(b.inputs, all);
    pass(b.inputs, "softmax_backward", all, 2.0 * wide_, matrix_);
    pass(b.inputs, "mask_backward", all, matrix_, matrix_);
    pass(b.inputs, "scale_backward", all, matrix_, matrix_);
    pass(b.inputs, "shift_backward", all, 2.0 * matrix_, 3.0 * matrix_, 3);
    for (const char* name : {"scores", "position_scores"}) {
        b.inputs.compute(name, to_queries(c_, width));
        b.inputs.compute(name, to_keys(c_, width));
    }
    pass(b.inputs, "position_bias_backward", outer(), 4.0 * matrix_, matrix_, 3);
    pass(b.inputs, "head_layout_backward", 3 * key_elements(c_), 2.0 * matrix_, 2.0 * matrix_, 4);
}

}  // namespace stepcast
