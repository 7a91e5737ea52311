#include "reports/sweep_page.h"

#include <algorithm>

#include <fmt/format.h>

#include "model/base/numbers.h"
#include "reports/forecast_tables.h"
#include "reports/step_page.h"
#include "reports/sweep_json.h"
#include "reports/sweep_plots.h"
#include "reports/sweep_tables.h"

namespace stepcast {
namespace {

// "tp = 4, pp = 8", with only the last part of each key.
std::string settings_text(const Settings& settings) {
    std::string text;
    for (const auto& [key, value] : settings)
        text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", short_key(key), value);
    return text;
}

std::string question_of(const SweepAnswer& r) {
    static constexpr const char* words[] = {"takes the shortest step",
                                            "trains most tokens a second",
                                            "makes the cheapest tokens", "takes least memory"};
    const auto word = [](Objective o) { return words[as_index(o)]; };
    const std::string what =
        r.second ? fmt::format("{} and which {}", word(r.objective), word(*r.second))
                 : word(r.objective);
    return fmt::format("Which configuration of {} on {} {}?", r.experiment, r.cluster, what);
}

// How far behind the second is, and whether it is distinguishable from the first.
Fact runner_up(const SweepAnswer& r) {
    const auto alike = std::ranges::count_if(
        r.best, [](const SweepRow& row) { return row.behind && !row.behind->distinguishable; });
    if (alike > 0)
        return {"Not distinguishable from the first",
                fmt::format("{} of the {} below: measured, one of them may be faster", alike,
                            r.best.size()),
                Tone::doubt};
    const double gap = r.best[1].step / r.best[0].step - 1;
    const std::string next =
        fmt::format("the second's step is {} of this one's", signed_percent_text(gap));
    if (std::abs(gap) < 0.03)
        return {"How close the next one is",
                next + ": less than the model's own error on unseen runs, so measure both",
                Tone::doubt};
    return {"How close the next one is", next};
}

void add_answer(Page& page, const SweepAnswer& r) {
    const SweepRow& best = r.best.front();
    page.answer = time_text(best.step);
    page.answer_note = "a step; " + interval_text(best.forecast);
    page.facts.push_back({"The configuration", settings_text(best.settings)});
    if (best.campaign) page.facts.push_back(training_fact(*best.campaign));
    for (Fact& fact : facts_of(best.forecast)) page.facts.push_back(std::move(fact));
    if (r.best.size() > 1 && !r.second) page.facts.push_back(runner_up(r));
    page.facts.push_back({"Proof", proof_text(r), r.broken_bounds == 0 ? Tone::good : Tone::bad});
}

void add_tables(Page& page, const SweepAnswer& r) {
    PageSection best{
        .title = r.second ? "The Pareto front" : fmt::format("The best {}", r.best.size()),
        .tables = {rows_table(r, r.best)}};
    if (std::string open = sweep_doubts(r); !open.empty())
        best.sentences.push_back(std::move(open));
    if (std::string within = within_text(r); !within.empty())
        best.paragraphs.push_back(std::move(within));
    best.sentences.push_back(proof_text(r));
    for (const std::string& where : r.where) best.sentences.push_back("only where " + where);
    page.sections.push_back(std::move(best));
    page.sections.push_back({.title = "The search in pictures"});
    if (!r.scaling.empty())
        page.sections.push_back(
            {.title = "The best of each number of GPUs", .tables = {rows_table(r, r.scaling)}});
    if (!r.of_each.empty())
        page.sections.push_back(
            {.title = "The best of each " + each_of_text(r), .tables = {rows_table(r, r.of_each)}});
    page.sections.push_back({.title = "What was searched",
                             .listing = sweep_counts(r) + campaign_text(r),
                             .is_folded = true});
}

}  // namespace

Page sweep_page(const SweepAnswer& r, const std::vector<Fact>& origin) {
    Page page{.title = sweep_title(r), .question = question_of(r)};
    if (!r.best.empty()) {
        add_answer(page, r);
        page.warnings = plain_warnings(r.best.front().forecast.notes);
    }
    page.map = map_json(r);
    add_tables(page, r);
    page.provenance = origin;
    return page;
}

void write_sweep(const std::string& folder, const SweepAnswer& r, const std::vector<Fact>& origin) {
    Page page = sweep_page(r, origin);
    write_whole({{folder + "/top.csv", top_csv(r)}});
    write_with_plots(
        folder, page, [&] { page.sections[1].plots = plot_sweep(r, folder); },
        [&](const Page& whole) {
            write_whole({{folder + "/summary.md",
                          markdown_of(Page{.title = whole.title, .sections = whole.sections})}});
        });
}

}  // namespace stepcast
