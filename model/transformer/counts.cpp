#include "model/transformer/counts.h"

#include <algorithm>

#include "model/block/blocks.h"

namespace stepcast {
namespace {

double norm_width(const Workload& w, double width) { return w.norm == Norm::layernorm ? 2 * width : width; }

// What operators add up to: weights, and operations of one token that are no weight's.
struct Tally {
    double matrices = 0, biases = 0, norms = 0;
    double constant = 0;  // of them, matrices that meet a constant once for all sequences
    double router = 0, experts = 0, one_expert = 0;
    double scores = 0;  // operations of attention and scans
    Tally& operator+=(const Tally& o) {
        for (auto of : {&Tally::matrices, &Tally::biases, &Tally::norms, &Tally::constant, &Tally::router, &Tally::experts,
                        &Tally::one_expert, &Tally::scores})
            this->*of += o.*of;
        return *this;
    }
    friend Tally operator*(double share, Tally t) {
        for (auto of : {&Tally::matrices, &Tally::biases, &Tally::norms, &Tally::constant, &Tally::router, &Tally::experts,
                        &Tally::one_expert, &Tally::scores})
            t.*of *= share;
        return t;
    }
    [[nodiscard]] double block() const { return matrices + biases; }
};

// One rule an operator.
struct Count {
    const Workload& w;

    Tally operator()(const Linear& l) const {
        const double weights = static_cast<double>(l.out.whole * l.in.whole);
        const double biases = l.bias ? static_cast<double>(l.out.whole) : 0;
        if (l.name == "router") return {.router = weights + biases};
        return {.matrices = weights, .biases = biases, .constant = l.constant_input ? weights : 0};
    }
    Tally operator()(const GroupedLinear& l) const {
        const double weights = static_cast<double>(l.out.whole * l.in.whole);
        const double one = weights + (l.bias ? static_cast<double>(l.out.whole) : 0);
        return {.experts = w.moe.experts * one, .one_expert = weights};
    }
    Tally operator()(const Normalize& n) const { return {.norms = norm_width(w, static_cast<double>(n.width))}; }
    Tally operator()(const Elementwise& e) const { return {.matrices = e.weights}; }
    // Scores, then values weighted by them.
    Tally operator()(const Attend&) const {
        const double window = w.window > 0 ? std::min(w.window, w.seq) : w.seq;
        return {.scores = 2.0 * (w.window_share * window + (1 - w.window_share) * w.seq) * w.heads * widths()};
    }
    // Scores of relative positions beside; keys and values of the memory are projected again.
    Tally operator()(const AttendRelative&) const {
        const double again = 2.0 * 2 * w.hidden * kv_heads(w) * head_dim(w) * w.memory / w.seq;
        return {.scores = 2.0 * (w.seq + w.memory) * w.heads * (widths() + head_dim(w)) + again};
    }
    Tally operator()(const Scan& s) const {
        return {.scores = 4.0 * static_cast<double>(s.state) * static_cast<double>(s.inner().whole)};
    }
    // Without weights, and whose arithmetic is left out.
    Tally operator()(const Fork&) const { return {}; }
    Tally operator()(const Cast&) const { return {}; }
    Tally operator()(const HeadLayout&) const { return {}; }
    Tally operator()(const WithMemory&) const { return {}; }
    Tally operator()(const Activate&) const { return {}; }
    Tally operator()(const Residual&) const { return {}; }
    Tally operator()(const Route&) const { return {}; }
    Tally operator()(const ToExperts&) const { return {}; }
    Tally operator()(const FromExperts&) const { return {}; }
    Tally operator()(const AddShared&) const { return {}; }
    Tally operator()(const Embed&) const { return {}; }
    Tally operator()(const Loss&) const { return {}; }
    Tally operator()(const SpanLoss&) const { return {}; }

private:
    [[nodiscard]] double widths() const {
        return w.attention == AttentionKind::mla ? w.mla.nope_dim + w.mla.rope_dim + w.mla.value_dim : 2.0 * head_dim(w);
    }
};

Tally tally(const Block& block, const Workload& w) {
    Tally sum;
    for (const Operator& op : block) sum += std::visit(Count{w}, op);
    return sum;
}

struct LayerTally {
    Tally mixing, feed_forward;
};
LayerTally tally(const Workload& w, int layer) {
    const RankShape whole = rank_shape(w, {});
    LayerTally t;
    for (const SharedBlock& of : mixing_blocks(w, whole)) t.mixing += of.share * tally(of.block, w);
    t.feed_forward = tally(has_experts(w, layer) ? expert_block(w, whole) : feed_forward_block(w, whole), w);
    return t;
}

}  // namespace

int head_dim(const Workload& w) { return w.head_dim > 0 || w.heads == 0 ? w.head_dim : w.hidden / w.heads; }
int kv_heads(const Workload& w) { return w.kv_heads > 0 ? w.kv_heads : w.heads; }
int expert_ffn(const Workload& w) { return w.moe.ffn > 0 ? w.moe.ffn : w.ffn; }
int shared_ffn(const Workload& w) {
    return w.moe.shared_ffn > 0 ? w.moe.shared_ffn : w.moe.shared_experts * expert_ffn(w);
}
bool has_experts(const Workload& w, int layer) {
    return w.moe.experts > 0 && layer >= w.moe.dense_layers && (layer + 1) % w.moe.interval == 0;
}

LayerParameters layer_parameters(const Workload& w, int layer) {
    const auto [mixing, block] = tally(w, layer);
    return {.attention = mixing.block(),
            .norms = mixing.norms + block.norms,
            .feed_forward = block.block(),
            .router = block.router,
            .experts = block.experts};
}

double expert_parameters(const Workload& w) {
    return w.moe.experts > 0 ? tally(expert_block(w, rank_shape(w, {})), w).experts / w.moe.experts : 0;
}
double embedding_parameters(const Workload& w) { return static_cast<double>(w.vocab) * w.hidden; }
double position_parameters(const Workload& w) {
    const double types = static_cast<double>(w.token_types) * w.hidden;
    if (w.positions == Positions::relative) return types + 2.0 * w.heads * head_dim(w);
    if (w.positions != Positions::learned) return types;
    return types + static_cast<double>(w.max_positions > 0 ? w.max_positions : w.seq) * w.hidden;
}
double final_norm_parameters(const Workload& w) {
    return w.positions == Positions::relative ? 0 : norm_width(w, w.hidden);
}
double logits_parameters(const Workload& w) {
    if (w.head == Head::span) return 2.0 * w.hidden + 2;
    return (w.tied ? 0 : embedding_parameters(w)) + (w.positions == Positions::relative ? w.vocab : 0);
}

ParameterCount count_parameters(const Workload& w) {
    ParameterCount count;
    for (int layer = 0; layer < w.layers; ++layer) {
        const LayerParameters p = layer_parameters(w, layer);
        count.attention += p.attention;
        count.feed_forward += p.feed_forward;
        count.experts += p.experts;
        count.router += p.router;
        count.norms += p.norms;
        if (has_experts(w, layer)) count.active_experts += w.moe.top_k * expert_parameters(w);
    }
    count.norms += final_norm_parameters(w);
    count.embedding = embedding_parameters(w);
    count.positions = position_parameters(w);
    count.logits = logits_parameters(w);
    return count;
}

Flops layer_forward_flops(const Workload& w, int layer) {
    const auto [mixing, block] = tally(w, layer);
    const double routed = block.router > 0 ? static_cast<double>(w.moe.experts) * w.hidden : 0;
    const double met = mixing.matrices - mixing.constant + block.matrices + routed + w.moe.top_k * block.one_expert;
    return Flops(2 * met + mixing.scores);
}

Flops logits_forward_flops(const Workload& w) {
    return Flops(w.head == Head::span ? 4.0 * w.hidden : 2 * embedding_parameters(w) * w.head_share);
}

Flops forward_flops(const Workload& w, double sequences) {
    Flops token = logits_forward_flops(w);
    for (int layer = 0; layer < w.layers; ++layer) token += layer_forward_flops(w, layer);
    return token * (sequences * w.seq);
}

Flops model_flops(const Workload& w, double sequences) { return 3 * forward_flops(w, sequences); }

}  // namespace stepcast
