#include "reports/tables.h"

#include <fmt/format.h>

#include "model/graph/task_graph.h"
#include "reports/text.h"

namespace stepcast {
namespace {

std::string error_text(Seconds predicted, Seconds measured) {
    return measured > Seconds(0) ? signed_percent_text(predicted / measured - 1) : "-";
}

}  // namespace

std::string attribution_sentence(const ErrorAttribution& a) {
    return fmt::format("cost error {}, schedule error {}", signed_percent_text(cost_error(a)),
                       signed_percent_text(schedule_error(a)));
}

std::string attribution_table(const std::string& name, const ErrorAttribution& a) {
    std::string text =
        wrapped(fmt::format("{}: {} (with the measured duration of every task the simulated step is {}; "
                            "measured {})",
                            name, attribution_sentence(a), time_text(a.replayed), time_text(a.measured)));
    text += fmt::format("{:<34}  {:>11}  {:>11}  {:>8}  {:>12}\n", "kind, phase (slowest rank)", "measured",
                        "predicted", "error", "of the step");
    for (const KindError& k : a.kinds)
        text +=
            fmt::format("{:<34}  {:>11}  {:>11}  {:>8}  {:>12}\n", fmt::format("{}, {}", k.kind, to_string(k.phase)),
                        time_text(k.measured), time_text(k.predicted),
                        error_text(k.predicted, k.measured),
                        signed_percent_text(k.effect / a.measured));
    return text;
}

std::string traced_table(const TracedStep& step) {
    std::string text = fmt::format("{:<6}  {:>12}  {:>12}  {:>8}  {:>12}  {:>12}  {:>8}\n", "rank", "GPU, traced", "predicted",
                                   "error", "exposed", "predicted", "error");
    TracedRank sum;
    for (const TracedRank& r : step.ranks) {
        text += fmt::format("{:<6}  {:>12}  {:>12}  {:>8}  {:>12}  {:>12}  {:>8}\n", r.rank, time_text(r.measured_span),
                            time_text(r.predicted_span), error_text(r.predicted_span, r.measured_span),
                            time_text(r.measured_exposed), time_text(r.predicted_exposed),
                            error_text(r.predicted_exposed, r.measured_exposed));
        sum.measured_exposed += r.measured_exposed;
        sum.predicted_exposed += r.predicted_exposed;
    }
    if (step.ranks.size() > 1)
        text += fmt::format("{:<6}  {:>12}  {:>12}  {:>8}  {:>12}  {:>12}  {:>8}\n", "all", "", "", "", time_text(sum.measured_exposed),
                            time_text(sum.predicted_exposed), error_text(sum.predicted_exposed, sum.measured_exposed));
    for (const std::string& note : step.notes) text += note + "\n";
    return text + "\n" + attribution_table(step.name, step.error);
}

}  // namespace stepcast
