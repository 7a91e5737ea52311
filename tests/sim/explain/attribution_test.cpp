#include <map>

#include <catch2/catch.hpp>

#include "model/step.h"
#include "sim/costs/costs.h"
#include "sim/explain/attribution.h"
#include "tests/literals.h"
#include "tests/model/files.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

// One rank, two dense layers: a chain on one lane, so that the step is the sum of its tasks.
Experiment chain_of_layers() {
    Experiment e;
    e.name = "chain";
    e.workload.kind = Workload::Kind::mlp;
    e.workload.layers = 2;
    e.workload.hidden = 64;
    e.workload.ffn = 128;
    e.workload.seq = 32;
    e.workload.moe.experts = 0;
    e.cluster.gpu.sms = 4;
    e.cluster.gpu.peaks[Dtype::fp16] = 1_TFLOPps;
    e.cluster.gpu.memory_bandwidth = 100_GBps;
    e.cluster.host.call = 0_s;
    return e;
}

std::vector<Seconds> predicted_durations(const Experiment& e) {
    return price(build_step(e, routing_of(e), Folding::never), e.cluster).duration;
}

Seconds sum(const std::vector<Seconds>& durations) {
    Seconds total;
    for (const Seconds d : durations) total += d;
    return total;
}

}  // namespace

TEST_CASE("tasks that take what the model says leave only the schedule to blame") {
    const Experiment e = chain_of_layers();
    const std::vector<Seconds> durations = predicted_durations(e);
    const Seconds step = sum(durations);
    // The run took a quarter longer than its tasks: it contained waits that the engine does not
    // know.
    const ErrorAttribution a = attribute_error(e, durations, 1.25 * step);
    CHECK(a.predicted == a.replayed);
    CHECK(cost_error(a) == 0);
    CHECK(schedule_error(a) == Approx(1 / 1.25 - 1));
    for (const KindError& kind : a.kinds) CHECK(kind.effect == Seconds(0));
}

// Forward GEMMs (two per layer) were twice as slow as predicted, memory passes of the backward half
// as slow. The replay is the sum of the measured times; each kind's effect is what it alone would
// change, and on a chain the effects add up.
TEST_CASE("on a chain the cost error is the sum of the kinds' effects") {
    const Experiment e = chain_of_layers();
    const TaskGraph graph = build_step(e, routing_of(e), Folding::never);
    const std::vector<Seconds> predicted = predicted_durations(e);
    std::vector<Seconds> measured = predicted;
    Seconds gemms, passes;
    for (TaskId t = 0; t < graph.size(); ++t) {
        if (graph.phase(t) == Phase::forward && kind_name(graph.op(t)) == "gemm") {
            measured[t] *= 2;
            gemms += predicted[t];
        }
        if (graph.phase(t) == Phase::backward && kind_name(graph.op(t)) == "memory_pass") {
            measured[t] *= 0.5;
            passes += predicted[t];
        }
    }
    REQUIRE(gemms > passes);
    const Seconds step = sum(predicted) + gemms - 0.5 * passes;
    const ErrorAttribution a = attribute_error(e, measured, step);
    CHECK(a.replayed.si() == Approx(step.si()));
    CHECK(schedule_error(a) == Approx(0).margin(1e-12));
    CHECK(cost_error(a) == Approx((0.5 * passes - gemms) / step));
    REQUIRE(a.kinds.size() >= 2);
    CHECK(a.kinds[0].kind == "gemm");
    CHECK(a.kinds[0].phase == Phase::forward);
    CHECK(a.kinds[0].effect.si() == Approx(-gemms.si()));
    CHECK(a.kinds[0].predicted.si() == Approx(gemms.si()));
    CHECK(a.kinds[0].measured.si() == Approx(2 * gemms.si()));
    CHECK(a.kinds[1].kind == "memory_pass");
    CHECK(a.kinds[1].effect.si() == Approx(0.5 * passes.si()));
}

// Two replicas end with one all-reduce; the first takes three times as long for everything before
// it, so the errors are the first's.
TEST_CASE("errors are those of the slowest rank") {
    Experiment e = chain_of_layers();
    e.cluster.gpus_per_node = e.parallelism.dp = 2;
    e.cluster.intra.bandwidth = 100_GBps;
    const TaskGraph graph = build_step(e, routing_of(e), Folding::never);
    REQUIRE(graph.rank_count() == 2);
    const std::vector<Seconds> predicted = predicted_durations(e);
    std::vector<Seconds> measured = predicted;
    std::map<std::pair<Phase, std::string_view>, Seconds> own;
    for (TaskId t = 0; t < graph.size(); ++t) {
        const auto places = graph.places(t);
        if (places.size() == 1 && places.front().rank() == 0) measured[t] *= 3;
        if (places.front().rank() == 0)
            own[{graph.phase(t), kind_name(graph.op(t))}] += predicted[t];
    }
    const ErrorAttribution a = attribute_error(e, measured, 1_s);
    CHECK(a.replayed > a.predicted);
    CHECK(a.kinds.size() == own.size());
    for (const KindError& kind : a.kinds) {
        CAPTURE(kind.kind, static_cast<int>(kind.phase));
        const Seconds of_rank = own.at({kind.phase, kind.kind});
        CHECK(kind.predicted.si() == Approx(of_rank.si()));
        CHECK(kind.measured.si() == Approx((kind.kind == "all_reduce" ? 1 : 3) * of_rank.si()));
    }
}

TEST_CASE("a run of another number of tasks is refused") {
    CHECK(complaint([] {
              attribute_error(chain_of_layers(), std::vector<Seconds>(3), 1_s);
          }).starts_with("run of chain: 3 tasks were measured; expected the "));
}
