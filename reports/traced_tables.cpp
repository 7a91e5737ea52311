#include "reports/tables.h"

#include <fmt/format.h>

#include "reports/text.h"

namespace stepcast {
namespace {

std::string error_text(Seconds predicted, Seconds measured) {
    return measured > Seconds(0) ? signed_percent_text(predicted / measured - 1) : "-";
}

}  // namespace

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
