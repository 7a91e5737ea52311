#include "reports/diagnosis.h"

#include <algorithm>
#include <ranges>

#include <fmt/format.h>

#include "model/base/joined.h"
#include "model/base/lines.h"
#include "model/base/numbers.h"
#include "model/base/whole_files.h"
#include "reports/json_parts.h"

namespace stepcast {
namespace {

constexpr std::size_t most_causes = 6, most_alike = 4;
using enum Diagnosis::Verdict;

// Whose evidence is told, and between which the test decides.
std::size_t told(const Diagnosis& d) {
    if (d.verdict == nothing_wrong || d.causes.empty()) return 0;
    if (d.verdict == too_fast && d.causes.front().costs > Seconds(0)) return 0;
    const auto suspected =
        std::ranges::count_if(d.causes, [](const SuspectedCause& s) { return !s.stated; });
    return std::min<std::size_t>(2, as_index(suspected));
}

Table causes_table(const Diagnosis& d) {
    Table table{
        .name = "",
        .columns = {
            {"cause", 34, true}, {"probability"}, {"costs"}, {"without it"}, {"in", 0, true}}};
    for (const SuspectedCause& s : d.causes) {
        if (s.stated || table.rows.size() == most_causes) continue;
        table.rows.push_back({{s.name},
                              percent_cell(s.probability),
                              time_cell(s.costs),
                              time_cell(s.without),
                              {s.in_some_steps ? "some steps" : "every step"}});
    }
    if (d.verdict != nothing_wrong || d.probability_of_nothing > 0.01)
        table.rows.push_back({{"nothing: such runs are like that"},
                              percent_cell(d.probability_of_nothing),
                              time_cell(Seconds(0)),
                              time_cell(d.pattern.steps > 0 ? d.pattern.quiet : d.measured),
                              {"every step"}});
    return table;
}

// What speaks for a cause and what against it: beyond a factor of 1.6 in the likelihood.
std::vector<std::string> evidence_of(const SuspectedCause& s) {
    constexpr double speaks = 0.5;
    std::vector<std::string> lines;
    for (const bool is_for : {true, false})
        for (const Witness& w : s.witnesses)
            if ((is_for && w.favours > speaks) || (!is_for && w.favours < -speaks))
                add_line(lines, "{} {}: {}", is_for ? "for:" : "against:", w.what, w.found);
    if (lines.empty())
        lines.emplace_back("nothing that was measured is evidence for or against it");
    return lines;
}

// The cheaper test of the first two.
const SuspectedCause* tested(const Diagnosis& d) {
    const SuspectedCause* best = nullptr;
    for (std::size_t i = 0; i < told(d); ++i)
        if (!d.causes[i].test.empty() && (!best || d.causes[i].minutes < best->minutes))
            best = &d.causes[i];
    return best;
}

std::string pattern_sentence(const StepPattern& p) {
    if (p.steps == 0) return "";
    std::string text =
        fmt::format("single steps: {}, the quiet ones take {}", p.steps, time_text(p.quiet));
    if (p.slow_share > 0) {
        text += fmt::format(", {} are slow", percent_text(p.slow_share));
        if (p.regular) text += fmt::format(", every {:.0f} steps", p.every);
        text += fmt::format("; together they lose {}", time_text(p.quiet * p.lost));
    }
    return text;
}

// What the configuration states and pays for, which the forecast has: no part of the gap.
std::string stated_sentence(const Diagnosis& d) {
    std::string text;
    for (const SuspectedCause& s : d.causes)
        if (s.stated)
            text += fmt::format("{}{} costs {} ({})", text.empty() ? "" : "; ", s.name,
                                time_text(s.costs), s.remedy);
    return text.empty() ? "" : "the configuration itself: " + text;
}

std::string gap_sentence(const Diagnosis& d) {
    return fmt::format(
        "measured {}; such a run takes {} (typical, p50), a tuned one {} (p10), a slow one {} "
        "(p90): gap {} ({})",
        time_text(d.measured), time_text(d.forecast.p50), time_text(d.forecast.p10),
        time_text(d.forecast.p90), time_text(d.measured - d.forecast.p50),
        signed_percent_text(d.measured / d.forecast.p50 - 1));
}

const char* word_of(Diagnosis::Verdict verdict) {
    switch (verdict) {
        case nothing_wrong: return "nothing_wrong";
        case likely: return "likely";
        case cannot_tell: return "cannot_tell";
        case too_fast: return "too_fast";
    }
    return "";
}

}  // namespace

std::string verdict_text(const Diagnosis& d) {
    switch (d.verdict) {
        case nothing_wrong:
            return "nothing is wrong: this configuration costs that much; another parallel "
                   "layout or setting may cost less (stepcast sweep)";
        case likely:
            if (!d.together.empty())
                return fmt::format("likely: {}, both at once", joined(d.together, " and "));
            return fmt::format("likely: {} ({} of the probability)", d.causes.front().name,
                               percent_text(d.causes.front().probability));
        case cannot_tell:
            if (d.causes.empty())
                return "cannot tell: the run is slower than its forecast, and no cause of the "
                       "list explains it";
            return fmt::format("cannot tell: {} may be why, about as likely",
                               joined(d.alike | std::views::take(most_alike), ", "));
        case too_fast: {
            std::string text =
                "faster than such a run can be: another batch, a micro-batch taken for a step, "
                "another device, or a wrong count in what was measured?";
            if (!d.causes.empty() && d.causes.front().costs < Seconds(0))
                text += " Likeliest: " + d.causes.front().name;
            return text;
        }
    }
    return "";
}

std::string diagnosis_table(const Diagnosis& d) {
    std::string text = wrapped(d.run + ": " + verdict_text(d)) + wrapped(gap_sentence(d));
    if (d.pattern.steps > 0) text += wrapped(pattern_sentence(d.pattern));
    if (const std::string stated = stated_sentence(d); !stated.empty()) text += wrapped(stated);
    const bool suspected =
        std::ranges::any_of(d.causes, [](const SuspectedCause& s) { return !s.stated; });
    if (suspected && d.verdict != nothing_wrong) text += "\n" + text_of(causes_table(d));
    for (std::size_t i = 0; i < told(d); ++i) {
        const SuspectedCause& s = d.causes[i];
        text += "\n" + wrapped(s.name + ": " + s.what);
        for (const std::string& line : evidence_of(s)) text += "  " + wrapped(line, 4);
        text += "  " + wrapped("change: " + s.remedy, 4);
    }
    if (const SuspectedCause* const s = tested(d))
        text += "\n" + wrapped(fmt::format("cheapest test ({:.0f} min), of {}: {}", s->minutes,
                                           s->name, s->test));
    for (const std::string& note : d.notes) text += wrapped("note: " + note);
    return text;
}

std::string to_json(const Diagnosis& d) {
    using json::Json;
    const StepPattern& p = d.pattern;
    const auto cause = [](const SuspectedCause& s) {
        return Json{{"name", s.name},
                    {"what", s.what},
                    {"probability", s.probability},
                    {"costs_s", s.costs},
                    {"step_without_s", s.without},
                    {"severity", s.severity},
                    {"in_some_steps", s.in_some_steps},
                    {"stated", s.stated},
                    {"evidence", json::list(s.witnesses,
                                            [](const Witness& w) {
                                                return Json{{"what", w.what},
                                                            {"found", w.found},
                                                            {"log_likelihood_ratio", w.favours}};
                                            })},
                    {"test", s.test},
                    {"test_minutes", s.minutes},
                    {"change", s.remedy}};
    };
    return json::text_of({{"run", d.run},
                          {"verdict", word_of(d.verdict)},
                          {"answer", verdict_text(d)},
                          {"measured_s", d.measured},
                          {"forecast", json::interval(d.forecast)},
                          {"probability_nothing_is_wrong", d.probability_of_nothing},
                          {"probability_no_slow_steps", d.probability_of_no_pattern},
                          {"steps", p.steps == 0 ? Json(nullptr)
                                                 : Json{{"count", p.steps},
                                                        {"quiet_s", p.quiet},
                                                        {"slow_share", p.slow_share},
                                                        {"lost_share", p.lost},
                                                        {"regular", p.regular},
                                                        {"every", p.every}}},
                          {"alike", d.alike},
                          {"together", d.together},
                          {"causes", json::list(d.causes, cause)},
                          {"notes", d.notes}});
}

void write_diagnosis(const std::string& folder, const Diagnosis& d,
                     const std::vector<Fact>& origin) {
    Page page{.title = d.run,
              .question = "Why does this run take so long?",
              .answer = verdict_text(d),
              .answer_note = gap_sentence(d)};
    PageSection causes{.title = "Causes", .tables = {causes_table(d)}};
    if (d.pattern.steps > 0) causes.paragraphs = {pattern_sentence(d.pattern)};
    if (const std::string stated = stated_sentence(d); !stated.empty())
        causes.paragraphs.push_back(stated);
    page.sections.push_back(std::move(causes));
    for (std::size_t i = 0; i < told(d); ++i) {
        const SuspectedCause& s = d.causes[i];
        std::vector<std::string> lines = evidence_of(s);
        lines.push_back("change: " + s.remedy);
        if (!s.test.empty()) lines.push_back("test: " + s.test);
        page.sections.push_back({.title = s.name, .paragraphs = {s.what}, .sentences = lines});
    }
    page.warnings = d.notes;
    page.provenance = origin;
    write_page(folder, page);
    write_whole({{folder + "/summary.md", markdown_of(page)}});
}

}  // namespace stepcast
