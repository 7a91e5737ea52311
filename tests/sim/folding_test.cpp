#include <catch2/catch.hpp>

#include "model/rank_groups.h"
#include "model/runtime_rules.h"
#include "model/step.h"
#include "model/transformer/step.h"
#include "sim/bounds/bounds.h"
#include "sim/engine/simulate.h"
#include "sim/predict.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

StepTimes times_of(const Experiment& e, const Routing& routing, Folding folding, int& ranks) {
    const TaskGraph graph = build_transformer_step(e, routing, folding);
    ranks = graph.rank_count();
    Timeline timeline;
    run(graph, price(graph, e.cluster), e.cluster.interference, timeline);
    return step_times(graph, timeline, reporting_rank(graph));
}

// Sets as many nodes of four ranks as the split needs.
Experiment sized(Experiment e) {
    const Parallelism& p = e.parallelism;
    const int ranks = p.dp * p.tp * p.pp * p.cp;
    e.cluster.gpus_per_node = std::min(4, ranks);
    e.cluster.nodes = std::max(1, ranks / 4);
    return e;
}

void check_folds(const Experiment& experiment, const Routing& routing, int ranks) {
    const Experiment e = sized(experiment);
    int folded_ranks = 0, all_ranks = 0;
    const StepTimes folded = times_of(e, routing, Folding::automatic, folded_ranks);
    const StepTimes whole = times_of(e, routing, Folding::never, all_ranks);
    CHECK(folded_ranks == ranks);
    CHECK(all_ranks == rank_count(e.cluster));
    CHECK(folded.step.si() == Approx(whole.step.si()).epsilon(1e-12));
    CHECK(folded.forward.si() == Approx(whole.forward.si()).epsilon(1e-12));
    CHECK(folded.backward.si() == Approx(whole.backward.si()).epsilon(1e-12));
    CHECK(folded.step > Seconds(0));
}
void check_folds(const Experiment& e) { check_folds(e, {}, e.parallelism.pp); }

}  // namespace

TEST_CASE("folded equals unfolded under data parallelism and every ZeRO stage") {
    Experiment e = small_gpt();
    e.parallelism.dp = 8;
    e.parallelism.global_batch = 16;
    e.runtime.gradients.bucket = BucketSize(Bytes(1e5));
    for (const int zero : {0, 1, 2, 3})
        for (const bool overlap : {true, false}) {
            e.parallelism.zero = zero;
            e.runtime.exchanges.gradients =
                overlap ? GradientOverlap::always : GradientOverlap::never;
            e.runtime.exchanges.parameters = overlap;
            check_folds(e);
        }
    e.parallelism.zero = 3;
    e.parallelism.shard = 4;
    check_folds(e);
    // With experts: at ep = 2 two of an expert's replicas shard it; at ep = 4 each rank holds its
    // own whole and the two copies are summed.
    e.workload.moe.experts = 4;
    e.workload.moe.top_k = 2;
    e.cluster.nodes = 2;
    for (const int ep : {2, 4}) {
        e.parallelism.ep = ep;
        check_folds(e);
        CHECK(StepBounds(e)(plan_of(e)).lower <= predict(e).step.p50 * (1 + 1e-9));
    }
}

TEST_CASE("folded equals unfolded under tensor, sequence and context parallelism") {
    Experiment e = small_gpt();
    e.parallelism.tp = 4;
    e.parallelism.dp = 2;
    for (const bool sequence : {false, true})
        for (const bool overlap : {false, true}) {
            e.parallelism.sequence_parallel = sequence;
            e.runtime.exchanges.tensor = overlap ? TensorOverlap::always : TensorOverlap::never;
            e.runtime.exchanges.weight_gradient = overlap;
            check_folds(e);
        }
    e.parallelism.cp = 2;
    e.runtime.attention = AttentionKind::flash;
    for (const ContextExchange exchange : {ContextExchange::ring, ContextExchange::all_gather}) {
        e.runtime.context_exchange = exchange;
        check_folds(e);
    }
}

TEST_CASE("folded equals unfolded under every pipeline schedule, within and across nodes") {
    Experiment e = small_gpt();
    e.workload.layers = 8;
    e.parallelism.pp = 4;
    e.parallelism.global_batch = 8;
    for (const int dp : {1, 2, 4})
        for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zb_h1,
                                        Schedule::zb_v, Schedule::dualpipe}) {
            e.parallelism.dp = dp;
            e.parallelism.global_batch = 8 * dp;
            e.parallelism.schedule = schedule;
            check_folds(e);
        }
    e.parallelism.schedule = Schedule::one_f_one_b;
    e.parallelism.vp = 2;
    check_folds(e);
    e.parallelism.vp = 1;
    e.parallelism.tp = 2;  // sends are scattered and gathered again
    check_folds(e);
    e.parallelism.recompute = Recompute::full;
    e.parallelism.stage_layers = {1, 3, 3, 1};
    check_folds(e);
}

TEST_CASE("folded equals unfolded under expert parallelism") {
    Experiment e = small_moe();
    e.parallelism.dp = 8;
    for (const int ep : {1, 2, 4}) {
        e.parallelism.ep = ep;
        check_folds(e);
    }
    e.parallelism.tp = 2;
    e.parallelism.sequence_parallel = true;
    for (const bool split : {true, false}) {
        e.runtime.experts.tensor_parallel = split ? ExpertSplit::all : ExpertSplit::none;
        check_folds(e);
    }
}

// Every expert-parallel group has the same draw, so one of ep ranks a stage represents the others.
TEST_CASE("folded equals unfolded where expert-parallel groups have drawn routing") {
    Experiment e = small_moe();
    e.workload.layers = 4;
    e.parallelism.dp = 8;
    e.parallelism.global_batch = 32;
    for (const auto kind : {RoutingSpec::Kind::zipf, RoutingSpec::Kind::random_gate}) {
        e.routing.kind = kind;
        const auto check = [&] {
            check_folds(e, routing_of(sized(e)), e.parallelism.pp * e.parallelism.ep);
        };
        e.parallelism.tp = e.parallelism.cp = e.parallelism.pp = 1;
        e.parallelism.sequence_parallel = false;
        for (const int ep : {2, 4}) {
            e.parallelism.ep = ep;
            for (const int zero : {1, 3}) {
                e.parallelism.zero = zero;
                check();
            }
        }
        e.parallelism.zero = 1;
        e.parallelism.pp = 2;
        check();
        e.parallelism.cp = 2;
        e.parallelism.ep = 2;
        check();
        e.parallelism.tp = 2;
        e.parallelism.sequence_parallel = true;
        for (const ExpertSplit split : {ExpertSplit::all, ExpertSplit::none}) {
            e.runtime.experts.tensor_parallel = split;
            check();
        }
    }
}

// All slots go to the two experts of the second rank, so it computes twice as much as with balanced
// routing.
TEST_CASE(
    "skewed routing is simulated by the ranks of an expert-parallel group and costs more than "
    "balanced") {
    Experiment e = sized(small_moe());
    e.cluster.host.layer = e.cluster.host.call = Seconds(0);  // else the host sets the pace
    const Routing skewed{2, 4, {0, 0, 128, 128, 0, 0, 128, 128}, {}};
    CHECK(representatives(e, skewed) == StageRanks::expert_group);
    int ranks = 0;
    const Seconds uneven = times_of(e, skewed, Folding::automatic, ranks).step;
    CHECK(ranks == 2);
    CHECK(uneven > times_of(e, {}, Folding::automatic, ranks).step);
    CHECK(ranks == 1);
}

// Three tensor-parallel ranks on nodes of four: some groups span two nodes, others do not.
TEST_CASE("a split that lies unevenly on the nodes is not folded") {
    Experiment e = small_gpt();
    e.workload.heads = 6;
    e.workload.hidden = 96;
    e.workload.ffn = 384;
    e.parallelism.tp = 3;
    e.parallelism.dp = 4;
    e = sized(e);
    CHECK(representatives(e, {}) == StageRanks::all);
    int ranks = 0;
    times_of(e, {}, Folding::automatic, ranks);
    CHECK(ranks == 12);
}
