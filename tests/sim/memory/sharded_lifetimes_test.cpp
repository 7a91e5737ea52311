// What ranks that share weights make: FSDP's gathers and gradients, DTensors' reductions, the
// reducer's buckets of DistributedDataParallel.
#include <catch2/catch.hpp>

#include "model/runtime_rules.h"
#include "sim/memory/lifetimes.h"
#include "sim/memory/tensor_recorder.h"
#include "tests/sim/memory/two_layers.h"

using namespace stepcast;

namespace {

// Matrices of a layer: four of 64 x 64, two of 64 x 256; with its norms 128 more. The table has
// 1,000 words; the head as many and a norm of 64.
constexpr double matrices = 4 * 64 * 64 + 2 * 64 * 256, a_layer = matrices + 128, table = 64'000,
                 head = table + 64;

Experiment two_layers_on(int ranks) {
    Experiment e = two_layers();
    Workload& w = e.workload;
    w.gated = w.tied = w.linear_bias = w.qkv_bias = false;
    w.norm = Norm::rmsnorm;
    w.positions = Positions::rotary;
    w.optimizer = Optimizer::adam;
    e.parallelism.dp = ranks;
    e.cluster.nodes = 1;
    e.cluster.gpus_per_node = ranks;
    e.runtime.kernels = KernelStyle::eager;
    e.runtime.fused_projections = false;
    e.runtime.gradients.freed = true;
    e.runtime.gradients.fused_accumulation = false;
    return e;
}

// Of the tensors that `take(tensor, name)` takes.
template <class Take>
double bytes_of(const Lifetimes& list, Take&& take) {
    double bytes = 0;
    for (const StepTensor& t : list.tensors)
        if (take(t, list.names[static_cast<std::size_t>(t.what)]))
            bytes += static_cast<double>(t.bytes);
    return bytes;
}
double bytes_of(const Lifetimes& list, TensorKind kind, const std::string& what, Phase phase) {
    return bytes_of(list, [&](const StepTensor& t, const std::string& name) {
        return t.step == 1 && t.layer == 0 && t.kind == kind && t.phase == phase && name == what;
    });
}
// Gathered in the second step, on FSDP's own stream or copied out of that.
double gathered(const Lifetimes& list, bool own_stream) {
    double bytes = 0;
    for (const AllocatorEvent& event : list.events) {
        const StepTensor& t = list.tensors[event.id];
        if (event.kind == AllocatorEvent::Kind::allocate && t.step == 1 &&
            t.kind == TensorKind::gathered && (event.stream == gather_stream) == own_stream)
            bytes += static_cast<double>(t.bytes);
    }
    return bytes;
}

}  // namespace

// 16-bit weights. A forward and a backward gather embedding and layers, the head stays in between.
// Joined, both ends stay. Flat tensors are not copied; norms' parameters go with the rest of their
// unit.
TEST_CASE("FSDP's units are gathered for each pass, the root once a step") {
    Experiment e = two_layers_on(2);
    e.parallelism.zero = 3;
    const auto list = [&](WeightShards shards, bool root) {
        e.runtime.weight_shards = shards;
        e.runtime.root_unit = root;
        return lifetimes_of(e, {}, 0);
    };
    for (const WeightShards shards : {WeightShards::flat, WeightShards::dtensors}) {
        const Lifetimes apart = list(shards, false), joined = list(shards, true);
        CHECK(gathered(apart, true) == 2 * (2 * (table + 2 * a_layer) + head));
        CHECK(gathered(joined, true) == 2 * (2 * (2 * a_layer) + table + head));
        const double copied = shards == WeightShards::dtensors ? 1 : 0;
        CHECK(gathered(apart, false) == copied * gathered(apart, true));
        CHECK(gathered(joined, false) == copied * gathered(joined, true));
    }
}

// A forward and a backward gather two layers, whose norms count as packed: 0.5625 bytes a weight
// (a byte for two and a 4-byte scale for 64) in place of 2.
TEST_CASE("packed weights are gathered as they are stored") {
    Experiment e = two_layers_on(2);
    e.parallelism.zero = 3;
    e.workload.adapter_rank = 4;
    const double stored = gathered(lifetimes_of(e, {}, 0), true);
    e.workload.frozen = FrozenWeights::nf4;
    CHECK(stored - gathered(lifetimes_of(e, {}, 0), true) == 2 * 2 * a_layer * (2 - 0.5625));
}

// The first of two stages of a layer each. FSDP's units keep whole fp32 gradients of matrices over
// four micro-batches, and at the end a rank's half of all weights' gradients.
TEST_CASE("a pipeline of FSDP adds up whole gradients and reduces them at the end") {
    Experiment e = two_layers_on(4);
    e.parallelism.dp = e.parallelism.pp = 2;
    e.parallelism.zero = 2;
    e.parallelism.global_batch = 8;
    e.runtime.weight_shards = WeightShards::dtensors;
    e.runtime.gradients.type = GradientType::fp32;
    const Lifetimes list = lifetimes_of(e, {}, 0);
    const double made = bytes_of(list, [](const StepTensor& t, const std::string&) {
        return t.step == 1 && t.kind == TensorKind::gradients;
    });
    CHECK(made == 4 * (table + matrices) + 4 * (table + a_layer) / 2);
    // beside a copy of each unit in turn
    const double copies = bytes_of(list, [](const StepTensor& t, const std::string& name) {
        return t.step == 1 && t.kind == TensorKind::exchanged && name == "gradients";
    });
    CHECK(copies == 4 * (table + a_layer));
}

// 32 tokens of 64 16-bit numbers over two ranks: a product's result, and a copy of it in order. In
// the backward queries and keys add to what is there, values begin; the sum is copied, too.
TEST_CASE("DTensors copy what they reduce and add up gradients in a tensor of its own") {
    Experiment e = two_layers_on(2);
    e.parallelism.dp = 1;
    e.parallelism.tp = 2;
    e.parallelism.sequence_parallel = true;
    constexpr double whole = 32 * 64 * 2;
    const auto exchanged = [&](const char* what, Phase phase) {
        return bytes_of(lifetimes_of(e, {}, 0), TensorKind::exchanged, what, phase) / whole;
    };
    CHECK(exchanged("ffn_down", Phase::forward) == 1);
    CHECK(exchanged("key", Phase::backward) == 0);
    e.runtime.weight_shards = WeightShards::dtensors;
    CHECK(exchanged("ffn_down", Phase::forward) == 2);
    CHECK(exchanged("query", Phase::backward) == 2);
    CHECK(exchanged("key", Phase::backward) == 1);
    CHECK(exchanged("value", Phase::backward) == 0);
}

// Buckets are copies of all 16-bit gradients; DeepSpeed packs them by itself, one rank has none.
TEST_CASE("DistributedDataParallel has buckets beside gradients of any type") {
    const auto buckets = [](int ranks, std::vector<int> copies) {
        Experiment e = two_layers_on(ranks);
        e.runtime.gradients.type = GradientType::training;
        e.runtime.gradients.copies = std::move(copies);
        return bytes_of(lifetimes_of(e, {}, 0), [](const StepTensor& t, const std::string& name) {
            return t.step == -1 && name == "buckets";
        });
    };
    CHECK(buckets(2, {}) == 2 * (table + 2 * a_layer + head));
    CHECK(buckets(2, {2, 2, 2, 3}) == 0);
    CHECK(buckets(1, {}) == 0);
}

// Two experts for each of 32 tokens: 64 rows of 256 after the first product. The second one's rows
// of 64, these weighted in fp32, in the tokens' order, and the sum of each token's.
TEST_CASE("Transformers' grouped experts copy a product's result and weight rows in fp32") {
    Experiment e = two_layers_on(1);
    e.workload.moe.experts = 4;
    e.workload.moe.top_k = 2;
    const auto passed = [&](const char* what) {
        return bytes_of(lifetimes_of(e, {}, 0), TensorKind::work, what, Phase::forward);
    };
    const double result = passed("experts_exchange"), activated = passed("activation");
    e.runtime.composed = {Composed::experts};
    CHECK(passed("activation") - activated == 64 * 256 * 2);
    CHECK(passed("experts_exchange") - result == 64 * 64 * (2 + 4 + 4) + 32 * 64 * 4);
    e.runtime.experts.one_by_one = true;  // a loop has no rows without a token
    CHECK(passed("activation") == activated);
}
