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
    text += fmt::format("{:<34}  {:>11}  {:>11}  {:>8}  {:>12}\n", "kind, phase (slowest rank)", "measured",
                        "predicted", "error", "of the step");
    for (const KindError& k : a.kinds)
        text +=
            fmt::format("{:<34}  {:>11}  {:>11}  {:>8}  {:>12}\n", fmt::format("{}, {}", k.kind, to_string(k.phase)),
                        time_text(k.measured), time_text(k.predicted),
                        k.measured > Seconds(0) ? signed_percent_text(k.predicted / k.measured - 1) : "-",
                        signed_percent_text(k.effect / a.measured));
    return text;
}

}  // namespace stepcast
