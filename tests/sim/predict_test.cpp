#include <catch2/catch.hpp>

#include <algorithm>

#include "model/errors.h"
#include "model/presets.h"
#include "model/step.h"
#include "sim/predict.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

// 2 ranks, 2 experts, 4 tokens a rank, top-1, rows of 8 fp16 values: everything small enough to count by hand.
Experiment small_experiment() {
    Experiment e;
    e.name = "small";
    e.workload.hidden = 8;
    e.workload.ffn = 16;
    e.workload.seq = 4;
    e.workload.moe.experts = 2;
    e.workload.moe.top_k = 1;
    e.parallelism.dp = e.parallelism.ep = 2;
    e.cluster.gpus_per_node = 2;
    e.cluster.gpu.sms = 4;
    e.cluster.gpu.memory = Bytes(1e6);
    e.cluster.gpu.peaks[Dtype::fp16] = 1_TFLOPps;
    e.cluster.gpu.memory_bandwidth = 100_GBps;
    e.cluster.intra.bandwidth = 1_GBps;
    return e;
}

}  // namespace

TEST_CASE("one draw is the step itself: p50, mean and phases agree, and the interval holds it") {
    const Forecast f = predict(small_experiment());
    CHECK(f.step.p10 < f.step.p50);
    CHECK(f.step.p50 < f.step.p90);
    CHECK(f.step.mean == f.step.p50);
    CHECK(f.phases.step == f.step.p50);
    CHECK(f.forward.p90 / f.forward.p50 == Approx(f.step.p90 / f.step.p50));
}

TEST_CASE("noise that is common to a step moves no step, and draws of it are one draw") {
    Experiment e = small_experiment();
    const Forecast plain = predict(e);
    e.cluster.noise.step = 0.1;
    CHECK(predict(e).step.p50 == plain.step.p50);
    CHECK(predict(e).step.p90 > plain.step.p90);
    const Interval one = predict(e).step;
    e.routing.draws = 50;
    CHECK(predict(e).step.p50 == one.p50);
    CHECK(predict(e).step.p10 == one.p10);
    CHECK(predict(e).step.p90 == one.p90);
    e.cluster.noise.op = 0.1;
    const Forecast f = predict(e);
    CHECK(f.doubts.draws_slower > 0);
    CHECK(predict(e) == f);  // the same seed, the same draws
}

// What is printed and what --trace writes are one simulation: interference, shared links, the draw in the middle.
TEST_CASE("the step of every preset is the one that its trace shows") {
    for (const std::string& preset : preset_names(PresetKind::experiment)) {
        CAPTURE(preset);
        const Prediction p = predict_step(read_experiment(preset));
        const Forecast& f = p.forecast;
        CHECK(step_end(to_trace(p.graph, p.timeline)) / f.step.p50 == Approx(1).epsilon(1e-12));
        CHECK(total(f.breakdown) / f.step.p50 == Approx(1).epsilon(1e-9));
        CHECK(f.phases.step == f.step.p50);
    }
}

// Four draws of a random gate: the printed step is the second shortest, and that draw's.
TEST_CASE("the median of several draws is one of them") {
    Experiment e = small_experiment();
    e.routing.kind = RoutingSpec::Kind::random_gate;
    e.routing.draws = 4;
    std::vector<Seconds> steps;
    for (int draw = 0; draw < 4; ++draw) {
        const TaskGraph graph = build_step(e, routing_of(e, draw));
        Timeline timeline;
        run(graph, price(graph, e.cluster), e.cluster.interference, timeline);
        steps.push_back(timeline.end);
    }
    const Forecast f = predict(e);
    CHECK(steps[static_cast<std::size_t>(f.median_draw)] == f.step.p50);
    std::ranges::sort(steps);
    CHECK(f.step.p50 == steps[1]);
}

TEST_CASE("the breakdown adds up to the step") {
    for (const auto system : {MoeSystem::fast_moe, MoeSystem::faster_moe, MoeSystem::mix_moe, MoeSystem::alltoall}) {
        Experiment e = small_experiment();
        e.parallelism.moe_system = system;
        e.routing.kind = RoutingSpec::Kind::random_gate;
        const Forecast f = predict(e);
        CHECK(total(f.breakdown).si() == Approx(f.phases.step.si()));
    }
}

// One expert a rank: 2 * 8 * 16 weights + gate 8 * 2 = 272 values of 2 bytes = 544 B; the same in gradients. 4 slots
// arrive at each rank: kept 4*8 + 4*8*2 + 4 * (2*8 + 2*16) = 288 values = 576 B; buffers (4 + 4) * 8 values = 128 B.
TEST_CASE("memory counts weights, gradients, activations and buffers of the fullest rank") {
    const Experiment e = small_experiment();
    const MemoryUse use = predict(e).memory;
    CHECK(use.weights == Bytes(544));
    CHECK(use.gradients == Bytes(544));
    CHECK(use.optimizer == Bytes(0));
    CHECK(use.activations == Bytes(576));
    CHECK(use.buffers == Bytes(128));
    CHECK(use.peak == Bytes(1792));
    CHECK(use.fits);
}

TEST_CASE("what does not fit says so, exactly from one byte too little") {
    Experiment e = small_experiment();
    e.cluster.gpu.memory = Bytes(1792);
    CHECK(predict(e).memory.fits);
    e.cluster.gpu.memory = Bytes(1791);
    CHECK_FALSE(predict(e).memory.fits);
}

// 4 tokens a rank on 2 ranks = 8 tokens; each 3 * (4 * 8 * 16 + 2 * 8 * 2) = 1632 FLOP, of 2 TFLOP/s.
TEST_CASE("tokens per second and model FLOP utilization follow from the step") {
    const Forecast f = predict(small_experiment());
    CHECK(f.tokens_per_second == Approx(8 / f.step.p50.si()));
    CHECK(f.model_flops_utilization == Approx(8 * 1632.0 / f.step.p50.si() / 2e12));
}

// A dense MLP: without overlap the gradients are all-reduced after the backward, with overlap beside it.
TEST_CASE("overlapping the gradient exchange shortens an MLP's step and never its arithmetic") {
    Experiment e = small_experiment();
    e.workload.kind = Workload::Kind::mlp;
    e.workload.moe = {.experts = 0, .top_k = 2, .capacity_factor = 0, .shared_experts = 0};
    e.workload.layers = 4;
    e.parallelism.ep = 1;
    e.parallelism.bucket = Bytes(1);
    e.cluster.host.call = Seconds(0);
    const Forecast beside = predict(e);
    e.parallelism.overlap = false;
    const Forecast after = predict(e);
    CHECK(beside.step.p50 < after.step.p50);
    CHECK(beside.breakdown.compute.si() == Approx(after.breakdown.compute.si()));
    CHECK(after.phases.gradient_sync > beside.phases.gradient_sync);
}
