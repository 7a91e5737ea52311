#include "model/transformer/layer_memory.h"

#include <catch2/catch.hpp>

#include "model/experiment.h"
#include "model/rank_groups.h"
#include "tests/model/block/small_model.h"

using namespace stepcast;

// Feed-forward, 2 bytes per element, T = 48 tokens: norm in and out 2 x 64, the product's 256 and
// the activation's 128 elements. Attention: norm in and out 2 x 64, queries 64, keys and values 2 x
// 32, result 64, and 4 bytes for each of 8 heads' rows. Work: two of 64 and the gradients of the
// widest operator: 256 of inputs and 128 of the result; 64, 64 + 64 and a sum of 64 in fp32.
TEST_CASE("a layer keeps what its backward reads") {
    const Experiment e = small_model();
    const Routing balanced;
    const LayerContext c{e, rank_shape(e), rank_groups(e.parallelism), balanced};
    const LayerMemory memory = layer_memory(c, 0);
    CHECK(memory.feed_forward.kept == 48 * 2.0 * Bytes(128 + 256 + 128));
    CHECK(memory.feed_forward.work == 48 * 2.0 * Bytes(128 + 256 + 128));
    CHECK(memory.attention.kept == 48 * 2.0 * Bytes(128 + 64 + 64 + 64) + 48 * 8.0 * Bytes(4));
    CHECK(memory.attention.work == 48 * 2.0 * Bytes(128 + 64 + 128 + 2 * 64));
}

// 3 x 8 x 16 x 16 = 6144 scores: in steps their fp32 softmax stays beside the 16-bit one; of the
// gradients around it two fp32 ones are there at once, instead of two of 16 bit.
TEST_CASE("a softmax in steps keeps its result in fp32, too") {
    Experiment e = small_model();
    e.runtime.attention = AttentionKind::plain;
    const Routing balanced;
    const auto attention = [&] {
        return layer_memory({e, rank_shape(e), rank_groups(e.parallelism), balanced}, 0).attention;
    };
    const Activations one = attention();
    e.runtime.composed = {Composed::softmax};
    CHECK(attention().kept - one.kept == 6144 * Bytes(4));
    CHECK(attention().work - one.work == 6144 * 2.0 * Bytes(4 - 2));
}

// The kernel's sums, 4 bytes for each of 8 heads' rows, are made again with a second result of 64:
// they are work beside the gradients. In fp8 the first result, which the product behind it reads as
// a copy of a byte each, stays without selective recompute alone, or where a gate reads it.
TEST_CASE("selective recompute keeps neither one kernel's sums nor a result that nothing reads") {
    Experiment e = small_model();
    const Routing balanced;
    const auto attention = [&] {
        return layer_memory({e, rank_shape(e), rank_groups(e.parallelism), balanced}, 0).attention;
    };
    const auto saves = [&](Bytes kept) {
        e.parallelism.recompute = Recompute::none;
        const Activations none = attention();
        e.parallelism.recompute = Recompute::selective;
        CHECK(none.kept - attention().kept == kept);
        CHECK(attention().work - none.work == 48 * 2.0 * Bytes(64) + 48 * 8.0 * Bytes(4));
    };
    saves(48 * 8.0 * Bytes(4));
    e.workload.dtype = Dtype::fp8;
    saves(48 * 8.0 * Bytes(4) + 48 * 2.0 * Bytes(64));
    e.workload.attention_gate = true;
    saves(48 * 8.0 * Bytes(4));
}

// A feed-forward keeps its norm's input alone and makes the other 64 + 256 + 128 elements a token
// again. Experts, 2 a token of an inner width of 32: norm in and out 2 x 64; 4 scores,
// probabilities and choices, 9 bytes each; for each of two slots 64 that arrive, 64 into the
// activation and 32 behind it. With moe the norm's result stays, as what the checkpoint reads.
TEST_CASE("selective recompute of modules keeps what they read") {
    Experiment e = small_model();
    const Routing balanced;
    const auto feed_forward = [&](std::vector<RecomputedModule> modules) {
        e.parallelism.recompute = Recompute::selective;
        e.parallelism.recompute_modules = std::move(modules);
        return layer_memory({e, rank_shape(e), rank_groups(e.parallelism), balanced}, 0)
            .feed_forward;
    };
    using enum RecomputedModule;
    const double tokens = 48;
    CHECK(feed_forward({mlp}).kept == tokens * Bytes(2 * 64));
    CHECK(feed_forward({mlp}).work == tokens * Bytes(2 * (128 + 256 + 128) + 2 * (64 + 256 + 128)));
    e.workload.moe.experts = 4;
    e.workload.moe.ffn = 32;
    const Bytes all = tokens * Bytes(2 * 128 + 4 * 9 + 2 * 2 * (64 + 64 + 32));
    CHECK(feed_forward({core_attn}).kept == all);
    CHECK(feed_forward({layernorm}).kept == all - tokens * Bytes(2 * 64));
    CHECK(feed_forward({moe_act}).kept == all - tokens * Bytes(2 * 2 * 32));
    CHECK(feed_forward({moe}).kept == tokens * Bytes(2 * 128));
    CHECK(feed_forward({moe, layernorm, moe_act}).kept == tokens * Bytes(2 * 64));
    CHECK(feed_forward({moe}).work - feed_forward({core_attn}).work ==
          all - tokens * Bytes(2 * 128));
}

// Heads of 8 + 4 and 6 from latents of 24 and 16: queries and keys of 8 x 12, values of 8 x 6, and
// the keys' own part of 8 x 8 are made again; the shared rotary key of 4 stays.
TEST_CASE("selective recompute of the products up from latents keeps no queries, keys and values") {
    Experiment e = small_model();
    e.workload.kv_heads = 8;
    e.workload.mla = {.q_rank = 24, .kv_rank = 16, .nope_dim = 8, .rope_dim = 4, .value_dim = 6};
    const Routing balanced;
    const auto kept = [&](std::vector<RecomputedModule> modules) {
        e.parallelism.recompute = Recompute::selective;
        e.parallelism.recompute_modules = std::move(modules);
        return layer_memory({e, rank_shape(e), rank_groups(e.parallelism), balanced}, 0)
            .attention.kept;
    };
    using enum RecomputedModule;
    const double tokens = 48;
    CHECK(kept({moe}) - kept({mla_up_proj}) == tokens * 8 * Bytes(2 * (12 + 12 + 6 + 8)));
    CHECK(kept({moe}) - kept({layernorm}) == tokens * Bytes(2 * 64));
}

// Per token, in elements: norm in and out 2 x 64; the convolution's input of 96 and the gates' of
// 8; queries, keys and values, 96, and of 4 value heads a row of 64 of the chunk's inverse, a step
// size and 4 bytes of decay; the gated norm's inputs of 32 each and its result. Work: the states of
// a chunk of 64, 16 x 8 / 64 a token, with their gradients, four tensors of 16 and five of 8 for
// each value head, beside the gradients of queries, keys and values.
TEST_CASE("a gated delta net keeps what its kernels' backwards read") {
    Experiment e = small_model();
    e.workload.delta = {.value_heads = 4, .key_heads = 2, .key_dim = 16, .value_dim = 8};
    const Routing balanced;
    const LayerContext c{e, rank_shape(e), rank_groups(e.parallelism), balanced};
    const LayerMemory delta = layer_memory(c, 0), attention = layer_memory(c, 3);
    CHECK(delta.feed_forward == attention.feed_forward);
    CHECK(delta.attention.kept ==
          48 * 2.0 * Bytes(128 + 96 + 8 + 96 + 4 * (64 + 1) + 3 * 32) + 48 * 4 * Bytes(4));
    CHECK(delta.attention.work == 48 * 2.0 * Bytes(128 + 96 + 4 * (4 * 16 + 5 * 8 + 2 * 2)));
    e.workload.delta.value_heads = 0;
    CHECK(layer_memory({e, rank_shape(e), c.groups, balanced}, 0).attention == attention.attention);
}

// Latents of 24 and 16, heads of 8 + 4 and 6. Per token: norm in and out 2 x 64, latents' norms 2 x
// 40, queries' own part 8 x 8, queries and results of 8 heads as wide as the latent, 20 and 16, one
// key of 20, 8 x 6 for the output projection and a sum of 4 bytes a head. The indexer: 4 x 6 + 6 +
// 4 elements, its key's norm in and out 2 x 6, and 3 x 4 bytes for each of 5 keys. Work: gradients
// of results, queries and the key, and the queries' sum in fp32.
TEST_CASE(
    "sparse attention keeps queries as wide as the latent, and of the indexer what it chose") {
    Experiment e = small_model();
    e.workload.kv_heads = 0;
    e.workload.mla = {.q_rank = 24, .kv_rank = 16, .nope_dim = 8, .rope_dim = 4, .value_dim = 6};
    e.workload.indexer = {.heads = 4, .head_dim = 6, .top_k = 5};
    const Routing balanced;
    const LayerContext c{e, rank_shape(e), rank_groups(e.parallelism), balanced};
    const LayerMemory memory = layer_memory(c, 0);
    CHECK(memory.attention.kept ==
          48 * 2.0 * Bytes(128 + 80 + 64 + 8 * (20 + 16) + 20 + 48 + 34 + 12) +
              48 * Bytes(8 * 4 + 5 * 12));
    CHECK(memory.attention.work == 48 * 2.0 * Bytes(128 + 8 * (20 + 16) + 20 + 2 * 8 * 20));
}

// Without a gate: norm in and out 2 x 64, the product's 128 and the activation's 128 elements of 2
// bytes. In steps GELU keeps three tensors of 128 more; under automatic casting one of 2 bytes and
// three of 4, among them its input in place of the product's result, and the norm's input of 64 has
// 4 bytes.
TEST_CASE("GELU in steps keeps what its operators' backwards read") {
    Experiment e = small_model();
    e.workload.gated = false;
    e.workload.activation = Activation::gelu_steps;
    const Routing balanced;
    const auto kept = [&] {
        return layer_memory({e, rank_shape(e), rank_groups(e.parallelism), balanced}, 0)
            .feed_forward.kept;
    };
    CHECK(kept() == 48 * 2.0 * Bytes(128 + 128 + 128));
    e.runtime.composed = {Composed::activation};
    CHECK(kept() == 48 * 2.0 * Bytes(128 + 128 + 128 + 3 * 128));
    e.runtime.autocast = true;
    CHECK(kept() == 48 * Bytes(2 * (128 + 128) + 2 * 64 + (2 + 3 * 4) * 128));
    e.workload.activation = Activation::gelu;
    CHECK(kept() == 48 * 2.0 * Bytes(128 + 128 + 128 + 64));
}

// Of 64 elements a token: the input in fp32, the normed one, which the gradient of the weights
// reads, and the result in 16 bit, 4 + 2 + 2 bytes where one kernel keeps 2 + 2. Under automatic
// casting the residual stream is fp32: 4 + 2, composed 4 + 4 + 2. A recomputed layer keeps such an
// input, too.
TEST_CASE("a composed norm keeps its input in fp32, what it normed, and its result") {
    Experiment e = small_model();
    const Routing balanced;
    const auto memory = [&] {
        return layer_memory({e, rank_shape(e), rank_groups(e.parallelism), balanced}, 0);
    };
    const Bytes fused = memory().feed_forward.kept;
    const auto more = [&] { return (memory().feed_forward.kept - fused).si() / (48 * 64); };
    CHECK(memory().rerun == 48 * 2.0 * Bytes(64));
    e.runtime.composed = {Composed::norms};
    CHECK(more() == 4);
    e.runtime.autocast = true;
    CHECK(more() == 6);
    e.runtime.composed = {};
    CHECK(more() == 2);
    CHECK(memory().rerun == 48 * 4.0 * Bytes(64));
}

// Queries, keys and values as three products have three casts of the norm's result, 64 elements of
// 2 bytes each, where one product has one; a compiled layer has one for all.
TEST_CASE("automatic casting casts a composed norm's result for each product of an eager layer") {
    Experiment e = small_model();
    e.runtime.composed = {Composed::norms};
    e.runtime.autocast = true;
    const Routing balanced;
    const auto separate_more = [&] {
        const auto kept = [&](bool fused) {
            e.runtime.fused_projections = fused;
            return layer_memory({e, rank_shape(e), rank_groups(e.parallelism), balanced}, 0)
                .attention.kept;
        };
        return kept(false) - kept(true);
    };
    e.runtime.kernels = KernelStyle::eager;
    CHECK(separate_more() == 48 * 2.0 * Bytes(2 * 64));
    e.runtime.kernels = KernelStyle::fused;
    CHECK(separate_more() == Bytes(0));
}

// The layer of above without the results of norms and activation, because the products after them
// are frozen. Each product adds an fp32 copy of its input and four fp32 elements: 64 and 128 of the
// feed-forward block, 64 and 64 of the attention. Work: the gradient of 256, scaled and not, the
// input's of 64 in fp32, and in 16 bit. A norm composed of operators keeps its input of 64 in fp32.
TEST_CASE("composed adapters keep a copy of each input and their inner tensor") {
    Experiment e = small_model();
    e.workload.adapter_rank = 4;
    e.workload.adapter_on = Adapted::linear;
    e.runtime.composed = {Composed::adapters};
    const Routing balanced;
    const auto memory = [&] {
        return layer_memory({e, rank_shape(e), rank_groups(e.parallelism), balanced}, 0);
    };
    CHECK(memory().feed_forward.kept ==
          48 * 2.0 * Bytes(64 + 256) + 48 * 4.0 * Bytes(64 + 4 + 128 + 4));
    CHECK(memory().attention.kept == 48 * 2.0 * Bytes(64 + 64 + 64 + 64) + 48 * 8.0 * Bytes(4) +
                                         48 * 4.0 * Bytes(64 + 4 + 64 + 4));
    e.runtime.composed = {Composed::norms, Composed::adapters};
    CHECK(memory().feed_forward.kept ==
          48 * 2.0 * Bytes(256) + 48 * 4.0 * Bytes(64) + 48 * 4.0 * Bytes(64 + 4 + 128 + 4));
    e.runtime.composed = {Composed::adapters};
    CHECK(memory().feed_forward.work ==
          48 * 2.0 * Bytes(128 + 64) + 48 * 4.0 * Bytes(2 * 256 + 64));
    e.workload.adapter_on = Adapted::attention;
    CHECK(memory().feed_forward.kept == 48 * 2.0 * Bytes(64 + 256));
    e.runtime.fused_projections = false;  // queries, keys and values each cast the input
    CHECK(memory().attention.kept == 48 * 2.0 * Bytes(64 + 64 + 64 + 64) + 48 * 8.0 * Bytes(4) +
                                         48 * 4.0 * Bytes(4 * (64 + 4)));
}

// The layer of above under adapters of a training library, which read the layers' inputs as they
// are, and 4 elements behind each A. On all linear layers: norm in and out, 256 and 128 and two
// times 4; with attention as it was and two times 4. On attention alone the feed-forward block
// keeps what its norm and its activation read, 64 and 256. fp8: the adapters read 16 bits, frozen
// products need nothing again.
TEST_CASE("frozen layers keep no inputs but what their adapters read") {
    Experiment e = small_model();
    e.workload.adapter_rank = 4;
    e.workload.adapter_on = Adapted::linear;
    const Routing balanced;
    const auto memory = [&] {
        return layer_memory({e, rank_shape(e), rank_groups(e.parallelism), balanced}, 0);
    };
    for (const Dtype dtype : {Dtype::bf16, Dtype::fp8}) {
        e.workload.dtype = dtype;
        e.workload.adapter_on = Adapted::linear;
        CHECK(memory().feed_forward.kept == 48 * 2.0 * Bytes(128 + 256 + 128 + 4 + 4));
        CHECK(memory().attention.kept ==
              48 * 2.0 * Bytes(128 + 64 + 64 + 64 + 4 + 4) + 48 * 8.0 * Bytes(4));
        e.workload.adapter_on = Adapted::attention;
        CHECK(memory().feed_forward.kept == 48 * 2.0 * Bytes(64 + 256));
        CHECK(memory().attention.kept ==
              48 * 2.0 * Bytes(128 + 64 + 64 + 64 + 4 + 4) + 48 * 8.0 * Bytes(4));
    }
    e.workload.dtype = Dtype::bf16;
    e.runtime.fused_projections = false;
    // the gate's product is an operation of its own; of it the two factors are kept
    e.runtime.fused_gate = false;
    const Bytes by_steps = memory().feed_forward.kept;
    e.workload.adapter_on = Adapted::linear;
    CHECK(memory().feed_forward.kept - by_steps == 48 * 2.0 * Bytes(64 + 128 + 3 * 4));
}

// As above with separate projections: queries and values read one norm's result, and have 4
// elements behind each A; keys and the result of attention have none, so what attention gives is
// kept once, by its own backward.
TEST_CASE("adapters beside queries and values keep two inner tensors") {
    Experiment e = small_model();
    e.workload.adapter_rank = 4;
    e.runtime.fused_projections = false;
    const Routing balanced;
    const auto kept = [&](std::vector<AdaptedModule> modules) {
        e.workload.adapter_modules = std::move(modules);
        return layer_memory({e, rank_shape(e), rank_groups(e.parallelism), balanced}, 0)
            .attention.kept;
    };
    using enum AdaptedModule;
    const Bytes inner = 48 * 2.0 * Bytes(4);
    CHECK(kept({query, value}) - kept({query}) == inner);
    CHECK(kept({query, key, value}) - kept({query, value}) == inner);
    e.workload.adapter_modules = {};
    const Bytes all = kept({query, key, value, output});
    CHECK(kept({}) == all);
}

// Of the first layer, with balanced experts.
static Bytes kept_by_feed_forward(const Experiment& e) {
    const Routing balanced;
    return layer_memory({e, rank_shape(e), rank_groups(e.parallelism), balanced}, 0)
        .feed_forward.kept;
}

// 96 slots of 64 elements and two of 8 experts: the norm's input, router's scores (9 bytes for each
// of 8), the product's 64 and, trained, the norm's result, the slots and the activation's 32. A
// shared expert of width 32 keeps its 64 and 32 more and, adapted, reads the norm's result.
TEST_CASE("frozen experts keep neither their slots nor what the second product reads") {
    Experiment e = small_model();
    e.workload.moe = {.experts = 8, .top_k = 2, .ffn = 32};
    const auto kept = [&] { return kept_by_feed_forward(e); };
    const Bytes scores = 48 * 8 * Bytes(9);
    CHECK(kept() == 48 * 2.0 * Bytes(128) + scores + 96 * 2.0 * Bytes(64 + 64 + 32));
    e.workload.adapter_rank = 4;
    for (const Adapted on : {Adapted::attention, Adapted::linear}) {
        e.workload.adapter_on = on;
        CHECK(kept() == 48 * 2.0 * Bytes(64) + scores + 96 * 2.0 * Bytes(64));
    }
    e.workload.moe.shared_experts = 1;
    CHECK(kept() == 48 * 2.0 * Bytes(64 + 64 + 64 + 32 + 4 + 4) + scores + 96 * 2.0 * Bytes(64));
    e.workload.adapter_on = Adapted::attention;
    CHECK(kept() == 48 * 2.0 * Bytes(64 + 64) + scores + 96 * 2.0 * Bytes(64));
}

// 48 tokens in two slots each: 96 rows of 64 elements. PyTorch's weighting reads what the second
// product gave, and a loop over the experts also the weighted rows that it adds up: 2 bytes each,
// the latter 4 under automatic casting, where the sum is fp32.
TEST_CASE("composed experts keep the second product's result, a loop also what it adds up") {
    Experiment e = small_model();
    e.workload.moe = {.experts = 8, .top_k = 2, .ffn = 32};
    const auto kept = [&] { return kept_by_feed_forward(e); };
    const auto more = [&] {
        e.runtime.composed = {};
        const Bytes without = kept();
        e.runtime.composed = {Composed::experts};
        return kept() - without;
    };
    CHECK(more() == 96 * 64 * Bytes(2));
    e.runtime.experts.one_by_one = true;
    CHECK(more() == 96 * 64 * Bytes(2 + 2));
    e.runtime.autocast = true;
    CHECK(more() == 96 * 64 * Bytes(2 + 4));
}

// Two tensor-parallel ranks with 24 of 48 tokens each, 64 elements of 2 bytes a token. Where the
// backward gathers again, a block keeps of its norm the input and the result of 24 tokens;
// PyTorch's DTensors keep the input and the gathered result of 48. So do the ends.
TEST_CASE("products of DTensors keep what sequence parallelism gathered for them") {
    Experiment e = small_model();
    e.parallelism.tp = 2;
    e.parallelism.sequence_parallel = true;
    const Routing balanced;
    const auto context = [&](const RankShape& shape, const RankGroups& groups) {
        return LayerContext{e, shape, groups, balanced};
    };
    const auto kept = [&](auto&& of) {
        const RankShape shape = rank_shape(e);
        const RankGroups groups = rank_groups(e.parallelism);
        return of(context(shape, groups));
    };
    const auto attention = [](const LayerContext& c) { return layer_memory(c, 0).attention.kept; };
    const auto rest = [](const LayerContext& c) { return layer_memory(c, 0).feed_forward.kept; };
    const auto head = [](const LayerContext& c) { return head_memory(c).kept; };
    const Bytes before = kept(attention), before_rest = kept(rest), before_head = kept(head);
    e.runtime.weight_shards = WeightShards::dtensors;
    const Bytes more = (48 - 24) * 64 * Bytes(2);
    CHECK(kept(attention) - before == more);
    CHECK(kept(rest) - before_rest == more);
    CHECK(kept(head) - before_head == more);
    e.runtime.fused_projections = false;  // three products read one tensor
    CHECK(kept(attention) - before == more);
    e.parallelism.sequence_parallel = false;  // nothing is gathered
    const Bytes whole = kept(rest);
    e.runtime.weight_shards = WeightShards::flat;
    CHECK(kept(rest) == whole);
}

// Of the ends: the final norm's result and gradients of the two tables of 64,000 weights are of
// trained models alone.
TEST_CASE("frozen tables and norms need no gradients and keep no results") {
    Experiment e = small_model();
    const Routing balanced;
    const auto head = [&] {
        return head_memory({e, rank_shape(e), rank_groups(e.parallelism), balanced});
    };
    const auto embedding = [&] {
        return embedding_memory({e, rank_shape(e), rank_groups(e.parallelism), balanced});
    };
    const Activations trained = head();
    const Bytes table = 1000 * 64 * Bytes(2);
    CHECK(embedding().work == table);
    e.workload.adapter_rank = 4;
    CHECK(embedding().work == Bytes(0));
    CHECK(trained.kept - head().kept == 48 * 2.0 * Bytes(64));
    CHECK(trained.work - head().work == table);
}

// Between the halves of a split backward only adapters' inputs and results' gradients are put off:
// 64 + 256 and 128 + 64 of the feed-forward block, 64 + 128 and 64 + 64 of the attention.
TEST_CASE("weight gradients that are put off are those of adapters where layers are frozen") {
    Experiment e = small_model();
    const Routing balanced;
    const auto put_off = [&] {
        return layer_memory({e, rank_shape(e), rank_groups(e.parallelism), balanced}, 0).put_off;
    };
    CHECK(put_off() == 48 * 2.0 * Bytes(64 + 256 + 128 + 64 + 64 + 128 + 64 + 64));
    e.workload.adapter_rank = 4;
    e.workload.adapter_on = Adapted::linear;
    CHECK(put_off() == 48 * 2.0 * Bytes(64 + 256 + 128 + 64 + 64 + 128 + 64 + 64));
    e.workload.adapter_on = Adapted::attention;
    CHECK(put_off() == 48 * 2.0 * Bytes(64 + 128 + 64 + 64));
}

// Logits as above: 1000 a token. PyTorch's cross entropy keeps 4 bytes of each and makes 8 on top;
// of 16-bit logits as they are 2 and 4.
TEST_CASE("a composed loss keeps its result and makes two gradients") {
    Experiment e = small_model();
    e.runtime.loss.fused = false;
    e.runtime.kernels = KernelStyle::eager;
    e.runtime.composed = {Composed::loss};
    const Routing balanced;
    const auto head = [&] {
        return head_memory({e, rank_shape(e), rank_groups(e.parallelism), balanced});
    };
    CHECK(head().kept == 48 * Bytes(2 * 128 + 4 * 1000));
    CHECK(head().work == 1000 * 64 * Bytes(2) + 48 * Bytes(2 * 128) + 48 * 1000 * Bytes(8));
    e.workload.fp32_loss = false;
    CHECK(head().kept == 48 * Bytes(2 * 128 + 2 * 1000));
    CHECK(head().work == 1000 * 64 * Bytes(2) + 48 * Bytes(2 * 128) + 48 * 1000 * Bytes(4));
}

// Chunks of 4 rows (as many as 1000 / 64, rounded up 16, leave of 48, 3, to the next power of two):
// 4 x 1000 logits of 2 bytes exist at once. The matrix's gradient, 1000 x 64 of 2 bytes, is there
// from the forward on; frozen it has none. Recomputed logits leave 4 bytes a row.
TEST_CASE("a loss without logits keeps gradients or sums of rows") {
    Experiment e = small_model();
    const Routing balanced;
    const auto head = [&] {
        return head_memory({e, rank_shape(e), rank_groups(e.parallelism), balanced});
    };
    e.runtime.loss.logits = LogitsKept::chunks;
    CHECK(head().kept == 48 * Bytes(2 * 128) + 1000 * 64 * Bytes(2));
    CHECK(head().work == 48 * Bytes(2 * 128) + 4 * 1000 * Bytes(2));
    e.runtime.loss.logits = LogitsKept::recomputed;
    CHECK(head().kept == 48 * Bytes(2 * 128 + 4));
    CHECK(head().work == 1000 * 64 * Bytes(2) + 48 * Bytes(2 * 128));
}

// The loss keeps its result, fp32 numbers of each logit, and makes two gradients of that size; of
// DTensors that are split also the softmax.
TEST_CASE("the loss of split DTensors makes one tensor more") {
    Experiment e = small_model();
    e.parallelism.tp = 2;
    e.parallelism.sequence_parallel = true;
    e.workload.fp32_loss = true;
    e.runtime.composed = {Composed::loss};
    const Routing balanced;
    const auto loss = [&] {
        return loss_memory({e, rank_shape(e), rank_groups(e.parallelism), balanced});
    };
    CHECK(loss().kept == Bytes(4));
    CHECK(loss().made == Bytes(2 * 4));
    e.runtime.weight_shards = WeightShards::dtensors;
    CHECK(loss().kept == Bytes(4));
    CHECK(loss().made == Bytes(3 * 4));
}

// ReLU's backward reads its result, which the next product keeps anyway; squared ReLU keeps its
// input as well.
TEST_CASE("ReLU keeps one tensor, squared ReLU two") {
    Experiment e = small_model();
    e.workload.gated = false;
    const Routing balanced;
    const auto kept = [&](Activation activation) {
        e.workload.activation = activation;
        return layer_memory({e, rank_shape(e), rank_groups(e.parallelism), balanced}, 0)
            .feed_forward.kept;
    };
    CHECK(kept(Activation::relu) == 48 * 2.0 * Bytes(128 + 128));
    e.workload.inner_dropout = true;
    e.workload.dropout = 0.1;
    const Bytes mask = 48 * Bytes(64);  // of the residual
    CHECK(kept(Activation::relu) == 48 * 2.0 * Bytes(128 + 128 + 128) + mask);
    e.workload.dropout = 0;
    CHECK(kept(Activation::squared_relu) == 48 * 2.0 * Bytes(128 + 128 + 128));
    CHECK(kept(Activation::gelu) == kept(Activation::squared_relu));
}

// Logits per token: norm in and out 2 x 64 of 2 bytes, and 1000 of 4 bytes. Their gradient (2
// bytes) is made beside them, with the matrix's and twice the input's. The first further token
// keeps the inputs of two norms, 64 each, and their outputs, joined to the 128 that the product
// reads; a layer as above; and its own logits. Each further token keeps the same again; the work is
// that of the largest.
TEST_CASE("each further token that is predicted keeps a layer and logits of its own") {
    Experiment e = small_model();
    e.runtime.loss.fused = false;
    const Routing balanced;
    const auto head = [&](int tokens) {
        e.workload.mtp_layers = tokens;
        return head_memory({e, rank_shape(e), rank_groups(e.parallelism), balanced});
    };
    const LayerMemory layer =
        layer_memory({e, rank_shape(e), rank_groups(e.parallelism), balanced}, 1);
    const Activations none = head(0), one = head(1), two = head(2);
    CHECK(none.kept == 48 * Bytes(2 * 128 + 4 * 1000));
    CHECK(none.work == 1000 * 64 * Bytes(2) + 48 * Bytes(2 * 128) + 48 * 1000 * Bytes(2));
    CHECK(one.kept - none.kept == layer.kept() + none.kept + 48 * Bytes(2 * (64 + 64 + 128)));
    CHECK(two.kept - one.kept == one.kept - none.kept);
    CHECK(two.work == none.work);
}

// A fully recomputed layer keeps its input's 64 elements per token. Alternate recompute: of four
// products queries, keys and values (128) and up (256) stay, and attention's 64. Over 2 ranks with
// a split sequence these halve; what ranks sum stays too, 64 / 2 each.
TEST_CASE("a layer that runs again keeps its input, and what an alternate recompute leaves") {
    Experiment e = small_model();
    const Routing balanced;
    const auto kept = [&] {
        return layer_memory({e, rank_shape(e), rank_groups(e.parallelism), balanced}, 0).rerun;
    };
    e.parallelism.recompute = Recompute::full;
    CHECK(kept() == 48 * 2.0 * Bytes(64));
    e.parallelism.recompute = Recompute::alternate;
    CHECK(kept() == 48 * 2.0 * Bytes(64 + 128 + 64 + 256));
    e.parallelism.tp = 2;
    e.parallelism.sequence_parallel = true;
    CHECK(kept() == 48 * 1.0 * Bytes(64 + 128 + 64 + 256 + 64 + 64));
}

// Of a layer with experts, alternate recompute keeps its input, queries, keys and values, and
// attention's result; experts run again. Over two ranks of 48 tokens with 2 experts each, it also
// keeps the 96 slots of 64 elements that arrived, and the 96 that came back.
TEST_CASE("an alternate recompute keeps of experts only what their exchanges brought") {
    Experiment e = small_model();
    e.workload.moe = {.experts = 8, .top_k = 2, .ffn = 32};
    e.parallelism.recompute = Recompute::alternate;
    const Routing balanced;
    const auto kept = [&] {
        return layer_memory({e, rank_shape(e), rank_groups(e.parallelism), balanced}, 1).rerun;
    };
    CHECK(kept() == 48 * 2.0 * Bytes(64 + 128 + 64));
    e.parallelism.dp = e.parallelism.ep = 2;
    CHECK(kept() == 48 * 2.0 * Bytes(64 + 128 + 64) + 96 * 2.0 * Bytes(64 + 64));
}
