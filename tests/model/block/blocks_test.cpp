// The expectations follow from a block's list of operators, whatever the style of its kernels.

#include <algorithm>
#include <set>

#include <catch2/catch.hpp>

#include "model/block/blocks.h"
#include "model/block/kernels.h"
#include "model/experiment.h"
#include "model/rank_groups.h"
#include "model/transformer/counts.h"
#include "model/transformer/rank_shape.h"
#include "tests/model/block/plan_lines.h"
#include "tests/model/block/small_model.h"

using namespace stepcast;

namespace {

std::vector<Experiment> kinds() {
    Experiment llama = small_model(), separate = llama, latent = llama, hybrid = llama,
               experts = llama;
    separate.runtime.fused_projections = false;
    latent.workload.kv_heads = 0;
    latent.workload.mla = {
        .q_rank = 24, .kv_rank = 16, .nope_dim = 8, .rope_dim = 4, .value_dim = 8};
    hybrid.workload.mamba = {
        .heads = 16, .head_dim = 8, .state = 16, .groups = 8, .attention = 0.5};
    experts.workload.moe = {.experts = 8, .top_k = 2, .ffn = 32};
    experts.workload.moe.shared_experts = 1;
    return {llama, separate, latent, hybrid, experts};
}

std::vector<Block> blocks_of(const Experiment& e) {
    const Workload& w = e.workload;
    const RankShape s = rank_shape(e);
    std::vector<Block> blocks;
    for (const SharedBlock& of : mixing_blocks(w, s)) blocks.push_back(of.block);
    blocks.push_back(has_experts(w, 0) ? expert_block(w, s) : feed_forward_block(w, s));
    return blocks;
}

struct Kernels {
    TaskGraph graph{1, false};
    Plan forward, backward;
    Kernels(const Experiment& e, const Block& block, KernelStyle style) {
        const Routing balanced;
        const LayerContext c{e, rank_shape(e), rank_groups(e.parallelism), balanced};
        Planner ahead(graph), back(graph);
        const BackwardPlanners both{back, back};
        plan_block({&ahead, nullptr}, c, block, style);
        plan_block({nullptr, &both}, c, block, style);
        forward = ahead.take();
        backward = back.take();
    }
    // 2 m n k of every product, grouped ones and one-kernel attention too.
    [[nodiscard]] double flops(const Plan& plan) const {
        double sum = 0;
        for (const PlannedTask& task : plan.tasks) sum += flops_of(graph.ops()[task.op]).si();
        return sum;
    }
    [[nodiscard]] int count(const Plan& plan, std::string_view name) const {
        TaskGraph names = graph;
        const NameId id = names.name_id(name);
        return static_cast<int>(std::ranges::count(plan.tasks, id, &PlannedTask::name));
    }
};

}  // namespace

// Heads, groups and widths are divisible by 2 and 4 here. A router and the projections down to
// latents are not split.
TEST_CASE("what tensor parallelism leaves a rank, times the ranks, is the whole") {
    for (Experiment e : kinds())
        for (const int tp : {1, 2, 4}) {
            e.parallelism.tp = tp;
            e.runtime.experts.tensor_parallel = ExpertSplit::all;
            for (const Block& block : blocks_of(e))
                for (const Operator& op : block) {
                    if (const auto* l = std::get_if<Linear>(&op)) {
                        INFO(l->name);
                        const bool by_rows = l->split == Split::row;
                        CHECK((by_rows ? l->in : l->out).whole % tp == 0);
                        if (by_rows) CHECK(l->in.rank * tp == l->in.whole);
                        if (by_rows) CHECK(l->out.rank == l->out.whole);
                        if (l->split == Split::column) CHECK(l->out.rank * tp == l->out.whole);
                    }
                    if (const auto* l = std::get_if<GroupedLinear>(&op))
                        CHECK((l->split == Split::row ? l->in : l->out).rank * tp ==
                              (l->split == Split::row ? l->in : l->out).whole);
                }
        }
}

// dx = dy W^T and dW = dy^T x are as large as y = x W; a scan also has two products for each of the
// forward. Attention in one kernel also computes its scores again, as no memory holds them.
TEST_CASE("the backward of every product is two of its size") {
    for (const Experiment& e : kinds())
        for (const Block& block : blocks_of(e)) {
            const Kernels kernels(e, block, KernelStyle::fused);
            double scores = 0;
            for (const PlannedTask& task : kernels.forward.tasks)
                if (const auto* op = std::get_if<Attention>(&kernels.graph.ops()[task.op]))
                    scores += (op->causal ? 1.0 : 2.0) *
                              static_cast<double>(op->batch * op->heads * op->seq_q * op->seq_k *
                                                  op->head_dim);
            REQUIRE(kernels.flops(kernels.forward) > 0);
            CHECK(kernels.flops(kernels.backward) ==
                  Approx(2 * kernels.flops(kernels.forward) + scores));
        }
}

// In the product 16 tokens of causal attention see 8.5 keys each; the usual count of a model's
// arithmetic takes 16. Without attention both are 2 operations per weight and token.
TEST_CASE("the products of a block are two operations for each of its weights and tokens") {
    Experiment e = small_model();
    const Workload& w = e.workload;
    const double weights = layer_parameters(w, 0).feed_forward, tokens = 3 * 16;
    const Kernels kernels(e, feed_forward_block(w, rank_shape(e)), KernelStyle::fused);
    CHECK(weights == 3 * 64 * 128);
    CHECK(kernels.flops(kernels.forward) == 2 * tokens * weights);
}

// 50257 words over 4 ranks: 12565 a rank, in odd rows. In multiples of 128 a rank holds 99 of them:
// 12672 words.
TEST_CASE("a padded vocabulary gives each rank whole multiples and aligned rows") {
    Experiment e = small_model();
    e.workload.vocab = 50257;
    e.parallelism.tp = 4;
    const auto logits = [&] {
        const Block head = head_block(e.workload, rank_shape(e));
        for (const Operator& op : head)
            if (const auto* linear = std::get_if<Linear>(&op)) return *linear;
        throw std::logic_error("no product");
    };
    CHECK(logits().out.rank == 12565);
    CHECK(alignment_of(logits()) == Gemm::Alignment::odd);
    e.runtime.vocab_multiple = 128;
    CHECK(logits().out.rank == 12672);
    CHECK(alignment_of(logits()) == Gemm::Alignment::full);
}

// With T tokens and V symbols: cast (2 + 4 bytes), maximum (4), subtract and exponential (8 each)
// and sum (4) read 18 T V bytes and write
// 12. The backward's subtract and scale (8) and cast (4 + 2) read 8 and write 6. Like the
// optimizer's, these passes are long.
TEST_CASE("passes over the logits are long ones and counted whole") {
    Experiment e = small_model();
    e.runtime.loss.fused = false;
    const RankShape s = rank_shape(e);
    const Kernels head(e, head_block(e.workload, s), KernelStyle::fused);
    const auto pass = [&](const Plan& plan, std::string_view name) {
        TaskGraph names = head.graph;
        const auto task = std::ranges::find(plan.tasks, names.name_id(name), &PlannedTask::name);
        REQUIRE(task != plan.tasks.end());
        return std::get<MemoryPass>(head.graph.ops()[task->op]);
    };
    const Bytes n(static_cast<double>(s.head_tokens * s.vocab));
    CHECK(pass(head.forward, "loss") ==
          MemoryPass{18.0 * n, 12.0 * n, MemoryPass::Access::optimizer});
    CHECK(pass(head.backward, "loss_backward") ==
          MemoryPass{8.0 * n, 6.0 * n, MemoryPass::Access::optimizer});
}

// With separate gate and up projections the gradients of their common input are added once; with
// queries, keys and values twice.
TEST_CASE("a tensor that several products read gets the sum of their gradients") {
    Experiment e = small_model();
    e.runtime.fused_projections = false;
    const RankShape s = rank_shape(e);
    const Kernels up(e, feed_forward_block(e.workload, s), KernelStyle::fused);
    const Kernels attention(e, attention_block(e.workload, s), KernelStyle::fused);
    const Bytes x = 48 * 64 * Bytes(2);
    const auto sum_of = [](const Kernels& k) {
        TaskGraph names = k.graph;
        const NameId id = names.name_id("input_gradient_sum");
        const auto task = std::ranges::find(k.backward.tasks, id, &PlannedTask::name);
        REQUIRE(task != k.backward.tasks.end());
        return std::get<MemoryPass>(k.graph.ops()[task->op]);
    };
    CHECK(sum_of(up) == MemoryPass{2.0 * x, x});
    CHECK(sum_of(attention) == MemoryPass{4.0 * x, 2.0 * x});
    e.workload.gated = false;
    e.runtime.attention = AttentionKind::plain;
    e.workload.positions = Positions::learned;
    e.runtime.kernels = KernelStyle::operations;
    const Kernels steps(e, attention_block(e.workload, s), KernelStyle::operations);
    CHECK(steps.count(steps.forward, "query") == 1);
    CHECK(steps.count(steps.forward, "qkv") == 0);
}

static Attention attention_of(const Kernels& kernels) {
    for (const PlannedTask& task : kernels.forward.tasks)
        if (const auto* op = std::get_if<Attention>(&kernels.graph.ops()[task.op])) return *op;
    throw std::logic_error("no attention");
}

// PyTorch's mode of TF32 is one of products: scores that go through memory are products of it, one
// kernel of attention is not.
TEST_CASE("attention in one kernel stays in fp32 where products are in tf32") {
    Experiment e = small_model();
    e.workload.dtype = Dtype::tf32;
    const auto types = [&] {
        const Kernels k(e, attention_block(e.workload, rank_shape(e)), KernelStyle::fused);
        std::set<Dtype> found;
        for (const PlannedTask& task : k.forward.tasks) {
            if (const auto* op = std::get_if<Attention>(&k.graph.ops()[task.op]))
                found.insert(op->dtype);
            if (const auto* op = std::get_if<Gemm>(&k.graph.ops()[task.op]))
                found.insert(op->dtype);
        }
        return found;
    };
    CHECK(types() == std::set{Dtype::fp32, Dtype::tf32});
    e.runtime.attention = AttentionKind::plain;
    CHECK(types() == std::set{Dtype::tf32});
}

// A window of 4 of 16 keys in three of four layers: queries 0..3 see 1 + 2 + 3 + 4 keys, the other
// twelve 4 each: 58 of 256 pairs; without a window 136. The usual count of a model's arithmetic
// takes 0.75 x 4 + 0.25 x 16 = 7 keys per token instead of 16.
TEST_CASE("a sliding window leaves a query its last keys, in the share of layers that slide") {
    Experiment e = small_model();
    const double all = layer_forward_flops(e.workload, 0).si();
    e.workload.window = 4;
    e.workload.window_share = 0.75;
    const Kernels kernels(e, attention_block(e.workload, rank_shape(e)), KernelStyle::fused);
    const Attention op = attention_of(kernels);
    CHECK(op.window == 4);
    CHECK(seen_share(op) == Approx((0.75 * 58 + 0.25 * 136) / 256));
    CHECK(all - layer_forward_flops(e.workload, 0).si() == Approx(2.0 * (16 - 7) * 8 * (8 + 8)));
    e.workload.window = 16;  // as long as the sequence: no window
    const Kernels whole(e, attention_block(e.workload, rank_shape(e)), KernelStyle::fused);
    CHECK(whole.flops(whole.forward) > kernels.flops(kernels.forward));
}

// 8,192 tokens with a window of 4,096 have 4096 * 4097 / 2 + 4096 * 4096 pairs, 3,072.25 per query.
// A context rank has its share of the pairs, so a query sees a mean number of keys: 3,072, or 4,096
// in the layers without a window if half of them slide.
TEST_CASE("ranks of a context share the pairs that a window and a causal mask leave") {
    Experiment e = small_model();
    e.workload.seq = 8192;
    e.workload.window = 4096;
    for (const double share : {1.0, 0.5}) {
        e.workload.window_share = share;
        const auto pairs = [&](int cp) {
            e.parallelism.cp = cp;
            const Attention op = attention_of(
                Kernels(e, attention_block(e.workload, rank_shape(e)), KernelStyle::fused));
            CHECK(op.seq_q * cp == 8192);
            return cp * seen_share(op) * static_cast<double>(op.seq_q) *
                   static_cast<double>(op.seq_k);
        };
        CHECK(pairs(1) == Approx(8192 * (share * 3072.25 + (1 - share) * 4096.5)));
        CHECK(pairs(2) == Approx(8192 * (share * 3072 + (1 - share) * 4096)));
        CHECK(pairs(8) == Approx(pairs(2)));
    }
}

// DeepSeek-V3's module: two norms and a third before the logits, a projection 128 -> 64, a layer
// like the last one, and the logits again with the same weights. On 4 stages the last one holds it,
// with a copy of the table.
TEST_CASE("multi-token prediction is one more layer and the logits again, on the last stage") {
    Experiment e = small_model();
    e.workload.tied = false;
    const double without = count_parameters(e.workload).total(),
                 flops = forward_flops(e.workload).si();
    const Workload plain = e.workload;
    e.workload.mtp_layers = 1;
    CHECK(count_parameters(e.workload).total() - without ==
          layer_parameters(plain, 1).total() + 128 * 64 + 3 * 64);
    CHECK(forward_flops(e.workload).si() - flops ==
          Approx(16 * (layer_forward_flops(plain, 1).si() + 2.0 * 128 * 64 + 2.0 * 1000 * 64)));
}

// 48 tokens, 8 heads and 8 key heads: A = 48 x 64 elements, 3 A after the projection, scores S = 3
// x 8 x 16 x 16; two bytes each, no casts, no dropout. Queries, keys and values are copied to
// heads, the result back to rows. Backward: scores move twice for each product of the forward; the
// softmax reads its result and the gradient; the copies of the three come back (r w) and are joined
// (r w).
TEST_CASE("attention operation by operation: every pass and its bytes") {
    Experiment e = small_model();
    Workload& w = e.workload;
    w.kv_heads = 0;
    w.gated = false;
    e.runtime.attention = AttentionKind::plain;
    w.positions = Positions::learned;
    e.runtime.kernels = KernelStyle::operations;
    const Kernels kernels(e, attention_block(w, rank_shape(e)), KernelStyle::operations);
    const double a = 48 * 64 * 2, s = 3 * 8 * 16 * 16 * 2;
    using Passes = std::vector<std::tuple<double, double, float>>;  // read, written, kernels
    const auto passes = [&](const Plan& plan) {
        Passes found;
        for (const PlannedTask& task : plan.tasks)
            if (const auto* pass = std::get_if<MemoryPass>(&kernels.graph.ops()[task.op]))
                found.emplace_back(pass->read.si(), pass->written.si(), task.host_calls);
        return found;
    };
    // norm, head layout, scale, mask, softmax, rows, residual
    CHECK(passes(kernels.forward) == Passes{{a, a, 1},
                                            {3 * a, 3 * a, 3},
                                            {s, s, 1},
                                            {s, s, 1},
                                            {s, s, 1},
                                            {a, a, 1},
                                            {2 * a, a, 1}});
    // rows, softmax, mask, scale, head layout, norm with its weights, residual
    CHECK(passes(kernels.backward) == Passes{{a, a, 1},
                                             {2 * s, s, 1},
                                             {s, s, 1},
                                             {s, s, 1},
                                             {6 * a, 6 * a, 4},
                                             {4 * a, a, 2},
                                             {2 * a, a, 1}});
}

// Products count from 0: queries, keys, values, result; gate, up, down. Every second one, from keys
// and up on, runs again. So do passes; sums of gradients, casts and attention do not. Over several
// ranks the sum of the result is kept.
TEST_CASE("an alternate recompute runs every second product and the passes") {
    Experiment e = small_model();
    e.runtime.fused_projections = false;
    e.runtime.fused_gate = true;
    const RankShape s = rank_shape(e);
    const Block attention = attention_block(e.workload, s),
                feed_forward = feed_forward_block(e.workload, s);
    const auto names = [](const Block& block, int tp) {
        const std::vector<bool> runs = alternate_runs(block, tp);
        std::vector<std::string> again;
        for (std::size_t i = 0; i < block.size(); ++i)
            if (runs[i])
                again.push_back(std::holds_alternative<Linear>(block[i])
                                    ? std::string(std::get<Linear>(block[i]).name)
                                    : "pass");
        return again;
    };
    using Names = std::vector<std::string>;
    CHECK(names(attention, 1) == Names{"pass", "key", "pass", "attention_output", "pass"});
    CHECK(names(attention, 2) == Names{"pass", "key", "pass", "pass"});
    CHECK(names(feed_forward, 1) == Names{"pass", "ffn_up", "pass", "pass"});
    // Of the experts: norm; router, which counts as none of the products; choice, slots to experts,
    // up, activation, down, slots back, sum. The shared experts' up projection is the first
    // product, so their down projection is the second.
    e.workload.moe = {.experts = 8, .top_k = 2, .ffn = 32};
    CHECK(names(expert_block(e.workload, s), 1) ==
          Names{"pass", "router", "pass", "pass", "pass", "pass", "pass", "pass", "pass"});
    e.workload.moe.shared_experts = 1;
    CHECK(names(expert_block(e.workload, s), 1) == Names{"pass", "router", "pass", "pass", "pass",
                                                         "pass", "pass", "pass", "pass",
                                                         "shared_down", "pass", "pass"});
}

// 48 tokens of 64 in bf16 are 6144 bytes, read and written. Forward: what is gathered before the up
// projection and scattered after the down projection. Backward: the gradient and the input are
// gathered, the input's gradient is scattered. With exchanges in pieces beside products there are
// none.
TEST_CASE("exchanges of [batch, sequence, hidden] put the whole in order") {
    Experiment e = small_model();
    e.parallelism.tp = 2;
    e.parallelism.sequence_parallel = true;
    const auto copies = [&e] {
        const Kernels k(e, feed_forward_block(e.workload, rank_shape(e)), KernelStyle::fused);
        return std::pair(k.count(k.forward, "tp_copy"), k.count(k.backward, "tp_copy"));
    };
    CHECK(copies() == std::pair(0, 0));
    e.runtime.gather_copies = true;
    CHECK(copies() == std::pair(2, 3));
    const Kernels k(e, feed_forward_block(e.workload, rank_shape(e)), KernelStyle::fused);
    CHECK(std::ranges::count(lines_of(k.graph, k.backward), "tp_copy r6144 w6144") == 3);
    e.runtime.exchanges.tensor = TensorOverlap::always;
    CHECK(copies() == std::pair(0, 0));
}

// Up projection 64 x 256, whose input the norm casts: its 16384 weights of 2 bytes are read 1.5
// times and one byte written. Down projection 128 x 64: 8192 weights, and the 48 x 128 of its input
// are read twice more in 2 bytes. Backward: gradients of 48 x 64 and 48 x 256.
TEST_CASE("a scale a row reads what is cast twice more, and the weights") {
    Experiment e = small_model();
    e.workload.dtype = Dtype::fp8;
    e.runtime.row_scales = true;
    const Kernels k(e, feed_forward_block(e.workload, rank_shape(e)), KernelStyle::fused);
    const auto scales = [&k](const Plan& plan) {
        auto lines = lines_of(k.graph, plan);
        std::erase_if(lines,
                      [](const std::string& line) { return !line.starts_with("row_scales"); });
        return lines;
    };
    using Lines = std::vector<std::string>;
    CHECK(scales(k.forward) == Lines{"row_scales r49152 w16384", "row_scales r49152 w8192"});
    CHECK(scales(k.backward) == Lines{"row_scales r36864 w8192", "row_scales r98304 w16384"});
    e.workload.dtype = Dtype::bf16;
    const Kernels wide(e, feed_forward_block(e.workload, rank_shape(e)), KernelStyle::fused);
    CHECK(wide.count(wide.forward, "row_scales") == 0);
}

// Gate and up are 48 x 128 in 2 bytes, 12288 each. One kernel reads both; else the activation reads
// one, and a second kernel reads its result with the other.
TEST_CASE("a gate of its own product has one kernel or two") {
    Experiment e = small_model();
    e.runtime.fused_projections = false;
    e.runtime.fused_gate = true;
    const auto passes = [&e] {
        const Kernels k(e, feed_forward_block(e.workload, rank_shape(e)), KernelStyle::fused);
        auto lines = lines_of(k.graph, k.forward);
        std::erase_if(lines, [](const std::string& line) {
            return !line.starts_with("activation") && !line.starts_with("gate_product");
        });
        return lines;
    };
    using Lines = std::vector<std::string>;
    CHECK(passes() == Lines{"activation r24576 w12288"});
    e.runtime.fused_gate = false;
    CHECK(passes() == Lines{"activation r12288 w12288", "gate_product r24576 w12288"});
}
