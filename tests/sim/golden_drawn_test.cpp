// Forecasts of experiments drawn from all keys that a transformer's step depends on, compared with
// a checked-in table. It shows any change of a step, a phase, a part of the breakdown, the memory
// or the closed forms by a millionth.

#include "sim/bounds/bounds.h"
#include "sim/memory/memory_use.h"
#include "sim/predict.h"
#include "tests/golden_table.h"
#include "tests/sim/drawn_experiments.h"

using namespace stepcast;

namespace {

GoldenFile::Values values_of(const Experiment& e) {
    const Forecast f = predict(e);
    const Breakdown& b = f.breakdown;
    const MemoryUse& m = f.memory;
    GoldenFile::Values values{f.step.p50.si(),
                              f.phases.forward.si(),
                              f.phases.backward.si(),
                              f.phases.gradient_sync.si(),
                              f.phases.optimizer.si(),
                              b.compute.si(),
                              b.memory.si(),
                              b.exposed_communication.si(),
                              b.bubble.si(),
                              b.imbalance.si(),
                              b.host.si(),
                              0,
                              0,
                              m.weights.si(),
                              m.gradients.si(),
                              m.optimizer.si(),
                              m.activations.si(),
                              m.buffers.si(),
                              f.tokens_per_second,
                              f.model_flops_per_gpu.si(),
                              static_cast<double>(f.tasks),
                              f.doubts.draws_faster,
                              f.doubts.draws_slower};
    if (!StepBounds::cover(e)) return values;
    const StepBound bound = StepBounds(e)(plan_of(e));
    // with several draws the memory is the fullest draw's
    if (f.draws == 1) CHECK(bound.peak.si() == Approx(fullest_memory(e).peak.si()).epsilon(1e-12));
    values[11] = bound.lower.si();
    values[12] = bound.estimate.si();
    return values;
}

}  // namespace

TEST_CASE("forecasts of drawn experiments are those of the golden table") {
    const GoldenFile golden{.name = "drawn.csv",
                            .columns = {"step_s",
                                        "forward_s",
                                        "backward_s",
                                        "gradient_sync_s",
                                        "optimizer_s",
                                        "compute_s",
                                        "memory_s",
                                        "exposed_s",
                                        "bubble_s",
                                        "imbalance_s",
                                        "host_s",
                                        "lower_s",
                                        "estimate_s",
                                        "weights_bytes",
                                        "gradients_bytes",
                                        "optimizer_bytes",
                                        "activations_bytes",
                                        "buffers_bytes",
                                        "tokens_per_s",
                                        "flops_per_gpu",
                                        "tasks",
                                        "draws_faster",
                                        "draws_slower"},
                            .times = 13,
                            .tolerance = 1e-6,
                            .least = 0.001,
                            .digits = 8};
    GoldenFile::Rows now;
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        std::string taken;
        const Experiment e = drawn_experiments::draw(seed, taken);
        CAPTURE(seed, taken);
        now[fmt::format("{:03}", seed)] = {values_of(e), taken};
    }
    golden.check(now);
}
