// Forecasts measured cases, and chooses by memory what a row leaves open (micro-batch size,
// recompute).
#include "cases/row_parts.h"

#include <algorithm>
#include <new>
#include <ranges>

#include "model/errors.h"
#include "sim/explain/explain.h"
#include "sim/predict.h"

namespace stepcast {

void predict_all(std::vector<Comparison>& comparisons, const Progress& progress) {
    for (Comparison& c : comparisons) {
        if (!c.refused_because.empty()) continue;
        if (progress) progress("predicting " + c.what.case_id);
        try {
            c.forecast = predict(c.what.experiment);
            if (!c.what.measured_durations.empty())
                c.attribution = attribute_error(c.what.experiment, c.what.measured_durations,
                                                c.what.measured_step);
        } catch (const ConfigError& error) {
            c.refused_because = error.what();
        } catch (const std::bad_alloc&) {
            c.refused_because = "its step takes more memory than this machine has";
        } catch (const std::exception& error) {  // one failed case must not lose the others
            c.forecast.reset();
            c.refused_because = std::string("a bug of stepcast: ") + error.what();
        }
    }
}

namespace {

// Memory of the rank that uses most, with the device's context; tokens are spread evenly over the
// experts.
Bytes needed(const Experiment& e) {
    const MemoryUse use = memory_use(e, {});
    return use.peak + use.overheads;
}

}  // namespace

int fitting_micro_batch(const Experiment& experiment) {
    Experiment e = experiment;
    const int sequences = e.parallelism.global_batch / e.parallelism.dp;
    for (int size = sequences; size > 1; --size) {
        if (sequences % size != 0) continue;
        e.parallelism.micro_batch = size;
        if (needed(e) <= e.cluster.gpu.memory) return size;
    }
    return 1;
}

ChosenRecompute fitting_recompute(const Experiment& experiment, double room) {
    Experiment e = experiment;
    auto& p = e.parallelism;
    const auto fits = [&](Recompute kind, int layers) {
        p.recompute = kind;
        p.recompute_layers = layers;
        return needed(e) <= room * e.cluster.gpu.memory;
    };
    if (fits(Recompute::none, 0)) return {};
    if (e.workload.attention == AttentionKind::plain && fits(Recompute::selective, 0))
        return {Recompute::selective, 0};
    // More recomputed layers never need more memory, so bisection works; a stage may have thousands
    // of layers.
    const int layers = std::max(1, e.workload.layers / p.pp);
    const auto some = std::views::iota(1, layers);
    const auto least =
        std::ranges::partition_point(some, [&](int n) { return !fits(Recompute::full, n); });
    return {Recompute::full, least == some.end() ? 0 : *least};
}

}  // namespace stepcast
