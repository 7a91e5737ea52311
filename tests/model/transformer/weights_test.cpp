// What a rank holds, by hand.
#include "model/transformer/weights.h"

#include <catch2/catch.hpp>

#include "model/transformer/counts.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

template <class Of>
UnitWeights weights(const Experiment& e, Of of) {
    const Routing balanced;
    return of(LayerContext{e, rank_shape(e), rank_groups(e.parallelism), balanced});
}
double of_layer(const Experiment& e) {
    return weights(e, [](const LayerContext& c) { return layer_weights(c, 0); }).trained.dense;
}

// small_gpt() without biases: 2 norms of 2 x 64.
Experiment plain_weights() {
    Experiment e = small_gpt();
    e.workload.linear_bias = e.workload.qkv_bias = false;
    return e;
}

}  // namespace

// h = 64, 4 heads of 16: queries and output have h x 64 each, halved and quartered; so are the 8
// h^2 of the block. Two key and value heads of 16 have h x 64 in all, halved over two ranks; each
// of four ranks has one head, h x 32.
TEST_CASE("ranks that share a key and value head hold a copy each") {
    Experiment e = plain_weights();
    e.workload.kv_heads = 2;
    const double h = 64, norms = 2 * 2 * 64;
    CHECK(of_layer(e) == 2 * h * h + h * 64 + 8 * h * h + norms);
    e.parallelism.tp = 2;
    CHECK(of_layer(e) == (2 * h * h + h * 64 + 8 * h * h) / 2 + norms);
    e.parallelism.tp = 4;
    CHECK(of_layer(e) == (2 * h * h + 8 * h * h) / 4 + h * 32 + norms);
}

// Latents of 24 and 16 and a rotary key of 8: h x 48 down, not split; up 24 x 4 heads x (16 + 8)
// and 16 x 4 x (16 + 16); output 4 x 16 x h. Norms of the latents: 2 x 40.
TEST_CASE("projections to latents are whole on every rank") {
    Experiment e = plain_weights();
    e.workload.mla = {24, 16, 16, 8, 16};
    const double h = 64, down = h * 48, split = 24 * 96 + 16 * 128 + 64 * h + 8 * h * h,
                 norms = 2 * 2 * 64 + 2 * 40;
    CHECK(of_layer(e) == down + split + norms);
    e.parallelism.tp = 4;
    CHECK(of_layer(e) == down + split / 4 + norms);
}

// Biases of layers split by rows are added after the sum, so they are whole: 64 each; 3 x 64 of
// queries, keys and values and 256 are split.
TEST_CASE("biases behind a sum over the ranks are on each of them") {
    Experiment e = small_gpt();
    e.parallelism.tp = 4;
    CHECK(of_layer(e) == (12 * 64 * 64 + 3 * 64 + 256) / 4 + 2 * 64 + 2 * 2 * 64);
}

// 1,000 x 64 of the table, 128 x 64 positions, a norm of 2 x 64. If tied, the head has the table
// again only on another stage.
TEST_CASE("frozen ends are those of a model that is trained, and nothing of them is trained") {
    Experiment e = small_gpt();
    e.workload.adapter_rank = 2;
    const auto embedding = [&] { return weights(e, embedding_weights).frozen.dense; };
    const auto head = [&] { return weights(e, head_weights).frozen.dense; };
    CHECK(embedding() == 64000 + 128 * 64);
    CHECK(head() == 64000 + 128);
    e.workload.tied = true;
    CHECK(head() == 128);
    e.parallelism.pp = 2;
    CHECK(head() == 64000 + 128);
    CHECK(weights(e, embedding_weights).trained.dense + weights(e, head_weights).trained.dense ==
          0);
    e.workload.adapter_rank = 0;
    CHECK(embedding() + head() == 0);
    CHECK(weights(e, embedding_weights).trained.dense == 64000 + 128 * 64);
}
