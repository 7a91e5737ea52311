#include "reports/tables.h"

#include <fmt/format.h>

#include "model/graph/task_graph.h"
#include "reports/text.h"

namespace stepcast {
std::string attribution_sentence(const ErrorAttribution& a) {
    return fmt::format("cost error {}, schedule error {}", signed_percent_text(cost_error(a)),
                       signed_percent_text(schedule_error(a)));
}

std::string attribution_table(const std::string& name, const ErrorAttribution& a) {
    std::string text =
        wrapped(fmt::format("{}: {} (with the measured duration of every task the simulated step is {}; "
                            "measured {})",
                            name, attribution_sentence(a), time_text(a.replayed), time_text(a.measured)));
    Table table{"", {{"kind, phase (slowest rank)", 34, true}, {"measured", 11}, {"predicted", 11}, {"error", 8}, {"of the step", 12}}, {}};
    for (const KindError& k : a.kinds)
        table.rows.push_back({{fmt::format("{}, {}", k.kind, to_string(k.phase))}, time_cell(k.measured), time_cell(k.predicted),
                              error_cell(k.predicted, k.measured), signed_percent_cell(k.effect / a.measured)});
    return text + text_of(table);
}

std::string traced_table(const TracedStep& step) {
    Table table{"", {{"rank", 6, true}, {"GPU, traced", 12}, {"predicted", 12}, {"error", 8}, {"exposed", 12}, {"predicted", 12}, {"error", 8}}, {}};
    TracedRank sum;
    for (const TracedRank& r : step.ranks) {
        table.rows.push_back({{std::to_string(r.rank)}, time_cell(r.measured_span), time_cell(r.predicted_span),
                              error_cell(r.predicted_span, r.measured_span), time_cell(r.measured_exposed),
                              time_cell(r.predicted_exposed), error_cell(r.predicted_exposed, r.measured_exposed)});
        sum.measured_exposed += r.measured_exposed;
        sum.predicted_exposed += r.predicted_exposed;
    }
    if (step.ranks.size() > 1)
        table.rows.push_back({{"all"}, {}, {}, {}, time_cell(sum.measured_exposed), time_cell(sum.predicted_exposed),
                              error_cell(sum.predicted_exposed, sum.measured_exposed)});
    std::string text = text_of(table);
    for (const std::string& note : step.notes) text += note + "\n";
    return text + "\n" + attribution_table(step.name, step.error);
}

}  // namespace stepcast
