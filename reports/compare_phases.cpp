// The times of a recorded run next to its step, against what was predicted for them.
#include <algorithm>
#include <map>

#include "model/files/plain_text.h"
#include "reports/compare.h"

namespace stepcast {
namespace {

std::optional<Seconds> of_phase(const Forecast& f, std::string_view name) {
    if (name == "forward") return f.forward.p50;
    if (name == "backward") return f.backward.p50;
    if (name == "gradient_sync") return f.gradient_sync.p50;
    if (name == "optimizer") return f.optimizer.p50;
    return std::nullopt;
}

// "lm_head.forward" is the kernels of that name in that phase, "lm_head" those of all phases.
struct KernelName {
    std::string kernel;
    std::optional<Phase> phase;
};
KernelName kernel_name(const std::string& name) {
    for (const Phase phase : {Phase::forward, Phase::backward, Phase::gradient_sync, Phase::optimizer}) {
        const std::string ending = "." + std::string(to_string(phase));
        if (name.ends_with(ending)) return {name.substr(0, name.size() - ending.size()), phase};
    }
    return {name, std::nullopt};
}

// Of one rank, or (-1) of the rank that takes longest.
std::optional<Seconds> of_kernels(const Forecast& f, const Recorded& recorded, const MeasuredPhase& measured) {
    const KernelName wanted = kernel_name(measured.name);
    const std::vector<std::string> names =
        wanted.kernel == "timed" ? words_of(recorded.timed) : std::vector<std::string>{wanted.kernel};
    std::map<int, Seconds> by_rank;
    for (const KernelTime& k : f.kernels)
        if ((!wanted.phase || k.phase == *wanted.phase) && (measured.rank < 0 || k.rank == measured.rank) &&
            std::find(names.begin(), names.end(), k.name) != names.end())
            by_rank[k.rank] += k.time;
    std::optional<Seconds> longest;
    for (const auto& [rank, time] : by_rank) longest = std::max(longest.value_or(time), time);
    return longest;
}

}  // namespace

Seconds predicted_backward(const Comparison& c) {
    Seconds sum;
    for (const std::string& name : words_of(c.what.experiment.recorded.backward))
        if (const auto time = of_phase(*c.forecast, name)) sum += *time;
    return sum;
}

std::vector<PhaseComparison> phase_comparisons(const Comparison& c) {
    std::vector<PhaseComparison> found;
    if (!c.forecast) return found;
    for (const MeasuredPhase& measured : c.what.measured_phases) {
        auto predicted = measured.rank < 0 ? of_phase(*c.forecast, measured.name) : std::nullopt;
        if (!predicted) predicted = of_kernels(*c.forecast, c.what.experiment.recorded, measured);
        if (predicted) found.push_back({measured.name, measured.rank, measured.time, *predicted});
    }
    return found;
}

std::optional<double> series_inside(const Comparison& c) {
    if (!c.forecast || c.what.recorded_steps.empty()) return std::nullopt;
    const Interval& step = c.forecast->step;
    const auto inside = std::count_if(c.what.recorded_steps.begin(), c.what.recorded_steps.end(),
                                      [&](Seconds s) { return step.p10 <= s && s <= step.p90; });
    return static_cast<double>(inside) / static_cast<double>(c.what.recorded_steps.size());
}

}  // namespace stepcast
