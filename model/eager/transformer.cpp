// T tokens, A = T x hidden elements, F = T x ffn, S = batch x heads x seq^2 scores, L = T x vocabulary.
#include "model/checks/checks.h"
#include "model/builders.h"

#include <span>

#include "model/block/blocks.h"
#include "model/eager/script.h"
#include "model/errors.h"
#include "model/graph/op_kinds.h"
#include "model/transformer/counts.h"

namespace stepcast {
namespace {

using Access = MemoryPass::Access;

double number(long count) { return static_cast<double>(count); }

// One rule an operator: the kernels of its forward, and of its backward.
class Eager {
public:
    Eager(const Workload& w, long batch, EagerScript& script)
        : w_(w), batch_(batch), tokens_(batch * w.seq), head_(head_dim(w)), script_(script) {}

    void run(std::span<const Operator> block) {
        for (std::size_t i = 0; i < block.size(); ++i) std::visit(*this, block[ahead() ? i : block.size() - 1 - i]);
    }

    void operator()(const Linear& op) { ahead() ? script_.linear(op) : script_.linear_backward(op); }
    void operator()(const Fork& op) {
        for (int i = 1; i < op.readers && !ahead(); ++i) script_.accumulate(op.elements);
    }
    void operator()(const Normalize& op) {
        ahead() ? script_.norm(op.name, outer()) : script_.norm_backward(backward_name(op.name), outer());
    }
    void operator()(const Activate&) { ahead() ? script_.gelu(inner()) : script_.gelu_backward(inner()); }
    void operator()(const Residual&) {
        if (ahead()) script_.add("residual", outer());
    }

    // Views of queries, keys and values; backward: their gradients, stacked, then permuted into the order of the
    // projection's columns.
    void operator()(const HeadLayout&) {
        const Bytes e = script_.element();
        if (ahead()) return script_.host(issue::views);
        for (const char* name : {"stack_gradients", "head_layout_backward"})
            script_.pass(2 * issue::node, name, 3 * outer(), e, e, Access::strided);
    }

    void operator()(const Attend&) {
        if (!plain()) return flash_attention();
        ahead() ? plain_attention() : plain_attention_backward();
    }

    // Rows of the table gathered; positions counted, gathered and added to every sequence.
    void operator()(const Embed&) {
        const Bytes e = script_.element();
        if (!ahead()) {
            script_.kernel(2 * issue::node, "positions_backward", MemoryPass{outer() * e, positions() * e});
            table_gradient("positions_backward", w_.max_positions > 0 ? w_.max_positions : w_.seq, w_.seq);
            return table_gradient("embedding_backward", w_.vocab, number(tokens_));
        }
        script_.pass(2 * issue::module, "embedding", outer(), e, e);
        script_.small(issue::function, "positions", 1, w_.seq);
        script_.pass(issue::module, "positions", positions(), e, e);
        script_.kernel(issue::operation, "positions", MemoryPass{(outer() + positions()) * e, outer() * e});
    }

    // Logits cast to fp32 unless they are; a softmax kernel goes through each row three times (largest, sum, result). The rows
    // in work (two of 200 kB a multiprocessor) are about what the L2 holds: three in ten of the repeats are taken to hit it.
    // The loss picks one value a token. The gradient of the picked values is a tensor of zeros with one value a token; the
    // softmax's reads it twice (see above) and the result once; cast back.
    void operator()(const Loss&) {
        const Bytes e = script_.element(), wide(4);
        if (!ahead()) {
            script_.small(0, "ones", 1);
            script_.pass(issue::node, "loss_backward", logits(), Bytes(0), wide);
            script_.small(0, "loss_backward", 1, number(tokens_) * 4);
            script_.pass(issue::node, "log_softmax_backward", logits(), 2.7 * wide, wide, Access::rows);
            script_.host(issue::node);
            if (e != wide) script_.pass(0, "cast_logits_backward", logits(), wide, e);
            return;
        }
        script_.host(2 * issue::operation);
        if (e != wide) script_.pass(0, "cast_logits", logits(), e, wide);
        script_.pass(2 * issue::function, "log_softmax", logits(), 2.4 * wide, wide, Access::rows);
        script_.small(0, "loss", 1, number(tokens_) * 4);
    }
    // All is of one type; check_eager() lets nothing else through.
    void operator()(const OneOf<Cast, WithMemory, AttendRelative, Elementwise, Scan, Route, ToExperts, GroupedLinear, FromExperts,
                                AddShared, SpanLoss> auto&) {}

private:
    [[nodiscard]] bool ahead() const { return script_.ahead(); }
    [[nodiscard]] double outer() const { return number(tokens_ * w_.hidden); }
    [[nodiscard]] double inner() const { return number(tokens_ * w_.ffn); }
    [[nodiscard]] double positions() const { return number(static_cast<long>(w_.seq) * w_.hidden); }
    [[nodiscard]] double logits() const { return number(tokens_) * w_.vocab; }
    [[nodiscard]] double scores() const { return number(batch_ * w_.heads * w_.seq) * w_.seq; }
    [[nodiscard]] bool plain() const { return w_.attention == AttentionKind::plain; }

    // One kernel that reads the permuted views where they lie; fp32 operands are multiplied as such, whatever the products'
    // mode. Backward: dO * O summed, the kernel, dQ cast.
    void flash_attention() {
        const bool backward = !ahead();
        Attention op{batch_, w_.heads, w_.seq, w_.seq, head_, w_.causal, backward, w_.dtype, true};
        if (w_.dtype == Dtype::tf32) op.dtype = Dtype::fp32;
        op.generation = flash_generation(w_.attention);
        script_.kernel(backward ? issue::attention_node + 2 * issue::launch : issue::attention, backward ? "attention_backward" : "attention", op);
    }

    [[nodiscard]] Gemm product(long m, long n, long k) const {
        return {.m = m, .n = n, .k = k, .batch = batch_ * w_.heads, .dtype = w_.dtype};
    }

    // Of more than one sequence the batched products want q, k^T and v laid out anew: k^T truly transposed. No mask. The
    // heads are put side by side again by a copy.
    void plain_attention() {
        const Bytes e = script_.element();
        script_.host(issue::product);
        if (batch_ > 1) {
            script_.pass(0, "head_layout", outer(), e, e, Access::strided);
            script_.pass(0, "head_layout", outer(), e, e, Access::transpose);
        }
        script_.kernel(0, "scores", product(w_.seq, w_.seq, head_));
        script_.pass(issue::operation, "scale", scores(), e, e);
        script_.pass(issue::function, "softmax", scores(), e, e, Access::rows);
        script_.host(issue::product);
        if (batch_ > 1) script_.pass(0, "head_layout", outer(), e, e, Access::strided);
        script_.kernel(0, "values", product(w_.seq, head_, w_.seq));
        script_.pass(issue::function, "head_layout", outer(), e, e, Access::strided);
    }

    void plain_attention_backward() {
        const Bytes e = script_.element();
        script_.pass(2 * issue::node, "head_layout_backward", outer(), e, e, Access::strided);
        script_.kernel(3 * issue::node, "values", product(w_.seq, head_, w_.seq));
        script_.kernel(0, "values", product(w_.seq, w_.seq, head_));
        script_.pass(2 * issue::node, "softmax_backward", scores(), 2.0 * e, e, Access::rows);
        script_.pass(issue::node, "scale_backward", scores(), e, e);
        script_.kernel(3 * issue::node, "scores", product(head_, w_.seq, w_.seq));
        script_.kernel(0, "scores", product(w_.seq, head_, w_.seq));
    }

    // Few rows are added one by one; for more than 3072 the indices are sorted and counted (a dozen small kernels), then rows of
    // one index summed in fp32 pieces and written. The gradient of a table is set to zero first.
    void table_gradient(std::string_view name, double rows, double gathered) {
        constexpr double sorted_from = 3072;
        const Bytes e = script_.element(), wide(4);
        script_.pass(2 * issue::node, name, rows * w_.hidden, Bytes(0), e);
        if (gathered <= sorted_from) return script_.pass(0, name, gathered * w_.hidden, 2.0 * e, e, Access::rows);
        script_.small(4 * issue::node, name, 12, gathered);
        script_.pass(0, name, gathered * w_.hidden, e, wide, Access::rows);
        script_.pass(0, name, gathered * w_.hidden, wide, e, Access::rows);
    }

    const Workload& w_;
    long batch_, tokens_, head_;
    EagerScript& script_;
};

// A norm and a linear layer have two parameters each; then two embeddings, the final norm and the logits.
int tensors(const Workload& w) { return w.layers * 12 + 5; }

template <class T>
void expect(bool holds, const char* key, const T& found, const char* expected) {
    if (!holds)
        throw ConfigError(std::string(key) + ": " + std::string(found) + ", with parallelism.eager_script expected " +
                          expected);
}

}  // namespace

void check_eager(const Experiment& e) {
    const Workload& w = e.workload;
    const Parallelism& p = e.parallelism;
    expect(rank_count(e.cluster) == 1, "cluster.gpus_per_node", std::to_string(rank_count(e.cluster)), "1 rank");
    expect(micro_batches(p) == 1, "parallelism.global_batch", std::to_string(p.global_batch), "one micro-batch");
    expect(w.dtype != Dtype::fp8, "workload.dtype", to_string(w.dtype), "fp32, tf32, fp16 or bf16");
    if (w.kind == Workload::Kind::moe_layer) return;
    expect(w.kind == Workload::Kind::transformer, "workload.kind", to_string(w.kind), "transformer or moe_layer");
    expect(p.recompute == Recompute::none, "parallelism.recompute", to_string(p.recompute), "none");
    expect(w.moe.experts == 0, "workload.moe.experts", std::to_string(w.moe.experts), "0");
    expect(!w.gated && w.activation == Activation::gelu, "workload.gated", "another activation", "GELU without gate");
    expect(w.norm == Norm::layernorm, "workload.norm", to_string(w.norm), "layernorm");
    expect(w.positions == Positions::learned, "workload.positions", to_string(w.positions), "learned");
    expect(w.head == Head::tokens, "workload.head", to_string(w.head), "tokens");
    expect(!w.tied, "workload.tied", "true", "false");
    expect(w.linear_bias && w.qkv_bias, "workload.linear_bias", "false", "true, as qkv_bias");
    expect(w.dropout == 0, "workload.dropout", std::to_string(w.dropout), "0");
    expect(!w.autocast, "workload.autocast", "true", "false");
    expect(w.kv_heads == 0 || w.kv_heads == w.heads, "workload.kv_heads", std::to_string(w.kv_heads),
           "as many as heads");
    expect(w.heads > 0 && head_dim(w) * w.heads == w.hidden, "workload.heads", std::to_string(w.heads),
           "a divisor of hidden");
    expect(w.attention != AttentionKind::mla, "workload.attention", to_string(w.attention), "plain or flash");
    expect(w.optimizer == Optimizer::adam || w.optimizer == Optimizer::none, "workload.optimizer",
           to_string(w.optimizer), "adam or none");
}

TaskGraph build_eager_transformer_step(const Experiment& e) {
    const Workload& w = e.workload;
    const RankShape shape = rank_shape(e);
    TaskGraph graph(1, e.cluster.launch_blocking);
    EagerScript script(graph, w.dtype);
    Eager eager(w, e.parallelism.micro_batch, script);
    const Block attention = attention_block(w, shape), feed_forward = feed_forward_block(w, shape), end = head_block(w, shape);
    const auto head = std::span(end).subspan(1);  // nothing but the final norm reads what the last layer makes
    script.begin(Phase::forward);
    eager.run(embedding_block());
    for (int l = 0; l < w.layers; ++l) {
        script.host(issue::module);
        eager.run(attention);
        eager.run(feed_forward);
    }
    eager.run(head);
    script.begin(Phase::backward);
    script.host(issue::event + issue::backward_start);
    eager.run(head);
    for (int l = 0; l < w.layers; ++l) {
        eager.run(feed_forward);
        eager.run(attention);
    }
    eager.run(embedding_block());
    if (w.optimizer == Optimizer::adam) {
        script.begin(Phase::optimizer);
        script.host(issue::event);
        script.adam(count_parameters(w).total(), tensors(w));
    }
    return graph;
}

}  // namespace stepcast
