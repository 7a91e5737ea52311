#include "model/records/measurement.h"

#include <algorithm>
#include <stdexcept>

#include "model/records/measurements.h"

namespace stepcast {
namespace {

// The samples that count: the accepted ones, or all if none was accepted.
std::vector<std::size_t> counted(const Measurement& m) {
    std::vector<std::size_t> samples;
    const bool none = std::ranges::none_of(m.steps, &MeasuredStep::accepted);
    for (std::size_t i = 0; i < m.steps.size(); ++i)
        if (none || m.steps[i].accepted) samples.push_back(i);
    if (samples.empty()) throw std::logic_error("measurement: no samples");
    return samples;
}

}  // namespace

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
        for (std::size_t t = 0; t < longest.size(); ++t) lengths[t].push_back(longest[t]);
    }
    std::vector<Seconds> medians;
    for (const auto& values : lengths) medians.emplace_back(median(values));
    return medians;
}

}  // namespace stepcast
