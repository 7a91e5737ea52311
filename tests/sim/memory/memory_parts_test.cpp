#include <catch2/catch.hpp>

#include "sim/memory/memory_parts.h"
#include "sim/memory/transformer_memory.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

// Buffers of a stage with 1,000 elements, 300 in its largest unit: parameters of two bytes,
// gradients of four.
Bytes buffers(int zero, int dp, Bytes bucket, int pp = 1) {
    Experiment e = small_gpt();
    e.parallelism.dp = dp;
    e.parallelism.pp = pp;
    e.parallelism.zero = zero;
    e.runtime.gradients.bucket = BucketSize(bucket);
    e.runtime.gradients.type = GradientType::fp32;
    const RankGroups groups = rank_groups(e.parallelism);
    const Routing balanced;
    const LayerContext context{e, rank_shape(e), groups, balanced};
    StageWeights weights;
    add_units(weights, context, 1, {{170, 130}, {}});
    weights.all = weights.layers = {620, 380};  // of experts
    return memory_of(context, weights, {}, Bytes(0)).buffers;
}

}  // namespace

// zero 2: two buckets of at least a unit's 1,200 bytes, and at most all 4,000. zero 3: 600 bytes of
// parameters and 1,200 of gradients for each of two units. One replica shards nothing.
TEST_CASE("sharded gradients and parameters need two buckets, or two units, beside what is kept") {
    for (const int zero : {2, 3}) {
        CHECK(buffers(zero, 1, Bytes(500)) == buffers(0, 1, Bytes(500)));
        CHECK(buffers(1, 2, Bytes(500)) == buffers(0, 2, Bytes(500)));
    }
    const auto more = [](int zero, double bucket) {
        return (buffers(zero, 2, Bytes(bucket)) - buffers(0, 2, Bytes(bucket))).si();
    };
    CHECK(more(2, 500) == 2 * 1200);
    CHECK(more(2, 1500) == 2 * 1500);
    CHECK(more(2, 5000) == 4000);
    CHECK(more(3, 500) == 2 * 600 + 2 * 1200);
}

// One of four experts on each of four ranks, so without replicas: 3 x 64 x 256 weights are neither
// gathered nor exchanged. The largest unit is then the table's 64,000 and 128 x 64 positions; 2
// bytes each, gathered, and 4 of gradients, twice.
TEST_CASE("experts without replicas need no buffers of what is gathered") {
    Experiment e = small_moe();
    e.parallelism.dp = e.parallelism.ep = e.parallelism.global_batch = 4;
    const auto buffers_with = [&](int zero) {
        e.parallelism.zero = zero;
        return transformer_memory(e).buffers.si();
    };
    CHECK(buffers_with(3) - buffers_with(0) == Approx(2 * (2 + 4) * (64000 + 128 * 64)));
    e.workload.ffn = 4096;
    CHECK(buffers_with(3) - buffers_with(0) == Approx(2 * (2 + 4) * (64000 + 128 * 64)));
}

// Frozen weights are sharded like trained ones; adapters of rank 8 are 3,072 weights in each of 4
// layers. The table is the largest unit that is gathered; a layer's adapters are the largest that
// send gradients, of 4 bytes.
TEST_CASE("zero 3 shards frozen weights") {
    Experiment e = small_gpt();
    e.workload.adapter_rank = 8;
    e.parallelism.dp = e.parallelism.global_batch = 4;
    const double weights = count_parameters(e.workload).total() + 4 * 3072;
    const MemoryUse whole = transformer_memory(e);
    CHECK(whole.weights.si() == Approx(2 * weights));
    e.parallelism.zero = 3;
    const MemoryUse sharded = transformer_memory(e);
    CHECK(sharded.weights.si() == Approx(2 * weights / 4));
    CHECK((sharded.buffers - whole.buffers).si() ==
          Approx(2 * 2 * (64000 + 128 * 64) + 2 * 4 * 3072));
}

// Frozen weights take 2 bytes; 12,288 weights of adapters 4, their gradients 4 and two moments 8,
// whatever the model keeps. Under any adapters neither frozen matrices nor the table have gradients
// of 2 bytes: 256 x 64 is the largest matrix, and 1,000 x 64 the table at the end.
TEST_CASE("adapters that PEFT keeps in fp32 have states of that type") {
    Experiment e = small_gpt();
    e.workload.adapter_rank = 8;
    e.runtime.optimizer.master_weights = false;
    e.runtime.gradients.type = GradientType::bf16;
    e.runtime.gradients.fused_accumulation = false;
    const MemoryUse narrow = transformer_memory(e);
    e.runtime.composed = {Composed::adapters};
    const MemoryUse use = transformer_memory(e);
    CHECK((use.weights - narrow.weights).si() == Approx(2 * 4 * 3072));
    CHECK(use.gradients.si() == Approx(4 * 4 * 3072));
    CHECK(use.optimizer.si() == Approx(8 * 4 * 3072));
    CHECK(use.buffers == narrow.buffers);
    Experiment trained = e;
    trained.workload.adapter_rank = 0;
    CHECK((transformer_memory(trained).buffers - use.buffers).si() ==
          Approx(2 * 256 * 64 + 2 * 1000 * 64));
    e.runtime.optimizer.master_weights = true;
    CHECK(transformer_memory(e).optimizer == use.optimizer);
}

// A copy of the model takes 2 bytes a weight more, a quarter of it under zero 3 on four ranks; the
// base of adapters nothing. Beside adapters a copy is of the frozen weights.
TEST_CASE("a reference model takes the memory of its weights") {
    Experiment e = small_gpt();
    e.parallelism.dp = e.parallelism.global_batch = 4;
    const double weights = count_parameters(e.workload).total();
    const auto more = [&e](Reference reference) {
        Experiment with = e;
        with.workload.reference = reference;
        const MemoryUse use = transformer_memory(with), without = transformer_memory(e);
        CHECK(use.gradients == without.gradients);
        CHECK(use.optimizer == without.optimizer);
        CHECK(use.activations == without.activations);
        CHECK(use.buffers == without.buffers);
        return (use.weights - without.weights).si();
    };
    CHECK(more(Reference::copy) == Approx(2 * weights));
    e.parallelism.zero = 3;
    CHECK(more(Reference::copy) == Approx(2 * weights / 4));
    e.workload.adapter_rank = 8;
    CHECK(more(Reference::copy) == Approx(2 * weights / 4));
    CHECK(more(Reference::base) == 0);
}

// Products read the frozen matrices, so each frozen layer has two copies of a byte per element;
// adapters stay in 16 bits.
TEST_CASE("under adapters narrow copies are of the frozen weights") {
    Experiment e = small_gpt();
    const double layer = layer_parameters(e.workload, rank_shape(e), 0).dense();
    e.workload.adapter_rank = 8;
    const Bytes wide = transformer_memory(e).weights;
    e.workload.dtype = Dtype::fp8;
    CHECK((transformer_memory(e).weights - wide).si() == Approx(4 * 2 * layer));
}

// A stage receives one tensor and sends one, each the tensor between two layers.
TEST_CASE("a pipeline holds a tensor that comes and one that goes") {
    const Experiment e = small_gpt();
    CHECK(buffers(0, 1, Bytes(500), 2) - buffers(0, 1, Bytes(500)) == 2.0 * rank_shape(e).outer());
}
