// The golden gate: the predictions of every shipped experiment, in a checked-in table. A change of
// the model that moves a prediction must say so: scripts/renew-golden.sh "REASON" rewrites the
// moved rows, each with its reason.
#include "measured/read.h"
#include "sim/predict.h"
#include "tests/golden_table.h"

using namespace stepcast;

// Tolerance: 0.5 %; for a time that is a small part of the step, 0.5 % of a fiftieth of the step.
TEST_CASE("predictions of the presets are those of the golden table") {
    const GoldenFile golden{.name = "presets.csv",
                            .columns = {"step_s", "forward_s", "backward_s", "gradient_sync_s",
                                        "optimizer_s", "compute_s", "memory_s", "exposed_s",
                                        "bubble_s", "imbalance_s", "host_s", "peak_bytes", "tasks"},
                            .times = 11,
                            .tolerance = 0.005,
                            .least = 0.02};
    GoldenFile::Rows now;
    for (const std::string& preset : preset_names(PresetKind::experiment)) {
        const Forecast f = predict(read_experiment(preset));
        const Breakdown& b = f.breakdown;
        now[preset].values = {f.step.p50.si(),
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
                              f.memory.peak.si(),
                              static_cast<double>(f.tasks)};
    }
    golden.check(now);
}
