#include "reports/gate.h"

#include <algorithm>

#include <fmt/format.h>

#include "reports/json_parts.h"
#include "reports/table.h"

namespace stepcast {
namespace {

const char* word_of(GateAnswer::Verdict verdict) {
    using enum GateAnswer::Verdict;
    return verdict == pass ? "pass" : verdict == fail ? "fail" : "cannot tell";
}

std::string power_text(const GateAnswer& a) {
    const std::string slower = percent_text(a.tolerance);
    std::string text =
        fmt::format("a run slower by {} would be seen in 90 of 100 cases", percent_text(a.seen));
    return text +
           (a.steps_for_tolerance > 0
                ? fmt::format("; by {} in {} steps", slower, a.steps_for_tolerance)
                : fmt::format("; by {} in no number of steps, since runs differ too much", slower));
}

std::string phases_text(const GateAnswer& a) {
    constexpr std::size_t most = 3;
    std::string text;
    for (std::size_t i = 0; i < std::min(most, a.phases.size()); ++i) {
        const MovedPhase& m = a.phases[i];
        text += fmt::format("{}{} {} -> {} ({})", i == 0 ? "moved most: " : ", ", m.name,
                            time_text(m.usual), time_text(m.now),
                            signed_percent_text(m.now / m.usual - 1));
    }
    return text;
}

// The history may be slow itself.
std::string forecast_text(const GateAnswer& a) {
    if (a.forecast.p50 <= Seconds(0)) return "";
    return fmt::format("such a run takes {} ({} .. {}){}", time_text(a.forecast.p50),
                       time_text(a.forecast.p10), time_text(a.forecast.p90),
                       a.level > a.forecast.p90
                           ? ": slower than its forecast allows, as stepcast diagnose explains"
                           : "");
}

}  // namespace

std::string gate_text(const GateAnswer& a) {
    std::string text =
        wrapped(fmt::format("{}: {}: {}", word_of(a.verdict), a.run, a.because)) +
        wrapped(fmt::format("{} steps at {}, {} runs before at {}; false alarms {}; {}", a.steps,
                            time_text(a.level), a.runs, time_text(a.usual),
                            percent_text(a.false_alarms), power_text(a)));
    for (const std::string& more : {phases_text(a), forecast_text(a)})
        if (!more.empty()) text += wrapped(more);
    return text;
}

std::string to_json(const GateAnswer& a) {
    return json::text_of(
        {{"verdict", word_of(a.verdict)},
         {"run", a.run},
         {"because", a.because},
         {"steps", a.steps},
         {"history_runs", a.runs},
         {"level_s", a.level},
         {"usual_s", a.usual},
         {"slower", a.slower},
         {"bound", a.bound},
         {"false_alarms", a.false_alarms},
         {"seen_at_90_percent", a.seen},
         {"tolerance", a.tolerance},
         {"phases",
          json::list(
              a.phases,
              [](const MovedPhase& m) {
                  return json::Json{{"name", m.name}, {"now_s", m.now}, {"usual_s", m.usual}};
              })},
         {"forecast",
          a.forecast.p50 > Seconds(0) ? json::interval(a.forecast) : json::Json(nullptr)},
         {"steps_for_tolerance",
          a.steps_for_tolerance > 0 ? json::Json(a.steps_for_tolerance) : json::Json(nullptr)}});
}

std::string gate_junit(const GateAnswer& a) {
    using enum GateAnswer::Verdict;
    const std::string text = html_text(a.because + "; " + power_text(a));
    const std::string inside = a.verdict == fail ? fmt::format("<failure message=\"{}\"/>", text)
                               : a.verdict == pass
                                   ? fmt::format("<system-out>{}</system-out>", text)
                                   : fmt::format("<skipped message=\"{}\"/>", text);
    return fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"stepcast gate\" tests=\"1\" "
        "failures=\"{}\" skipped=\"{}\">\n  <testcase name=\"{}\" "
        "time=\"{:.6f}\">{}</testcase>\n</testsuite>\n",
        a.verdict == fail ? 1 : 0, a.verdict == cannot_tell ? 1 : 0, html_text(a.run), a.level.si(),
        inside);
}

}  // namespace stepcast
