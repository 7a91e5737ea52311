// Bytes per parameter that an update reads and writes, from the lists above the code: gradient 4,
// master weight and two moments 12, 16-bit weight 2; LAMB's update is written, read and applied: 8
// and 4.

#include <catch2/catch.hpp>

#include "model/transformer/data_parallel.h"
#include "model/transformer/rank_shape.h"

using namespace stepcast;

namespace {

constexpr double updated = 100, gradients = 1000;

Experiment trained_with(Optimizer optimizer, Dtype dtype = Dtype::bf16) {
    Experiment e;
    e.workload.optimizer = optimizer;
    e.workload.dtype = dtype;
    return e;
}
MemoryPass optimizer_of(const Experiment& e) {
    return update_passes(e, updated, gradients).optimizer;
}
MemoryPass of_each(double read, double written) {
    return {updated * Bytes(read), updated * Bytes(written), MemoryPass::Access::optimizer};
}

}  // namespace

TEST_CASE("an optimizer's pass moves its tensors once") {
    CHECK(optimizer_of(trained_with(Optimizer::adam)) == of_each(16, 14));
    CHECK(optimizer_of(trained_with(Optimizer::lamb)) == of_each(24, 18));
    CHECK(optimizer_of(trained_with(Optimizer::sgd)) == of_each(8, 6));
    CHECK(optimizer_of(trained_with(Optimizer::none)) == of_each(0, 0));
    // gradient, master, and 2 x (1 + 4/256) of moments; the last two written, and the weight
    // and 2600 operations that look for codes
    MemoryPass codes = of_each(10.03125, 8.03125);
    codes.operations = updated * 2600;
    CHECK(optimizer_of(trained_with(Optimizer::adam8bit)) == codes);
    // the weight is its own master
    CHECK(optimizer_of(trained_with(Optimizer::adam, Dtype::fp32)) == of_each(16, 12));
    // stored in 16 bits
    CHECK(optimizer_of(trained_with(Optimizer::adam, Dtype::fp8)) == of_each(16, 14));
    Experiment cast = trained_with(Optimizer::adam);
    cast.runtime.autocast = true;
    CHECK(optimizer_of(cast) == of_each(16, 12));  // fp32 weights
}

// transformers' Adafactor reads 13 fp32 tensors of the weight's shape and writes 8: mean square of
// the weight (1 read), square of the gradient (1, 1 written), a constant added (1, 1), means (2),
// the product of row and column (1 written), times the gradient (2, 1), its mean square (1), two
// scales (2, 2), negated (1, 1), added (2, 1). Beside it the 16-bit weight, copied from the fp32
// one, or cast to it (2 read, 4 written) and back (4 read, 2 written).
TEST_CASE("Adafactor moves a weight's tensors operation by operation") {
    Experiment e = trained_with(Optimizer::adafactor);
    CHECK(optimizer_of(e) == of_each(13 * 4, 8 * 4 + 2));
    e.runtime.optimizer.master_weights = false;
    CHECK(optimizer_of(e) == of_each(13 * 4 + 2 + 4, 8 * 4 + 4 + 2));
    CHECK(optimizer_of(trained_with(Optimizer::adafactor, Dtype::fp32)) == of_each(13 * 4, 8 * 4));
}

// Muon on 40 of 100 weights: gradient and momentum (2 reads, 1 written), their mean (2, 1), cast to
// 16 bits (1 read; 2 bytes written), norm (2), division (2, 2), scale (2, 2), decay (1 read, 1
// written), sum (1 read and 2 bytes, 1 written), the 16-bit weight (2): 7 x 4 + 8 = 36 read, 4 x 4
// + 6 + 2 = 24 written. Adam on the others: 16 and 14.
TEST_CASE("Muon moves a matrix's momentum operation by operation") {
    const Experiment e = trained_with(Optimizer::muon);
    const MemoryPass passes = update_passes(e, updated, gradients, 40).optimizer;
    CHECK(passes.read == Bytes(40 * 36 + 60 * 16));
    CHECK(passes.written == Bytes(40 * 24 + 60 * 14));
    CHECK(optimizer_of(e) == of_each(16, 14));
}

// Megatron-Core's: gradients and weights cross in fp32, the host reads gradient, weight and moments
// and writes three. DeepSpeed's: of three micro-batches two bring 16-bit sums back and return them,
// the host casts each weight (4 read, 2 written), and 2 bytes come back.
TEST_CASE("an optimizer on the host moves over the link and in the host's memory") {
    Experiment e = trained_with(Optimizer::adam);
    e.run.offload_optimizer = true;
    e.parallelism.global_batch = 3;
    const UpdatePasses core = update_passes(e, updated, gradients);
    CHECK(core.to_host == MemoryPass{Bytes(0), Bytes(400), MemoryPass::Access::host_link});
    CHECK(core.from_host == MemoryPass{Bytes(400), Bytes(0), MemoryPass::Access::host_link});
    CHECK(core.optimizer == MemoryPass{Bytes(1600), Bytes(1200), MemoryPass::Access::host});
    e.runtime.optimizer.host_gradients = true;
    e.runtime.gradients.type = GradientType::training;
    const UpdatePasses deepspeed = update_passes(e, updated, gradients);
    CHECK(deepspeed.to_host == MemoryPass{Bytes(400), Bytes(800), MemoryPass::Access::host_link});
    CHECK(deepspeed.from_host == MemoryPass{Bytes(200), Bytes(0), MemoryPass::Access::host_link});
    CHECK(deepspeed.optimizer == MemoryPass{Bytes(2000), Bytes(1400), MemoryPass::Access::host});
}

// FSDP's CPUOffload of weights in 16 bits without masters: a 16-bit gradient crosses, the host
// reads 4 and writes 3 tensors of 2 bytes. Gathers bring the weights.
TEST_CASE("without masters the host updates 16-bit tensors") {
    Experiment e = trained_with(Optimizer::adam);
    e.run.offload_optimizer = e.run.offload_parameters = true;
    e.runtime.optimizer.master_weights = false;
    const UpdatePasses fsdp = update_passes(e, updated, gradients);
    CHECK(fsdp.to_host == MemoryPass{Bytes(0), Bytes(200), MemoryPass::Access::host_link});
    CHECK(fsdp.from_host == MemoryPass{});
    CHECK(fsdp.optimizer == MemoryPass{Bytes(800), Bytes(600), MemoryPass::Access::host});
}

// Adam in nine fp32 operations reads 12 tensors and writes 8; LAMB reads 5 and writes 2 more.
// Without mixed precision by the framework there are no master weights. With them, pass by pass, a
// last pass copies the masters to the 16-bit weights: 4 and 2 bytes.
TEST_CASE("an optimizer operation by operation moves them many times") {
    Experiment e = trained_with(Optimizer::adam);
    e.runtime.optimizer.fused = false;
    CHECK(optimizer_of(e) == of_each(52, 34));
    e.runtime.autocast = true;  // weights in fp32
    CHECK(optimizer_of(e) == of_each(48, 32));
    e.runtime.autocast = false;
    e.runtime.optimizer.master_weights = false;  // states in bf16
    CHECK(optimizer_of(e) == of_each(24, 16));
    e.runtime.optimizer.master_weights = true;
    e.runtime.optimizer.fused = true;
    e.runtime.kernels = KernelStyle::operations;
    CHECK(optimizer_of(e) == of_each(48, 32));
    e.workload.optimizer = Optimizer::lamb;
    CHECK(optimizer_of(e) == of_each(68, 40));
    e.workload.optimizer = Optimizer::sgd;
    CHECK(optimizer_of(e) == of_each(4, 2));
    e.runtime.autocast = true;
    CHECK(optimizer_of(e) == of_each(8, 6));
}

// The norm reads each gradient of 4 bytes; clipping reads and writes it once more.
TEST_CASE("clipping that scales in every step reads and writes all gradients") {
    Experiment e = trained_with(Optimizer::adam);
    e.runtime.gradients.type = GradientType::fp32;
    e.runtime.optimizer.clip_scales = true;
    const UpdatePasses passes = update_passes(e, updated, gradients);
    CHECK(passes.norm_passes == 2);
    CHECK(passes.norm[0] == MemoryPass{updated * Bytes(4), Bytes(0)});
    CHECK(passes.norm_names[1] == "clip_gradients");
    CHECK(passes.norm[1] == MemoryPass{updated * Bytes(4), updated * Bytes(4)});
}

// Of 1000 gradients of 2 bytes a rank copies all three times, reading and writing 6000 bytes a
// round, and updates 100. Its four copies of these move 800 bytes each way; a norm in fp64 reads
// 200, writes 800 and reads 800; the cast reads 200 and writes 400; clipping moves 400 each way.
// Stages 2 and 3 reduce in each of two micro-batches. Stage 0 has a norm in fp32, two copies and
// one. Of ten parameters each takes seven calls to copy and check, two of stage 0, one to widen and
// one for its norm.
TEST_CASE("gradients copied around their reduction and before the update, by ZeRO stage") {
    Experiment e = trained_with(Optimizer::adam);
    e.runtime.optimizer.clip_scales = true;
    e.runtime.gradients.type = GradientType::bf16;
    e.parallelism.global_batch = 2;
    e.parallelism.zero = 1;
    e.runtime.gradients.copies = {2, 3, 3};
    e.runtime.optimizer.copies = {1, 4};  // the last holds for further stages
    e.runtime.optimizer.copy_calls = {2, 7};
    e.runtime.optimizer.wide_norm = e.runtime.optimizer.waits = true;
    e.runtime.optimizer.groups = 10;
    const UpdatePasses sharded = update_passes(e, updated, gradients);
    // what is flat takes one call
    CHECK(sharded.norm_calls == std::array{70.0, 10.0, 10.0, 1.0, 1.0, 0.0});
    CHECK(sharded.norm_reads == std::array{true, false, true, false, false, false});
    CHECK(sharded.optimizer_calls == 1);
    CHECK(sharded.copies_calls == 10);
    CHECK(sharded.copies == MemoryPass{Bytes(6000), Bytes(6000)});
    CHECK(sharded.norm_passes == 5);
    CHECK(sharded.norm ==
          std::array{MemoryPass{Bytes(800), Bytes(800)}, MemoryPass{Bytes(200), Bytes(800)},
                     MemoryPass{Bytes(800), Bytes(0)}, MemoryPass{Bytes(200), Bytes(400)},
                     MemoryPass{Bytes(400), Bytes(400)}, MemoryPass{}});
    CHECK(sharded.norm_names == std::array<std::string_view, 6>{"copy_gradients", "widen_gradients",
                                                                "gradient_norm", "cast_gradients",
                                                                "clip_gradients", ""});
    for (const int zero : {2, 3}) {
        e.parallelism.zero = zero;
        CHECK(update_passes(e, updated, gradients).copies ==
              MemoryPass{Bytes(12000), Bytes(12000)});
        CHECK(update_passes(e, updated, gradients).copies_calls == 20);
        CHECK(update_passes(e, updated, gradients).norm == sharded.norm);
    }
    e.parallelism.zero = 0;
    const UpdatePasses whole = update_passes(e, gradients, gradients);
    CHECK(whole.copies == MemoryPass{Bytes(4000), Bytes(4000)});
    CHECK(whole.norm_calls == std::array{20.0, 1.0, 1.0, 1.0, 0.0, 0.0});
    CHECK(whole.norm ==
          std::array{MemoryPass{Bytes(2000), Bytes(2000)}, MemoryPass{Bytes(2000), Bytes(4000)},
                     MemoryPass{Bytes(4000), Bytes(0)}, MemoryPass{Bytes(4000), Bytes(4000)},
                     MemoryPass{}, MemoryPass{}});
}

// Four tensors in and three out, of 2 bytes in 16 bits; LAMB writes, reads and applies the update:
// two more in and one out. Gradients are not cast. In fp32 a weight is its own master anyway.
TEST_CASE("without master weights every tensor of an update has the weights' type") {
    const auto alone = [](Optimizer optimizer, Dtype dtype) {
        Experiment e = trained_with(optimizer, dtype);
        e.runtime.optimizer.master_weights = false;
        e.runtime.gradients.type = parse_name<GradientType>(to_string(dtype));
        return e;
    };
    CHECK(optimizer_of(alone(Optimizer::adam, Dtype::bf16)) == of_each(8, 6));
    CHECK(optimizer_of(alone(Optimizer::lamb, Dtype::bf16)) == of_each(12, 8));
    CHECK(optimizer_of(alone(Optimizer::sgd, Dtype::bf16)) == of_each(4, 2));
    CHECK(optimizer_of(alone(Optimizer::adam, Dtype::fp32)) ==
          optimizer_of(trained_with(Optimizer::adam, Dtype::fp32)));
    const UpdatePasses p = update_passes(alone(Optimizer::adam, Dtype::fp16), updated, gradients);
    CHECK(p.norm_passes == 1);
    CHECK(p.norm[0] == MemoryPass{Bytes(200), Bytes(0)});
}

// 16-bit gradients are cast to fp32; fp16 ones are divided by the loss scale; all are read for the
// norm; all that the rank keeps are zeroed.
TEST_CASE("gradients are cast, unscaled, read for their norm and set to zero") {
    Experiment e = trained_with(Optimizer::adam);
    using Names = std::vector<std::string_view>;
    const auto names = [&] {
        const UpdatePasses p = update_passes(e, updated, gradients);
        return Names(p.norm_names.begin(), p.norm_names.begin() + p.norm_passes);
    };
    CHECK(names() == Names{"gradient_norm"});
    CHECK(update_passes(e, updated, gradients).norm[0] == MemoryPass{Bytes(400), Bytes(0)});
    CHECK(update_passes(e, updated, gradients).zero_gradients == MemoryPass{Bytes(0), Bytes(4000)});
    e.workload.dtype = Dtype::fp16;
    e.runtime.gradients.type = GradientType::fp16;
    const UpdatePasses p = update_passes(e, updated, gradients);
    CHECK(names() == Names{"cast_gradients", "unscale_gradients", "gradient_norm"});
    CHECK(p.norm == std::array{MemoryPass{Bytes(200), Bytes(400)},
                               MemoryPass{Bytes(400), Bytes(400)}, MemoryPass{Bytes(400), Bytes(0)},
                               MemoryPass{}, MemoryPass{}, MemoryPass{}});
    CHECK(p.zero_gradients == MemoryPass{Bytes(0), Bytes(2000)});
    // zero 1 keeps whole gradients (Megatron-Core's buffer), zero 2 and 3 the shards that are
    // updated: 100 of 2 bytes.
    for (const auto& [zero, written] : {std::pair(1, 2000.0), {2, 200.0}, {3, 200.0}}) {
        e.parallelism.zero = zero;
        CHECK(update_passes(e, updated, gradients).zero_gradients ==
              MemoryPass{Bytes(0), Bytes(written)});
    }
    e.parallelism.zero = 0;
    e.runtime.gradients.freed = true;
    CHECK(update_passes(e, updated, gradients).zero_gradients == MemoryPass{});
    e.runtime.kernels = KernelStyle::operations;
    CHECK(names() == Names{"gradient_norm"});
    CHECK(update_passes(e, updated, gradients).norm[0] == MemoryPass{Bytes(200), Bytes(0)});
}

// 3 sequences of 10 tokens, parts rounded up: cp 3 leaves 4 of 10 tokens, 12 in all; tp 4 leaves 3
// of these outside the blocks; widths of 7 leave 2.
TEST_CASE("a rank's part of every size, rounded up") {
    Experiment e;
    Workload& w = e.workload;
    w.hidden = 40;
    w.seq = 10;
    w.heads = 5;
    w.kv_heads = 5;
    w.ffn = 7;
    w.vocab = 9;
    w.head_share = 0.7;
    w.dtype = Dtype::fp8;
    w.moe = {.experts = 4, .shared_experts = 2, .ffn = 6};
    w.mamba = {.heads = 6, .head_dim = 64, .state = 128, .groups = 3, .attention = 0};
    Parallelism& p = e.parallelism;
    p.micro_batch = 3;
    p.tp = 4;
    p.cp = 3;
    p.sequence_parallel = true;
    e.runtime.experts.tensor_parallel = ExpertSplit::all;
    const RankShape s = rank_shape(e);
    CHECK(s == RankShape{.batch = 3,
                         .tokens = 12,
                         .outer_tokens = 3,
                         .seq = 10,
                         .seq_q = 4,
                         .head_tokens = 8,
                         .routed_tokens = 3,
                         .hidden = 40,
                         .ffn = 2,
                         .vocab = 3,
                         .expert_ffn = 2,
                         .shared_ffn = 3,
                         .heads = 2,
                         .kv_heads = 2,
                         .mamba_heads = 2,
                         .mamba_groups = 1,
                         .qk_dim = 8,
                         .value_dim = 8,
                         .matrix = Dtype::fp8,
                         .storage = Dtype::bf16});
    CHECK(s.outer() == Bytes(3 * 40 * 2));
    CHECK(s.inner(5) == Bytes(12 * 5 * 2));
    p.sequence_parallel = false;
    e.runtime.experts.tensor_parallel = ExpertSplit::none;
    CHECK(rank_shape(e).outer_tokens == 12);
    CHECK(rank_shape(e).routed_tokens == 3);  // each of the four ranks sends its part
    CHECK(rank_shape(e).expert_ffn == 6);
    e.runtime.experts.tensor_parallel = ExpertSplit::all;
    CHECK(rank_shape(e).routed_tokens == 12);
    w.head_share = 0.001;
    CHECK(rank_shape(e).head_tokens == 1);
    w.mla = {.q_rank = 0, .kv_rank = 16, .nope_dim = 11, .rope_dim = 4, .value_dim = 13};
    CHECK(rank_shape(e).qk_dim == 15);
    CHECK(rank_shape(e).value_dim == 13);
}
