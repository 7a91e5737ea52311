#include "sim/bounds/data.h"

#include <catch2/catch.hpp>

#include "tests/transformers.h"

using namespace stepcast;

namespace {

// A stage of two dense layers of 1.0 M elements, three layers of 0.7 M with experts of 3.0 M, an
// embedding of 5 M and a head of 4 M, on 8 ranks of 2 nodes. Two replicas of 4 expert-parallel
// ranks. A layer has 0.82 M dense and 1.8 M expert elements on average. The tests price each
// collective by itself.
struct DataStage {
    Experiment e;
    RankGroups groups;
    Routing routing;
    std::optional<LayerContext> context;
    std::array<UnitWeights, unit_kinds> weights{
        UnitWeights{{1e6, 0}, {}}, {{0.7e6, 3e6}, {}}, {{5e6, 0}, {}}, {{4e6, 0}, {}}};
    UnitCounts units{2, 3, 1, 1};
    int chunks = 2;
    std::optional<OpPrices> prices;
    std::optional<DataPrices> data;

    explicit DataStage(int zero) {
        e = small_moe();
        e.cluster.nodes = 2;
        e.parallelism = {};
        e.parallelism.dp = 8;
        e.parallelism.ep = 4;
        e.parallelism.shard = zero == 3 ? 4 : 0;
        e.parallelism.zero = zero;
        e.parallelism.global_batch = 24;  // three micro-batches of one
        e.runtime.gradients.type = GradientType::fp32;
        e.runtime.gradients.bucket = BucketSize(Bytes(4 * 1.5e6));
        groups = rank_groups(e.parallelism);
        context.emplace(LayerContext{e, rank_shape(e), groups, routing});
        prices.emplace(e.cluster);
        data.emplace(*prices);
        data->bind(groups);
    }
    DataStage(const DataStage&) = delete;
    DataStage& operator=(const DataStage&) = delete;

    DataTimes operator()() { return data->times({*context, weights, chunks}, units); }
    [[nodiscard]] double sum(double elements, const Group& group) {
        return prices->collective(AllReduce{Bytes(4 * elements)}, group).si();
    }
    [[nodiscard]] double scatter(double elements, const Group& group) {
        return prices->collective(ReduceScatter{Bytes(4 * elements)}, group).si();
    }
    // Parameters are of two bytes.
    [[nodiscard]] double gather(double elements, const Group& group) {
        return prices->collective(AllGather{Bytes(2 * elements)}, group).si();
    }
    [[nodiscard]] double pass(const MemoryPass& op) {
        return prices->local(op, Phase::optimizer).si();
    }
};

}  // namespace

// A chunk counts three layers. Dense buckets of 1.5 M elements hold two layers of 0.82 M, then the
// remaining one; each expert bucket holds one layer of 1.8 M. Five layers are 5/3 of a chunk. The
// last bucket is the embedding's, or without one that of the last layer.
TEST_CASE(
    "gradients of a stage go bucket by bucket, dense ones and experts each over their ranks") {
    DataStage stage(0);
    const Group &all = stage.groups.data_context, &replicas = stage.groups.expert_data;
    REQUIRE(all.size() == 8);
    REQUIRE(replicas.size() == 2);
    const double dense = stage.sum(1.64e6, all) + stage.sum(0.82e6, all),
                 experts = 3 * stage.sum(1.8e6, replicas);
    const DataTimes t = stage();
    CHECK(t.gradients ==
          Approx((dense + experts) * 5 / 3 + stage.sum(5e6, all) + stage.sum(4e6, all)));
    CHECK(t.last_bucket == Approx(stage.sum(5e6, all)));
    CHECK(t.first_layers == 2);
    const std::array<double, 4> units{stage.sum(1e6, all),
                                      stage.sum(0.7e6, all) + stage.sum(3e6, replicas),
                                      stage.sum(5e6, all), stage.sum(4e6, all)};
    for (std::size_t k = 0; k < 4; ++k) CHECK(t.exchanged[k] == Approx(units[k]));
    CHECK(t.gathered == std::array<double, unit_kinds>{});
    CHECK(t.parameters == 0);
    CHECK(t.parameters_joined == 0);
    stage.units[at(UnitKind::embedding)] = stage.units[at(UnitKind::head)] = 0;
    CHECK(stage().gradients == Approx((dense + experts) * 5 / 3));
    CHECK(stage().last_bucket == Approx(stage.sum(0.82e6, all) + stage.sum(1.8e6, replicas)));
    stage.chunks = 1;  // five layers: 2, 2 and 1
    CHECK(stage().gradients == Approx(2 * stage.sum(1.64e6, all) + stage.sum(0.82e6, all) +
                                      5 * stage.sum(1.8e6, replicas)));
    stage.e.runtime.gradients.bucket = BucketSize(Bytes(4 * 100e6));  // one bucket
    CHECK(stage().gradients == Approx(stage.sum(4.1e6, all) + stage.sum(9e6, replicas)));
    CHECK(stage().first_layers == 5);
    CHECK(stage().last_bucket == stage().gradients);
    stage.units[0] = stage.units[1] = 0;
    stage.units[at(UnitKind::head)] = 1;
    CHECK(stage().gradients == Approx(stage.sum(4e6, all)));
    stage.e.runtime.gradients.pieces = 8;  // each has its own latency
    CHECK(stage().gradients == Approx(8 * stage.sum(0.5e6, all)));
}

// The lower bound is the larger of two: all 13.1 M dense and all 9 M expert elements in one
// collective each, or unit by unit those that fill a bucket of 1.5 M by themselves (experts,
// embedding and head). The least unit, of 0.7 M, ends the step.
TEST_CASE("gradients take no less than joined, nor than those that fill buckets by themselves") {
    DataStage stage(0);
    const Group &all = stage.groups.data_context, &replicas = stage.groups.expert_data;
    DataTimes t = stage();
    CHECK(t.elements == 13.1e6 + 9e6);
    const std::array<double, 4> flushed{stage.sum(1e6, all), stage.sum(0.7e6, all),
                                        stage.sum(5e6, all), stage.sum(4e6, all)};
    const std::array<double, 4> filled{0, stage.sum(3e6, replicas), flushed[2], flushed[3]};
    for (std::size_t k = 0; k < 4; ++k) {
        CHECK(t.flushed[k] == Approx(flushed[k]));
        CHECK(t.filled[k] == Approx(filled[k]));
    }
    const double joined = stage.sum(13.1e6, all) + stage.sum(9e6, replicas);
    CHECK(joined > 3 * filled[1] + filled[2] + filled[3]);
    CHECK(t.least_waited == Approx(joined));
    CHECK(t.least_lane == t.least_waited);
    CHECK(t.least_last == Approx(flushed[1]));
    // every unit fills a bucket: the sum of single collectives is larger
    stage.e.runtime.gradients.bucket = BucketSize(Bytes(4));
    t = stage();
    CHECK(t.least_waited ==
          Approx(2 * flushed[0] + 3 * (flushed[1] + filled[1]) + flushed[2] + flushed[3]));
    stage.units[1] = 0;
    CHECK(stage().least_last == Approx(flushed[0]));
    stage.weights[2].trained = {0.4e6, 0};  // a small embedding
    CHECK(stage().least_last == Approx(stage.sum(0.4e6, all)));
    stage.units[at(UnitKind::embedding)] = 0;
    CHECK(stage().least_last == Approx(flushed[0]));
}

// One rank updates its shards: an eighth of 13.1 M and half of 9 M. zero 2 exchanges in each of
// three micro-batches.
TEST_CASE(
    "under zero 1 and 2 gradients are scattered and parameters gathered, unit by unit or joined") {
    for (const int zero : {1, 2}) {
        CAPTURE(zero);
        DataStage stage(zero);
        const Group &all = stage.groups.data_context, &replicas = stage.groups.expert_data;
        const int rounds = zero == 2 ? 3 : 1;
        const DataTimes t = stage();
        CHECK(t.exchanged[1] == Approx(stage.scatter(0.7e6, all) + stage.scatter(3e6, replicas)));
        const std::array<double, 4> gathered{stage.gather(1e6, all),
                                             stage.gather(0.7e6, all) + stage.gather(3e6, replicas),
                                             stage.gather(5e6, all), stage.gather(4e6, all)};
        for (std::size_t k = 0; k < 4; ++k) CHECK(t.gathered[k] == Approx(gathered[k]));
        CHECK(t.parameters ==
              Approx(2 * gathered[0] + 3 * gathered[1] + gathered[2] + gathered[3]));
        CHECK(t.parameters_joined ==
              Approx(stage.gather(13.1e6, all) + stage.gather(9e6, replicas)));
        CHECK(t.least_waited ==
              Approx(stage.scatter(rounds * 13.1e6, all) + stage.scatter(rounds * 9e6, replicas)));
        CHECK(t.least_lane == t.least_waited);
        const UpdatePasses passes = update_passes(stage.e, 13.1e6 / 8 + 9e6 / 2, 22.1e6);
        CHECK(t.update == Approx(stage.pass(passes.optimizer) + stage.pass(passes.zero_gradients)));
        double norm = 0;
        for (int i = 0; i < passes.norm_passes; ++i)
            norm += stage.pass(passes.norm[static_cast<std::size_t>(i)]);
        CHECK(norm > 0);
        CHECK(t.norm == Approx(norm));
        CHECK(t.elements == Approx(13.1e6 / 8 + 9e6 / 2));
    }
}

// Shards over four ranks, two copies: a rank's quarter is summed over both copies. Experts are
// spread over four ranks, so each rank of a copy holds its expert whole, and its gradients are
// summed over both copies. Every unit is exchanged by itself in each of three micro-batches, and
// its parameters are gathered twice.
TEST_CASE("under zero 3 units are scattered within a copy, summed over copies and gathered twice") {
    DataStage stage(3);
    const Group &copy = stage.groups.shard, &copies = stage.groups.shard_replicas,
                &replicas = stage.groups.expert_data;
    REQUIRE(replicas.size() == 2);
    REQUIRE(copy.size() == 4);
    REQUIRE(copies.size() == 2);
    const auto exchanged = [&](double dense, double experts) {
        return stage.scatter(dense, copy) + stage.sum(dense / 4, copies) +
               (experts > 0 ? stage.sum(experts, replicas) : 0);
    };
    const auto gathered = [&](double dense, double) { return stage.gather(dense, copy); };
    DataTimes t = stage();
    const double gradients =
        2 * exchanged(1e6, 0) + 3 * exchanged(0.7e6, 3e6) + exchanged(5e6, 0) + exchanged(4e6, 0);
    CHECK(t.gradients == Approx(gradients));
    CHECK(t.last_bucket == Approx(exchanged(5e6, 0)));
    CHECK(t.first_layers == 1);
    CHECK(t.gathered[1] == Approx(gathered(0.7e6, 3e6)));
    CHECK(t.parameters_joined == 0);
    CHECK(t.least_waited == Approx(3 * gradients));
    CHECK(t.least_lane ==
          Approx(3 * gradients + 3 * 2 *
                                     (2 * gathered(1e6, 0) + 3 * gathered(0.7e6, 3e6) +
                                      gathered(5e6, 0) + gathered(4e6, 0))));
    CHECK(t.least_last == Approx(exchanged(0.7e6, 0)));
    const UpdatePasses passes = update_passes(stage.e, 13.1e6 / 4 + 9e6, 22.1e6);
    CHECK(t.update == Approx(stage.pass(passes.optimizer) + stage.pass(passes.zero_gradients)));
    stage.units = {2, 3, 0, 0};
    CHECK(stage().last_bucket == Approx(exchanged(1e6, 0)));
    stage.units = {0, 3, 0, 0};
    CHECK(stage().last_bucket == Approx(exchanged(0.7e6, 3e6)));
}

// One rank exchanges nothing, and without an optimizer nothing is updated.
TEST_CASE("alone and without an optimizer nothing comes after the backward") {
    DataStage stage(0);
    stage.e.parallelism.dp = stage.e.parallelism.ep = 1;
    stage.e.workload.optimizer = Optimizer::none;
    stage.data->bind(rank_groups(stage.e.parallelism));
    const DataTimes t = stage();
    CHECK(t.gradients == 0);
    CHECK(t.last_bucket == 0);
    CHECK(t.least_waited == 0);
    CHECK(t.norm == 0);
    CHECK(t.update == 0);
    CHECK(t.elements == 22.1e6);
}
