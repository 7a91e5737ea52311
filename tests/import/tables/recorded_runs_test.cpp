// The shipped cluster against the shipped recorded runs. The cluster was fitted to these files: the
// bars say that the shipped state still holds, the cluster file's leave-one-out errors say how well
// it predicts.
#include <algorithm>
#include <cmath>
#include <map>

#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/input/presets.h"
#include "model/records/measurements.h"
#include "sim/predict.h"

using namespace stepcast;

namespace {

std::string folder() { return home_folder() + "/calibrate/measurements/"; }

// The imported median of (system, experts, phase, rank) in a shipped file.
double measured(const std::string& file, const std::string& system, int experts,
                const std::string& phase, int rank = -1) {
    static std::map<std::string, std::vector<Sample>> files;
    if (!files.contains(file)) files[file] = read_measurements(folder() + file);
    for (const Sample& s : files[file])
        if (s.system == system && s.experts == experts && s.phase == phase && s.rank == rank)
            return s.value;
    FAIL("no " << phase << " of " << system << " " << experts << " in " << file);
    return 0;
}

Forecast predicted(const std::string& system, std::vector<Override> overrides) {
    return predict(read_experiment("moe_layer_" + system, overrides));
}

Forecast unknown_routing(const std::string& system, int experts) {
    return predicted(system, {{"workload.moe.experts", std::to_string(experts)},
                              {"routing.kind", "random-gate"},
                              {"routing.draws", "200"}});
}

}  // namespace

TEST_CASE(
    "with recorded routing the step is within 4 %, forward and backward within 6 %, AG within 3 % "
    "on every rank") {
    for (const int experts : {64, 256}) {
        const Forecast f = predicted(
            "mix_moe",
            {{"routing.file", folder() + "routing/mix_moe_" + std::to_string(experts) + ".csv"}});
        const auto error = [&](const char* phase, Seconds time) {
            return std::abs(time.si() / measured("moe_phase_trace.csv", "mix_moe", experts, phase) -
                            1);
        };
        CHECK(error("step", f.phases.step) < 0.04);
        CHECK(error("forward", f.phases.forward) < 0.06);
        CHECK(error("backward", f.phases.backward) < 0.06);
        int kernels = 0;
        for (const KernelTime& k : f.kernels) {
            if (k.name != "AG") continue;
            const std::string phase = k.phase == Phase::forward ? "AG.forward" : "AG.backward";
            CHECK(std::abs(k.time.si() /
                               measured("moe_phase_trace.csv", "mix_moe", experts, phase, k.rank) -
                           1) < 0.03);
            ++kernels;
        }
        CHECK(kernels == 8);
    }
}

TEST_CASE(
    "with unknown routing at least 7 of the 9 recorded medians lie inside intervals that are not "
    "too wide") {
    int inside = 0;
    for (const std::string system : {"fast_moe", "faster_moe", "mix_moe"}) {
        for (const int experts : {16, 64, 256}) {
            const Forecast f = unknown_routing(system, experts);
            const Seconds step(measured("moe_layer_bench.csv", system, experts, "step"));
            inside += f.step.p10 <= step && step <= f.step.p90;
            const double over_routings = std::exp(f.doubts.draws_faster + f.doubts.draws_slower);
            if (experts <= 64) CHECK(over_routings <= 1.45);
            if (experts > 64 && system == "fast_moe") CHECK(over_routings <= 1.25);
        }
    }
    CHECK(inside >= 7);
}

TEST_CASE(
    "the systems rank as recorded: mix_moe first, fast_moe before faster_moe with few experts and "
    "after it with many") {
    std::map<std::pair<std::string, int>, Seconds> p50;
    for (const std::string system : {"fast_moe", "faster_moe", "mix_moe"})
        for (const int experts : {16, 64, 256})
            p50[{system, experts}] = unknown_routing(system, experts).step.p50;
    for (const int experts : {16, 64, 256})
        CHECK(p50[{"mix_moe", experts}] <
              std::min(p50[{"fast_moe", experts}], p50[{"faster_moe", experts}]));
    CHECK(p50[{"fast_moe", 16}] < p50[{"faster_moe", 16}]);
    CHECK(p50[{"fast_moe", 256}] > p50[{"faster_moe", 256}]);
}
