#include "measured/medians.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "model/base/lists.h"
#include "model/base/numbers.h"

namespace stepcast {
namespace {

// The samples that count: the accepted ones, or all if none was accepted.
std::vector<std::size_t> counted(const Measurement& m) {
    std::vector<std::size_t> samples;
    const bool none = std::ranges::none_of(m.steps, &MeasuredStep::accepted);
    for (const std::size_t i : indices_of(m.steps))
        if (none || m.steps[i].accepted) samples.push_back(i);
    if (samples.empty()) throw std::logic_error("measurement: no samples");
    return samples;
}

}  // namespace

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

double quantile(std::vector<double> values, double q) {
    if (values.empty() || !(q >= 0 && q <= 1))
        throw std::logic_error("quantile: no values, or q outside 0..1");
    std::sort(values.begin(), values.end());
    const double at = q * real(values.size() - 1);
    const auto below = static_cast<std::size_t>(std::floor(at));
    const auto above = std::min(below + 1, values.size() - 1);
    return values[below] + (at - real(below)) * (values[above] - values[below]);
}

StepTimes median_times(const Measurement& m) {
    const std::vector<std::size_t> samples = counted(m);
    const auto part = [&](Seconds StepTimes::*time) {
        std::vector<double> values;
        for (const std::size_t i : samples) values.push_back((m.steps[i].times.*time).si());
        return Seconds(median(values));
    };
    return {part(&StepTimes::step), part(&StepTimes::forward), part(&StepTimes::backward),
            part(&StepTimes::gradient_sync), part(&StepTimes::optimizer)};
}

std::vector<Seconds> median_durations(const TaskGraph& graph, const Measurement& m) {
    const std::vector<std::size_t> samples = counted(m);
    std::vector<std::vector<double>> lengths(graph.size());
    for (const std::size_t i : samples) {
        std::vector<double> longest(graph.size());
        for (const Span& span : m.traces.at(i).spans)
            longest[span.task] = std::max(longest[span.task], (span.finish - span.start).si());
        for (const std::size_t t : indices_of(longest)) lengths[t].push_back(longest[t]);
    }
    std::vector<Seconds> medians;
    for (const auto& values : lengths) medians.emplace_back(median(values));
    return medians;
}

}  // namespace stepcast
