#include "reports/gate.h"

#include <fmt/format.h>

#include "reports/json_parts.h"
#include "reports/table.h"

namespace stepcast {
namespace {

using enum GateAnswer::Verdict;

const char* word_of(GateAnswer::Verdict verdict) {
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

}  // namespace

std::string gate_text(const GateAnswer& a) {
    return wrapped(fmt::format("{}: {}: {}", word_of(a.verdict), a.run, a.because)) +
           wrapped(fmt::format("{} steps at {}, {} runs before at {}; false alarms {}; {}", a.steps,
                               time_text(a.level), a.runs, time_text(a.usual),
                               percent_text(a.false_alarms), power_text(a)));
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
         {"steps_for_tolerance",
          a.steps_for_tolerance > 0 ? json::Json(a.steps_for_tolerance) : json::Json(nullptr)}});
}

std::string gate_junit(const GateAnswer& a) {
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
