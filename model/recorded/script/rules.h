// The kernels of each operator, forward and backward. T tokens, A = T x hidden elements, F = T x
// ffn, S = batch x heads x seq^2 scores, L = T x vocabulary. Experts: R = T x k slots of width
// hidden; slices of slots and of their gradients are views.
#pragma once

#include <span>

#include "model/base/lists.h"
#include "model/block/blocks.h"
#include "model/experiment.h"
#include "model/recorded/script/script.h"
#include "model/transformer/counts.h"

namespace stepcast {

class Eager : public EagerScript {
public:
    Eager(TaskGraph& graph, const Experiment& e)
        : EagerScript(graph, size_of(e.workload.dtype)),
          w_(e.workload),
          attention_(e.runtime.attention),
          batch_(e.parallelism.micro_batch),
          tokens_(batch_ * w_.seq),
          head_(head_dim(w_)) {}

    void run(std::span<const Operator> block) {
        for (const std::size_t i : indices_of(block))
            std::visit(*this, block[ahead() ? i : block.size() - 1 - i]);
    }

    // One addmm with the bias in its epilogue. Backward: dx (unless the input needs none), dW, and
    // a sum over tokens for the bias. Without a bias dW comes first.
    void operator()(const Linear& l) {
        const auto gemm = [&](long m, long n, long k, Gemm::Layout layout) {
            return Gemm{.m = m,
                        .n = n,
                        .k = k,
                        .dtype = w_.dtype,
                        .alignment = alignment_of(l),
                        .layout = layout};
        };
        if (ahead())
            return kernel(issue::linear, l.name,
                          gemm(l.tokens, l.out.rank, l.in.rank, Gemm::Layout::nt));
        host(issue::linear_node);
        const Gemm dw = gemm(l.out.rank, l.in.rank, l.tokens, Gemm::Layout::tn);
        if (!l.bias) kernel(0, l.name, dw);
        if (!l.constant_input)
            kernel(0, l.name, gemm(l.tokens, l.in.rank, l.out.rank, Gemm::Layout::nn));
        if (!l.bias) return;
        kernel(0, l.name, dw);
        pass(0, "bias_gradient", number(l.tokens * l.out.rank), {e_, Bytes(0), Access::strided});
    }
    void operator()(const Fork& op) {
        for (int i = 1; i < op.readers && !ahead(); ++i)
            pass(issue::node, "gradient_sum", op.elements, {2.0 * e_, e_});
    }
    // Rows of any width. Backward: one kernel for dx, one that sums over rows for scale and shift.
    void operator()(const Normalize& op) {
        if (ahead()) return pass(issue::norm, op.name, outer(), {e_, e_, Access::rows});
        pass(issue::norm_node, backward_name(op.name), outer(), {2.0 * e_, e_, Access::rows});
        pass(0, "norm_weight_gradient", outer(), {2.0 * e_, Bytes(0), Access::strided});
    }
    void operator()(const Activate&) {
        (*this)(Elementwise{.name = "gelu", .written = number(tokens_ * w_.ffn)});
    }
    void operator()(const Residual&) {
        if (ahead()) pass(issue::operation, "residual", outer(), {2.0 * e_, e_});
    }

    // Forward: queries, keys and values are views. Backward: gradients are stacked, then permuted
    // into the projection's column order.
    void operator()(const HeadLayout&) {
        if (ahead()) return host(issue::views);
        for (const char* name : {"stack_gradients", "head_layout_backward"})
            pass(2 * issue::node, name, 3 * outer(), {e_, e_, Access::strided});
    }

    void operator()(const Attend&) {
        if (!plain()) return flash_attention();
        ahead() ? plain_attention() : plain_attention_backward();
    }

    // Gathers rows of the table; counts and gathers positions and adds them to every sequence.
    void operator()(const Embed&) {
        if (!ahead()) {
            kernel(2 * issue::node, "positions_backward",
                   MemoryPass{outer() * e_, positions() * e_});
            table_gradient("positions_backward", position_rows(w_), w_.seq);
            return table_gradient("embedding_backward", w_.vocab, number(tokens_));
        }
        pass(2 * issue::module, "embedding", outer(), {e_, e_});
        small(issue::function, "positions", 1, w_.seq);
        pass(issue::module, "positions", positions(), {e_, e_});
        kernel(issue::operation, "positions",
               MemoryPass{(outer() + positions()) * e_, outer() * e_});
    }

    // Logits are cast to fp32 unless they are fp32 already. The softmax kernel reads each row three
    // times (maximum, sum, result). The active rows (two of 200 kB per multiprocessor) fill about
    // the L2, so 30 % of the repeated reads are taken to hit it. The loss picks one value per
    // token. The gradient of these values is a tensor of zeros with one value per token. The
    // softmax's backward reads that gradient twice (with the same hit rate) and the softmax once;
    // the result is cast back.
    void operator()(const Loss&) {
        if (!ahead()) {
            small(0, "ones", 1);
            pass(issue::node, "loss_backward", logits(), {Bytes(0), wide_});
            small(0, "loss_backward", 1, number(tokens_) * 4);
            pass(issue::node, "log_softmax_backward", logits(), {2.7 * wide_, wide_, Access::rows});
            host(issue::node);
            if (e_ != wide_) pass(0, "cast_logits_backward", logits(), {wide_, e_});
            return;
        }
        host(2 * issue::operation);
        if (e_ != wide_) pass(0, "cast_logits", logits(), {e_, wide_});
        pass(2 * issue::function, "log_softmax", logits(), {2.4 * wide_, wide_, Access::rows});
        small(0, "loss", 1, number(tokens_) * 4);
    }

    // Scores in fp32; their softmax; the k largest (two kernels); a histogram, for which the host
    // first reads the smallest and largest expert; a stable sort of the slots (eight kernels); a
    // host read of the counts; a gather of the slots' tokens.
    void operator()(const Route&) {
        if (!ahead()) return route_backward();
        host(3 * issue::function);
        if (e_ != wide_) pass(0, "scores", choices(), {e_, wide_});
        pass(0, "scores", choices(), {wide_, wide_, Access::rows});
        small(0, "top_k", 2, choices());
        for (int i = 0; i < 2; ++i) {
            small(issue::function, "histogram", 1, slots());
            read("histogram");
        }
        small(issue::function, "histogram", 2, slots());
        small(issue::function, "sort", 8, slots());
        read("counts");
        small(2 * issue::function, "gather", 1, slots());
        pass(0, "gather", routed(), {e_, e_, Access::rows});
    }
    // One expert in the loop over all experts.
    void operator()(const ToExperts&) { host(ahead() ? issue::views : issue::node); }
    void operator()(const Elementwise& op) {
        ahead() ? pass(issue::function, op.name, op.written, {e_, e_})
                : pass(issue::node, backward_name(op.name), op.written, {2.0 * e_, e_});
    }
    // Forward: concatenates the slots; copies a tensor of zeros and fills it; weights the slots in
    // the parameters' type and sums over k. Backward: gradients of the experts' results, and of the
    // weights (a product of the slots' size, summed over their width).
    void operator()(const FromExperts&) {
        if (!ahead()) {
            kernel(2 * issue::node, "weigh_backward", MemoryPass{outer() * e_, routed() * e_});
            kernel(0, "weigh_backward", MemoryPass{(outer() + routed()) * e_, routed() * e_});
            pass(0, "weigh_backward", routed(), {e_, Bytes(0), Access::rows});
            small(issue::node, "weigh_backward", 1, slots());
            pass(issue::node, "scatter_backward", routed(), {e_, e_, Access::rows});
            return host(issue::node);
        }
        pass(issue::function, "concatenate", routed(), {e_, e_});
        pass(issue::function, "scatter", routed(), {Bytes(0), e_});
        pass(issue::function, "scatter", routed(), {e_, e_});
        pass(0, "scatter", routed(), {e_, e_, Access::rows});
        small(issue::views, "weigh", 1, slots());
        pass(issue::operation, "weigh", routed(), {e_, e_});
        kernel(issue::operation, "sum_slots", MemoryPass{routed() * e_, outer() * e_});
    }
    // Empty: all tensors have one type and experts run one by one; check_eager() refuses everything
    // else.
    void operator()(const OneOf<Cast, WithMemory, AttendRelative, Scan, DeltaRule, Index,
                                GroupedLinear, AddShared, SpanLoss> auto&) {}

    // The mean of the squares of the layers' output: cast to fp32, square, mean. Backward: the
    // mean's share, the factor of the square (a copy and two products), the cast.
    void mean_square() {
        host(issue::event + 3 * issue::operation);
        if (e_ != wide_) pass(0, "loss", outer(), {e_, wide_});
        pass(0, "loss", outer(), {wide_, wide_});
        pass(0, "loss", outer(), {wide_, Bytes(0), Access::rows});
        small(issue::backward_start, "ones", 1);
        pass(issue::node, "loss_backward", outer(), {Bytes(0), wide_});
        pass(issue::node + 2 * issue::operation, "loss_backward", outer(), {wide_, wide_});
        pass(0, "loss_backward", outer(), {wide_, wide_});
        pass(0, "loss_backward", outer(), {2.0 * wide_, wide_});
        host(issue::node);
        if (e_ != wide_) pass(0, "loss_backward", outer(), {wide_, e_});
    }

private:
    [[nodiscard]] double outer() const { return number(tokens_ * w_.hidden); }
    [[nodiscard]] double positions() const { return number(static_cast<long>(w_.seq) * w_.hidden); }
    [[nodiscard]] double logits() const { return number(tokens_) * w_.vocab; }
    [[nodiscard]] double scores() const { return number(batch_ * w_.heads * w_.seq) * w_.seq; }
    [[nodiscard]] double choices() const { return number(tokens_ * w_.moe.experts); }
    [[nodiscard]] double slots() const { return number(tokens_ * w_.moe.top_k); }
    [[nodiscard]] double routed() const { return slots() * w_.hidden; }
    [[nodiscard]] bool plain() const { return attention_ == AttentionKind::plain; }

    // One kernel, which reads the permuted views in place. fp32 operands are multiplied in fp32,
    // whatever the mode of other products. Backward: the sum of dO * O, the kernel, the cast of dQ.
    void flash_attention() {
        const bool backward = !ahead();
        Attention op{batch_, w_.heads, w_.seq, w_.seq, head_, w_.causal, backward, w_.dtype, true};
        if (w_.dtype == Dtype::tf32) op.dtype = Dtype::fp32;
        op.generation = flash_generation(attention_);
        kernel(backward ? issue::attention_node + 2 * issue::launch : issue::attention,
               backward ? "attention_backward" : "attention", op);
    }

    [[nodiscard]] Gemm product(long m, long n, long k) const {
        return {.m = m, .n = n, .k = k, .batch = batch_ * w_.heads, .dtype = w_.dtype};
    }

    // With more than one sequence, the batched products need q, k^T and v copied into another
    // layout (k^T really transposed). There is no mask. A copy puts the heads side by side again.
    void plain_attention() {
        host(issue::product);
        if (batch_ > 1) {
            pass(0, "head_layout", outer(), {e_, e_, Access::strided});
            pass(0, "head_layout", outer(), {e_, e_, Access::transpose});
        }
        kernel(0, "scores", product(w_.seq, w_.seq, head_));
        pass(issue::operation, "scale", scores(), {e_, e_});
        pass(issue::function, "softmax", scores(), {e_, e_, Access::rows});
        host(issue::product);
        if (batch_ > 1) pass(0, "head_layout", outer(), {e_, e_, Access::strided});
        kernel(0, "values", product(w_.seq, head_, w_.seq));
        pass(issue::function, "head_layout", outer(), {e_, e_, Access::strided});
    }

    void plain_attention_backward() {
        pass(2 * issue::node, "head_layout_backward", outer(), {e_, e_, Access::strided});
        kernel(issue::product_node, "values", product(w_.seq, head_, w_.seq));
        kernel(0, "values", product(w_.seq, w_.seq, head_));
        pass(issue::node, "softmax_backward", scores(), {2.0 * e_, e_, Access::rows});
        pass(issue::node, "scale_backward", scores(), {e_, e_});
        kernel(issue::product_node, "scores", product(head_, w_.seq, w_.seq));
        kernel(0, "scores", product(w_.seq, head_, w_.seq));
    }

    // Few rows are added one by one. For more than 3072, the indices are sorted and counted (a
    // dozen small kernels); then the rows of each index are summed in fp32 pieces and written. The
    // table's gradient is set to zero first.
    void table_gradient(std::string_view name, double rows, double gathered) {
        constexpr double sorted_from = 3072;
        pass(2 * issue::node, name, rows * w_.hidden, {Bytes(0), e_});
        if (gathered <= sorted_from)
            return pass(0, name, gathered * w_.hidden, {2.0 * e_, e_, Access::rows});
        small(4 * issue::node, name, 12, gathered);
        pass(0, name, gathered * w_.hidden, {e_, wide_, Access::rows});
        pass(0, name, gathered * w_.hidden, {wide_, e_, Access::rows});
    }

    void route_backward() {
        pass(issue::node, "top_k_backward", choices(), {Bytes(0), wide_});
        small(0, "top_k_backward", 1, slots());
        pass(issue::node, "scores_backward", choices(), {2.0 * wide_, wide_, Access::rows});
        host(issue::node);
        if (e_ != wide_) pass(0, "scores_backward", choices(), {wide_, e_});
    }

    const Workload& w_;
    AttentionKind attention_;
    long batch_, tokens_, head_;
    const Bytes e_ = element(), wide_ = Bytes(4);  // bytes per element
};

}  // namespace stepcast
