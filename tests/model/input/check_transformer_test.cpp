#include <concepts>

#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/experiment.h"
#include "model/input/check_experiment.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

// 16 layers of width 1024 over 2 nodes of 8 ranks: tp 2, cp 2, pp 2, dp 2; 8 sequences per step in
// 4 micro-batches.
Experiment valid_transformer() {
    Experiment e;
    e.workload.kind = Workload::Kind::transformer;
    e.workload.layers = 16;
    e.workload.hidden = 1024;
    e.workload.heads = 16;
    e.workload.kv_heads = 4;
    e.workload.ffn = 4096;
    e.workload.vocab = 32000;
    e.workload.seq = 2048;
    auto& p = e.parallelism;
    p.tp = p.cp = p.pp = p.dp = 2;
    p.global_batch = 8;
    auto& c = e.cluster;
    c.nodes = 2;
    c.gpus_per_node = 8;
    c.gpu.name = "X100";
    c.gpu.memory = Bytes(80e9);
    c.gpu.memory_bandwidth = BytesPerSecond(2e12);
    c.gpu.peaks[Dtype::fp16] = FlopsPerSecond(3e14);
    c.intra.bandwidth = BytesPerSecond(300e9);
    c.inter.bandwidth = BytesPerSecond(25e9);
    return e;
}
// A change of the workload and the split, or of these and the runtime.
void make(const auto& change, Workload& w, Parallelism& p, Runtime& r) {
    if constexpr (std::invocable<decltype(change), Workload&, Parallelism&, Runtime&>)
        change(w, p, r);
    else
        change(w, p);
}
std::string told_of_split(const auto& change) {
    auto e = valid_transformer();
    make(change, e.workload, e.parallelism, e.runtime);
    return complaint([&] { check_experiment(e); });
}
// tp also takes the ranks of cp and dp.
void widen(Parallelism& p, int tp) {
    p.tp = tp;
    p.cp = 1;
    p.dp = 8 / tp;
}

}  // namespace

TEST_CASE("a transformer over all four kinds of groups is accepted, in any rank order") {
    CHECK(told_of_split([](auto&, auto&) {}).empty());
    CHECK(told_of_split([](auto&, auto& p) { p.rank_order = "pp-dp-cp-tp"; }).empty());
    CHECK(told_of_split([](auto&, auto& p) { p.rank_order = "tp-dp"; }) ==
          "parallelism.rank_order: found \"tp-dp\"; expected tp, cp, dp and pp once each, "
          "innermost first, for example "
          "\"tp-cp-dp-pp\"");
}

// The older workload.attention = mla asks for latent attention, and with it changes no kernel.
TEST_CASE("attention = mla wants the latents that it asks for") {
    Experiment e = valid_transformer();
    set_key(e, {"workload.attention", "mla"});
    CHECK(complaint([&] { check_experiment(e); }) ==
          "workload.mla.kv_rank: missing; workload.attention is mla");
    Experiment flash = e;
    set_key(flash, {"workload.attention", "flash"});
    CHECK_NOTHROW(check_experiment(flash));
    CHECK(get_key(flash, "workload.attention") == "flash");
    e.workload.mla = {0, 512, 128, 64, 128};
    CHECK_NOTHROW(check_experiment(e));
    CHECK(get_key(e, "workload.attention") == "mla");
    CHECK(get_key(e, "runtime.attention") == "plain");
    CHECK_FALSE(is_stated(e, "runtime.attention"));
    set_key(e, {"workload.attention", "flash"});  // the kernel alone
    CHECK(is_latent(e.workload));
    CHECK(get_key(e, "runtime.attention") == "flash");
    CHECK(get_key(e, "workload.attention") == "mla");
}

TEST_CASE("a transformer states its heads and its vocabulary") {
    CHECK(told_of_split([](auto& w, auto&) { w.heads = 0; }) ==
          "workload.heads: missing; expected attention heads");
    CHECK(told_of_split([](auto& w, auto&) { w.vocab = 0; }) ==
          "workload.vocab: missing; expected vocabulary");
    CHECK(told_of_split([](auto& w, auto&) { w.hidden = 1020; }) ==
          "workload.heads: 16 does not divide workload.hidden = 1020; expected a divisor, or "
          "workload.head_dim");
    CHECK(told_of_split([](auto& w, auto&) { w.hidden = 1020, w.head_dim = 64; }).empty());
    CHECK(told_of_split([](auto& w, auto&) { w.kv_heads = 6; }) ==
          "workload.kv_heads: 6 does not divide workload.heads = 16");
    CHECK(told_of_split([](auto& w, auto&) {
              w.mla = {0, 512, 0, 0, 128};
          }) == "workload.mla.nope_dim: missing; workload.mla.kv_rank is 512");
    CHECK(told_of_split([](auto& w, auto&) {
              w.mla = {0, 512, 128, 64, 0};
          }) == "workload.mla.value_dim: missing; workload.mla.kv_rank is 512");
    CHECK(told_of_split([](auto& w, auto&) { w.mla = {0, 512, 128, 64, 128}; }).empty());
}

// With 4 key and value heads on 8 ranks each head is kept twice; 6 heads do not fit 8 ranks.
TEST_CASE("tensor-parallel ranks divide heads and inner widths") {
    CHECK(told_of_split([](auto&, auto& p) { widen(p, 8); }).empty());
    CHECK(told_of_split([](auto& w, auto& p) { widen(p, 8), w.heads = 12, w.head_dim = 64; }) ==
          "parallelism.tp: 8 does not divide workload.heads = 12");
    CHECK(told_of_split([](auto& w, auto& p) {
              widen(p, 8), w.heads = 24, w.kv_heads = 6, w.head_dim = 64;
          }) == "parallelism.tp: 8 neither divides workload.kv_heads = 6 nor is a multiple");
    CHECK(told_of_split([](auto& w, auto& p) { widen(p, 8), w.ffn = 4100; }) ==
          "parallelism.tp: 8 does not divide workload.ffn = 4100");
}

TEST_CASE("experts are divided by the ranks that split them") {
    const auto mixture = [](auto& w) { w.moe.experts = 8, w.moe.ffn = 1366; };
    CHECK(told_of_split([&](auto& w, auto&) { mixture(w); }).empty());
    CHECK(told_of_split([&](auto& w, auto& p) { mixture(w), widen(p, 4); }) ==
          "parallelism.tp: 4 does not divide workload.moe.ffn = 1366");
    CHECK(told_of_split([&](auto& w, auto& p, auto& r) {
              mixture(w), widen(p, 4), r.experts.tensor_parallel = ExpertSplit::none;
          }).empty());
    CHECK(told_of_split([&](auto& w, auto& p) { mixture(w), p.ep = 8; }) ==
          "parallelism.ep: 8 does not divide dp x cp = 4");
    CHECK(told_of_split([&](auto& w, auto& p, auto& r) {
              mixture(w), p.ep = 8, r.experts.tensor_parallel = ExpertSplit::none;
          }).empty());
    CHECK(told_of_split([&](auto& w, auto&) {
              mixture(w), w.moe.shared_experts = 1, w.moe.shared_ffn = 1001;
          }) == "parallelism.tp: 2 does not divide the shared experts' width = 1001");
    CHECK(told_of_split([&](auto& w, auto&) { mixture(w), w.moe.dense_layers = 16; }) ==
          "workload.moe.experts: 8, but no layer has any with workload.moe.dense_layers = 16 and "
          "interval = 1 of 16 "
          "layers");
    CHECK(told_of_split([](auto&, auto& p) { p.ep = 2; }) ==
          "parallelism.ep: 2, but workload.moe.experts is 0; expected 1");
}

TEST_CASE("context and sequence parallelism divide the sequence") {
    CHECK(told_of_split([](auto& w, auto&) { w.seq = 2047; }) ==
          "parallelism.cp: 2 does not divide workload.seq = 2047");
    CHECK(told_of_split([](auto& w, auto&) { w.seq = 2046; }).empty());
    CHECK(told_of_split([](auto& w, auto& p) { w.seq = 2046, p.sequence_parallel = true; }) ==
          "parallelism.sequence_parallel: tp = 2 does not divide the 1023 tokens of a sequence on "
          "a rank");
    CHECK(told_of_split([](auto&, auto& p) { widen(p, 1), p.sequence_parallel = true; }).empty());
}

TEST_CASE("every stage chunk has layers, or says how many") {
    CHECK(told_of_split([](auto& w, auto&) { w.layers = 3; }).empty());
    CHECK(told_of_split([](auto& w, auto& p) { w.layers = 3, p.vp = 2; }) ==
          "parallelism.vp: 4 stage chunks are more than workload.layers = 3; expected fewer, or "
          "parallelism.stage_layers");
    CHECK(told_of_split([](auto& w, auto&) { w.layers = 1; }) ==
          "parallelism.pp: 2 stage chunks are more than workload.layers = 1; expected fewer, or "
          "parallelism.stage_layers");
    CHECK(told_of_split([](auto& w, auto& p) { w.layers = 1, p.stage_layers = {0, 1}; }).empty());
    CHECK(told_of_split([](auto& w, auto& p) { w.layers = 1, p.stage_layers = {1, 0}; }).empty());
    CHECK(told_of_split([](auto&, auto& p) { p.stage_layers = {9, 7}; }).empty());
    CHECK(told_of_split([](auto&, auto& p) {
              p.stage_layers = {8, 0, 4, 4}, p.vp = 2;
          }) ==
          "parallelism.stage_layers: entry 2 of 4 is 0; expected layers in all but the first and "
          "the last");
    CHECK(told_of_split([](auto&, auto& p) {
              p.stage_layers = {9, 6};
          }) == "parallelism.stage_layers: 15 layers in all, but workload.layers is 16");
    CHECK(told_of_split([](auto&, auto& p) {
              p.stage_layers = {17, -1};
          }) == "parallelism.stage_layers: -1 is no number of layers");
    CHECK(told_of_split([](auto&, auto& p) {
              p.stage_layers = {8, 8}, p.vp = 2;
          }) == "parallelism.stage_layers: 2 entries, but there are 4 stage chunks");
}

// zb-v and dualpipe hold two chunks per stage whatever vp says; dualpipe's are two copies of one
// model.
TEST_CASE("the schedule runs the stages, chunks and micro-batches that it is given") {
    CHECK(told_of_split([](auto&, auto& p) { p.vp = 2; }).empty());
    CHECK(told_of_split([](auto&, auto& p) { p.vp = 2, p.global_batch = 6; }) ==
          "parallelism.global_batch: makes 3 micro-batches, but interleaved 1f1b (parallelism.vp = "
          "2) runs them in "
          "rounds of parallelism.pp = 2; expected a multiple");
    CHECK(told_of_split([](auto&, auto& p) {
              p.schedule = Schedule::zb_v, p.vp = 3;
          }).substr(0, 21) == "parallelism.schedule:");
    CHECK(told_of_split([](auto&, auto& p) {
              p.schedule = Schedule::gpipe, p.vp = 2;
          }).substr(0, 21) == "parallelism.schedule:");
    CHECK(told_of_split([](auto&, auto& p) {
              p.schedule = Schedule::zb_v, p.stage_layers = {8, 8};
          }) == "parallelism.stage_layers: 2 entries, but there are 4 stage chunks");
    CHECK(told_of_split([](auto&, auto& p) {
              p.schedule = Schedule::dualpipe, p.stage_layers = {8, 8};
          }).empty());
}

TEST_CASE("recompute by layers and shards of zero 3 are refused where they mean nothing") {
    CHECK(told_of_split([](auto&, auto& p) {
              p.recompute = Recompute::full, p.recompute_layers = 16;
          }).empty());
    CHECK(told_of_split([](auto&, auto& p) {
              p.recompute = Recompute::full, p.recompute_layers = 17;
          }) == "parallelism.recompute_layers: 17 is above workload.layers = 16");
    CHECK(told_of_split([](auto&, auto& p) { p.recompute_layers = 2; }) ==
          "parallelism.recompute_layers: 2, but parallelism.recompute is none; expected 0, or "
          "recompute = full");
    CHECK(told_of_split([](auto&, auto& p) { p.zero = 3, p.shard = 2; }).empty());
    CHECK(told_of_split([](auto&, auto& p) { p.zero = 3, p.shard = 3; }) ==
          "parallelism.shard: 3 does not divide dp x cp = 4");
    CHECK(told_of_split([](auto&, auto& p) { p.zero = 1, p.shard = 2; }) ==
          "parallelism.shard: 2, but parallelism.zero is 1; expected 0, or zero = 3");
    CHECK(told_of_split([](auto&, auto& p) { p.zero = 3, p.shard = 1; }) ==
          "parallelism.shard: 1 shards nothing, each rank holds a copy of its own; expected zero = "
          "0, or shards of 2 ranks or more");
}

TEST_CASE(
    "MoE systems need all ranks of one expert-parallel group, and have no overlapping chunks") {
    const auto with_experts = [](auto change) {
        return told_of_split([&](auto& w, auto& p, auto& r) {
            w.moe.experts = 8, p.moe_system = MoeSystem::fast_moe, p.ep = p.dp;
            make(change, w, p, r);
        });
    };
    CHECK(with_experts([](auto&, auto& p) { p.ep = 1; }) ==
          "parallelism.moe_system: fast_moe spreads its experts over all data-parallel ranks; "
          "expected tp, pp and cp "
          "of 1 "
          "and ep = dp = 2");
    const auto on_all_ranks = [](Workload& w, Parallelism& p) {
        p.tp = p.pp = p.cp = 1;
        p.dp = p.ep = p.global_batch = w.moe.experts = 16;
    };
    CHECK(with_experts(on_all_ranks).empty());
    CHECK(with_experts([&](auto& w, auto& p) { on_all_ranks(w, p), w.moe.shared_experts = 1; }) ==
          "workload.moe: fast_moe has no shared experts and no capacity; expected 0");
    CHECK(told_of_split([](auto&, auto& p) { p.overlap_chunks = 2; }) ==
          "parallelism.overlap_chunks: 2, but workload.kind transformer does not model it; "
          "expected 1");
}

TEST_CASE(
    "passes go by turns where experts are exchanged, under dualpipe or 1f1b in chunks, without "
    "layers computed or gathered again") {
    const auto paired = [](const auto& change) {
        return told_of_split([&](auto& w, auto& p, auto& r) {
            w.moe.experts = 4;
            p.ep = 2;
            p.pp = 1;
            p.dp = 4;
            p.overlap_experts = true;
            make(change, w, p, r);
        });
    };
    CHECK(paired([](auto&, auto&) {}).empty());
    const auto not_by_turns = [](const std::string& schedule) {
        return "parallelism.schedule: " + schedule +
               " in 1 chunks a stage, but parallelism.overlap_experts needs 1f1b with vp above 1 "
               "(or pp = 1), or dualpipe; expected one of them, or overlap_experts = false";
    };
    CHECK(paired([](auto&, auto& p) { p.recompute = Recompute::full; }) ==
          "parallelism.recompute: full, but parallelism.overlap_experts runs no layer again; "
          "expected none or selective, or overlap_experts = false");
    CHECK(paired([](auto&, auto& p) { p.zero = 3; }) ==
          "parallelism.zero: 3, but parallelism.overlap_experts gathers no weights; expected 0 to "
          "2, or overlap_experts = false");
    CHECK(paired([](auto&, auto& p) { p.pp = p.dp = 2; }) == not_by_turns("1f1b"));
    CHECK(paired([](auto&, auto& p) { p.pp = p.dp = p.vp = 2; }).empty());
    CHECK(paired([](auto&, auto& p) { p.pp = p.dp = 2, p.schedule = Schedule::dualpipe; }).empty());
    CHECK(paired([](auto&, auto& p) { p.pp = p.dp = 2, p.schedule = Schedule::zb_h1; }) ==
          not_by_turns("zb-h1"));
    CHECK(told_of_split([](auto&, auto& p) { p.pp = 1, p.dp = 4, p.overlap_experts = true; }) ==
          "parallelism.overlap_experts: true is modelled for experts of moe_system alltoall and "
          "fused passes; expected false");
}

TEST_CASE(
    "memory, relative positions and automatic casting are known operation by operation only") {
    CHECK(told_of_split([](auto& w, auto&) { w.memory = 64; }) ==
          "workload.memory: 64, but only workload.positions relative has one; expected 0");
    CHECK(told_of_split([](auto& w, auto&) { w.positions = Positions::relative; }) ==
          "runtime.kernels: fused, but relative positions are known operation by operation only; "
          "expected operations");
    CHECK(told_of_split([](auto&, auto&, auto& r) { r.autocast = true; }) ==
          "runtime.autocast: true, but runtime.kernels is fused; expected eager or operations");
    CHECK(told_of_split([](auto&, auto&, auto& r) {
              r.autocast = true, r.kernels = KernelStyle::eager;
          }).empty());
    CHECK(told_of_split([](auto& w, auto&) {
              w.qk_norm = true, w.mla.kv_rank = w.mla.nope_dim = w.mla.value_dim = 8;
          }) ==
          "workload.qk_norm: true, but MLA, relative attention and eager scripts have no norms of "
          "queries and keys; expected false");
    CHECK(told_of_split([](auto& w, auto&, auto& r) {
              w.attention_gate = true, r.kernels = KernelStyle::script;
          }) ==
          "workload.attention_gate: true, but MLA, relative attention and eager scripts have no "
          "gate of what attention gives; expected false");
    CHECK(told_of_split(
              [](auto& w, auto&, auto& r) { r.row_scales = true, w.dtype = Dtype::bf16; }) ==
          "runtime.row_scales: true, but products in bf16 have no scales; expected workload.dtype "
          "fp8");
}

// The smallest allowed sizes: one head, one word, a latent of one, a key of one rotary number.
TEST_CASE("the least of each size is enough") {
    CHECK(told_of_split([](auto& w, auto& p) { w.heads = w.kv_heads = 1, widen(p, 1); }).empty());
    CHECK(told_of_split([](auto& w, auto& p) { w.vocab = 1, widen(p, 1); }).empty());
    CHECK(told_of_split([](auto& w, auto&) { w.mla = {0, 1, 0, 1, 1}; }).empty());
    CHECK(told_of_split([](auto& w, auto&) { w.mla = {0, 1, 1, 0, 1}; }).empty());
    CHECK(told_of_split([](auto& w, auto& p) {
              w.layers = 2, p.recompute = Recompute::full, p.recompute_layers = 1;
          }).empty());
    CHECK(told_of_split([](auto& w, auto& p) {
              w.moe.experts = 1, w.moe.top_k = 1, p.ep = 1;
          }).empty());
    CHECK(told_of_split([](auto& w, auto&, auto& r) {
              w.moe.experts = 8, w.moe.ffn = 1366, w.moe.dense_layers = 15, w.ffn = 4095,
              r.experts.tensor_parallel = ExpertSplit::all;
          }) == "parallelism.tp: 2 does not divide workload.ffn = 4095");  // the dense layers are
                                                                           // split as well
    CHECK(told_of_split([](auto& w, auto&, auto& r) {
              w.moe.experts = 8, w.moe.ffn = 1366, w.moe.interval = 2, w.ffn = 4095,
              r.experts.tensor_parallel = ExpertSplit::all;
          }) == "parallelism.tp: 2 does not divide workload.ffn = 4095");
    CHECK(told_of_split([](auto& w, auto&, auto& r) {
              w.moe.experts = 8, w.moe.ffn = 1366, w.ffn = 4095,
              r.experts.tensor_parallel = ExpertSplit::all;
          }).empty());
    CHECK(told_of_split([](auto& w, auto&, auto& r) {
              w.moe.experts = 8, w.ffn = 4095, r.experts.tensor_parallel = ExpertSplit::all;
          }) == "parallelism.tp: 2 does not divide workload.ffn = 4095");
}

TEST_CASE("gated delta nets and sparse attention are refused with what they are not known for") {
    const auto delta = [](auto change) {
        return told_of_split([&](auto& w, auto& p, auto& r) {
            w.delta = {.value_heads = 8, .key_heads = 4};
            widen(p, 2);
            make(change, w, p, r);
        });
    };
    CHECK(delta([](auto&, auto&) {}).empty());
    CHECK(delta([](auto& w, auto& p) { w.heads = 16, widen(p, 4); }).empty());
    CHECK(delta([](auto& w, auto& p) { w.kv_heads = 8, widen(p, 8); }) ==
          "parallelism.tp: 8 does not divide workload.delta.key_heads = 4");
    CHECK(delta([](auto& w, auto&) { w.delta.key_heads = 3; }) ==
          "workload.delta.key_heads: 3 does not divide workload.delta.value_heads = 8");
    CHECK(delta([](auto&, auto& p) { p.cp = 2, p.dp = 2; }) ==
          "parallelism.cp: 2, but gated delta nets are modelled on whole sequences; expected 1");
    const auto refused = [&](auto change) {
        return delta(change).starts_with(
            "workload.delta.value_heads: 8, which is modelled without Mamba-2 blocks, memory and "
            "passes operation by operation");
    };
    CHECK(refused([](auto& w, auto&) { w.mamba.heads = 4; }));
    CHECK(refused([](auto&, auto&, auto& r) { r.kernels = KernelStyle::operations; }));
    CHECK(refused([](auto& w, auto&) { w.positions = Positions::relative; }));
    CHECK(refused([](auto&, auto& p) { p.cut = StageCut::modules; }));
    CHECK(refused([](auto&, auto&, auto& r) { r.kernels = KernelStyle::script; }));
    CHECK(refused([](auto& w, auto& p) { w.moe.experts = 8, p.moe_system = MoeSystem::fast_moe; }));
    const auto indexer = [](auto change) {
        return told_of_split([&](auto& w, auto& p, auto& r) {
            w.mla = {0, 512, 128, 64, 128};
            w.indexer.heads = 8;
            widen(p, 2);
            make(change, w, p, r);
        });
    };
    CHECK(indexer([](auto&, auto&) {}).empty());
    CHECK(indexer([](auto&, auto& p) { p.cp = 2, p.dp = 2; }) ==
          "parallelism.cp: 2, but sparse attention is modelled on whole sequences; expected 1");
    const auto latent = [&](auto change) {
        return indexer(change) ==
               "workload.indexer.heads: 8, which is modelled for causal MLA without a window and "
               "in fused passes; expected workload.mla.kv_rank above 0, or 0";
    };
    CHECK(latent([](auto& w, auto&) { w.mla.kv_rank = 0; }));
    CHECK(latent([](auto& w, auto&) { w.causal = false; }));
    CHECK(latent([](auto& w, auto&) { w.window = 64; }));
    CHECK(latent([](auto&, auto&, auto& r) { r.kernels = KernelStyle::operations; }));
    CHECK(latent([](auto&, auto&, auto& r) { r.kernels = KernelStyle::script; }));
}

TEST_CASE(
    "windows, further predictions and MoE systems are refused with what is not modelled beside "
    "them") {
    const auto window = [](auto change) {
        return told_of_split(
            [&](auto& w, auto& p, auto& r) { w.window = 1, make(change, w, p, r); });
    };
    CHECK(window([](auto&, auto&) {}).empty());
    const std::string refused =
        "workload.window: 1, which is modelled for causal attention without memory; expected 0";
    CHECK(window([](auto& w, auto&) { w.causal = false; }) == refused);
    CHECK(window([](auto& w, auto&) { w.positions = Positions::relative; }) == refused);
    CHECK(window([](auto& w, auto&) { w.mla = {0, 512, 128, 64, 128}; }).empty());
    const auto prediction = [](auto change) {
        return told_of_split(
                   [&](auto& w, auto& p, auto& r) { w.mtp_layers = 1, make(change, w, p, r); })
            .substr(0, 48);
    };
    CHECK(prediction([](auto&, auto&) {}).empty());
    const std::string none = "workload.mtp_layers: 1, which is modelled for fu";
    CHECK(prediction([](auto&, auto&, auto& r) { r.kernels = KernelStyle::operations; }) == none);
    CHECK(prediction([](auto& w, auto&) { w.head = Head::span; }) == none);
    CHECK(prediction([](auto& w, auto&) { w.adapter_rank = 4; }) == none);
    CHECK(prediction([](auto&, auto& p) { p.moe_system = MoeSystem::mix_moe; }) == none);
    const auto reference = [](auto change) {
        return told_of_split([&](auto& w, auto& p, auto& r) {
            p.pp = 1;
            p.dp *= 2;
            w.reference = Reference::copy, make(change, w, p, r);
        });
    };
    CHECK(reference([](auto&, auto&) {}).empty());
    CHECK(reference([](auto& w, auto&) { w.mtp_layers = 1; }) ==
          "workload.reference: copy, whose forward is modelled with all-to-alls, without "
          "multi-token prediction and without kernels of a script; expected none");
    CHECK(reference([](auto& w, auto&) { w.reference = Reference::base; }) ==
          "workload.reference: base is what adapters stand beside, but workload.adapter_rank is 0; "
          "expected copy, or a rank");
    CHECK(reference([](auto&, auto& p) { p.pp = 2, p.dp /= 2; }) ==
          "parallelism.pp: 2, but workload.reference = copy is modelled on one stage; expected 1");
    const auto on_all = [](auto change) {
        return told_of_split([&](auto& w, auto& p, auto& r) {
            p.tp = p.pp = p.cp = 1;
            p.dp = p.ep = p.global_batch = w.moe.experts = 16;
            p.moe_system = MoeSystem::faster_moe;
            make(change, w, p, r);
        });
    };
    CHECK(on_all([](auto&, auto&) {}).empty());
    CHECK(
        on_all([](auto&, auto& p) { p.zero = 3; }) ==
        "parallelism.moe_system: faster_moe, with which neither zero 3 nor recompute is modelled");
    CHECK(
        on_all([](auto&, auto& p) { p.recompute = Recompute::selective; }) ==
        "parallelism.moe_system: faster_moe, with which neither zero 3 nor recompute is modelled");
    CHECK(on_all([](auto& w, auto&) { w.moe.capacity_factor = 1; }) ==
          "workload.moe: faster_moe has no shared experts and no capacity; expected 0");
}

// Blocks operation by operation: plain attention, learned positions, no gate, one rank a model.
TEST_CASE("operation by operation nothing is split, gated or turned") {
    const auto unfused = [](auto change) {
        return told_of_split([&](auto& w, auto& p, auto& r) {
            r.kernels = KernelStyle::operations, p.tp = p.cp = 1, p.dp = 8;
            w.gated = false, r.attention = AttentionKind::plain, w.positions = Positions::learned;
            make(change, w, p, r);
        });
    };
    CHECK(unfused([](auto&, auto&) {}).empty());
    CHECK(unfused([](auto&, auto& p) { p.recompute = Recompute::full; }).empty());
    CHECK(unfused([](auto&, auto&, auto& r) { r.autocast = true; }).empty());
    CHECK(unfused([](auto& w, auto&) { w.positions = Positions::relative, w.memory = 1; }).empty());
    CHECK(unfused([](auto& w, auto&) { w.memory = 1; }) ==
          "workload.memory: 1, but only workload.positions relative has one; expected 0");
    CHECK(unfused([](auto&, auto& p) { p.recompute = Recompute::selective; }) ==
          "parallelism.recompute: selective, which is not modelled with runtime.kernels = "
          "operations; "
          "expected none or full");
    CHECK(unfused([](auto&, auto& p) { p.tp = 2, p.dp = 4; }) ==
          "runtime.kernels: operations, which is not modelled with tp = 2 and cp = 1; expected 1");
    CHECK(unfused([](auto&, auto& p) { p.cp = 2, p.dp = 4; }) ==
          "runtime.kernels: operations, which is not modelled with tp = 1 and cp = 2; expected 1");
    const std::string others =
        "runtime.kernels: operations, which is modelled for plain attention without rotary "
        "positions "
        "and a feed-forward block without gate";
    CHECK(unfused([](auto& w, auto&) { w.gated = true; }) == others);
    CHECK(unfused([](auto&, auto&, auto& r) { r.attention = AttentionKind::flash; }) == others);
    CHECK(unfused([](auto& w, auto&) { w.positions = Positions::rotary; }) == others);
}
