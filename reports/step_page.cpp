#include "reports/pages.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "model/records/measurements.h"
#include "reports/tables.h"
#include "reports/plots.h"
#include "reports/text.h"

namespace stepcast {
namespace {

// What would shorten the step most, and what is known least.
void add_advice(Page& page, const Explanation& x) {
    const auto gain = std::ranges::min_element(x.elasticities, {}, &Elasticity::simulated);
    if (gain != x.elasticities.end() && gain->simulated < Seconds(0))
        page.facts.push_back({"What would help most", fmt::format("{:.0f} % more {} changes the step by {}", 100 * x.change, gain->key,
                                                                  signed_percent_text(gain->simulated / x.step))});
    if (!x.uncertainties.empty())
        page.facts.push_back({"Measure this next", fmt::format("{}: alone it moves the step by +- {}", x.uncertainties.front().key,
                                                               time_text(x.uncertainties.front().widening))});
}

Table phase_table(const Forecast& f) {
    Table table{"Phases", {{.name = "phase", .is_text = true}, {"time"}, {"p10 .. p90"}}, {}};
    table.rows = {{{"forward"}, time_cell(f.phases.forward), {range_text(f.forward)}},
                  {{"backward"}, time_cell(f.phases.backward), {range_text(f.backward)}},
                  {{"gradient sync"}, time_cell(f.phases.gradient_sync), {"-"}},
                  {{"optimizer"}, time_cell(f.phases.optimizer), {"-"}}};
    return table;
}

Table sample_table(const Measurement& m) {
    Table table{"", {{"step"}, {"whole"}, {"forward"}, {"backward"}, {"gradient sync"}, {"optimizer"}, {.name = "counts", .is_text = true}}, {}};
    for (const MeasuredStep& s : m.steps)
        table.rows.push_back({count_cell(static_cast<double>(table.rows.size() + 1)), time_cell(s.times.step), time_cell(s.times.forward),
                              time_cell(s.times.backward), time_cell(s.times.gradient_sync), time_cell(s.times.optimizer),
                              {s.accepted ? "yes" : "no: the machine was busy"}});
    return table;
}

double tokens_of_step(const ForecastColumn& c) { return c.forecast.tokens_per_second * c.forecast.step.p50.si(); }

// Then a shorter step is no faster training.
bool tokens_differ(const std::vector<ForecastColumn>& columns) {
    const double first = tokens_of_step(columns.front());
    return std::ranges::any_of(columns, [&](const ForecastColumn& c) { return std::abs(tokens_of_step(c) / first - 1) > 1e-6; });
}

}  // namespace

Page forecast_page(const Experiment& e, const Forecast& f, const std::optional<Explanation>& why,
                   const std::optional<Campaign>& training) {
    Page page{.title = fmt::format("{} on {}", f.experiment, f.cluster),
              .question = fmt::format("How long does a training step of {} take on {} ranks of {}?", f.experiment,
                                      rank_count(e.cluster), f.cluster),
              .answer = time_text(f.step.p50),
              .answer_note = "a step; " + interval_text(f)};
    if (training)
        page.facts.push_back({fmt::format("Training on {} tokens", spoken_count(training->tokens)),
                              fmt::format("{}, money {}, energy at most {}", days_text(*training), money_text(*training), energy_text(*training))});
    for (Fact& fact : facts_of(f)) page.facts.push_back(std::move(fact));
    if (why) add_advice(page, *why);
    page.warnings = plain_warnings(f.notes);
    page.sections.push_back({.title = "The step over time"});
    page.sections.push_back({.title = "Where the step goes", .tables = {breakdown_table(f), phase_table(f), memory_table(f)}});
    if (why) page.sections.push_back({.title = "Why, and what would change it", .tables = explanation_tables(*why)});
    if (training) page.sections.push_back({.title = "The whole training", .listing = campaign_table(*training)});
    page.sections.push_back({.title = "Kernels", .tables = {kernel_times(f)}, .is_folded = true});
    return page;
}

Page columns_page(const std::vector<ForecastColumn>& columns) {
    const bool by_tokens = tokens_differ(columns);
    const auto time = [by_tokens](const ForecastColumn& c, Seconds of_step) { return of_step / (by_tokens ? tokens_of_step(c) : 1); };
    const auto best = std::ranges::min_element(columns, {}, [&](const ForecastColumn& c) { return time(c, c.forecast.step.p50); });
    const Forecast& f = best->forecast;
    const auto rate = [](const ForecastColumn& c) { return count_text(c.forecast.tokens_per_second) + " tokens/s"; };
    Page page{.title = fmt::format("{} steps side by side", columns.size()),
              .question = fmt::format("Which of {}{}?", columns.size() == 2 ? "the two is faster" : fmt::format("the {} is fastest", columns.size()),
                                      by_tokens ? ", token for token" : ""),
              .answer = by_tokens ? rate(*best) : time_text(f.step.p50),
              .answer_note = by_tokens ? fmt::format("with {}, {} a step; {}", best->label, time_text(f.step.p50), interval_text(f))
                                       : fmt::format("a step with {}; {}", best->label, interval_text(f))};
    page.facts = facts_of(f);
    for (const ForecastColumn& c : columns) {
        if (&c == &*best) continue;
        const bool overlap = has_spread(c.forecast.step) && time(c, c.forecast.step.p10) <= time(*best, f.step.p90);
        const double ratio = time(c, c.forecast.step.p50) / time(*best, f.step.p50);
        page.facts.push_back({c.label, (by_tokens ? fmt::format("{}: {} fewer", rate(c), percent_text(1 - 1 / ratio))
                                                  : fmt::format("{}: {} longer", time_text(c.forecast.step.p50), percent_text(ratio - 1))) +
                                           (overlap ? "; the intervals overlap: not distinguishable" : ""),
                              overlap ? Tone::doubt : Tone::plain});
        if (!c.forecast.memory.fits) page.warnings.push_back(c.label + " does not fit into memory.");
    }
    for (const ForecastColumn& c : columns)
        for (const std::string& warning : plain_warnings(c.forecast.notes)) page.warnings.push_back(c.label + ": " + warning);
    page.sections.push_back({.title = "The steps over time, on one axis"});
    page.sections.push_back({.title = "Side by side", .tables = {columns_of(columns)}});
    return page;
}

Page run_page(const Experiment& e, const Measurement& m) {
    Page page{.title = fmt::format("{} executed on {}", e.name, m.device), .question = fmt::format("How long does a step of {} take here?", e.name)};
    const auto accepted = std::ranges::count_if(m.steps, &MeasuredStep::accepted);
    if (m.steps.empty()) {
        page.answer = "no step was finished";
    } else {
        page.answer = time_text(median_times(m).step);
        std::vector<double> steps;
        for (const MeasuredStep& s : m.steps)
            if (s.accepted || accepted == 0) steps.push_back(s.times.step.si());
        const Seconds low(quantile(steps, 0.1)), high(quantile(steps, 0.9));
        page.answer_note = fmt::format("measured: median of {} steps, p10 .. p90 {}", steps.size(), range_text({high, low, high, high}));
    }
    page.facts.push_back({"Machine", fmt::format("{}, {} idle before the run", m.quiet ? "quiet" : "BUSY", percent_text(m.idle_share)),
                          m.quiet ? Tone::good : Tone::bad});
    page.facts.push_back({"Samples", fmt::format("{} accepted of {}, after {} to warm up", accepted, m.steps.size(), m.warmup),
                          accepted == 0 ? Tone::bad : Tone::plain});
    page.facts.push_back({"Its prediction", "stepcast compare FOLDER predicts this run and says how far it is off"});
    page.warnings = m.warnings;
    page.sections.push_back({.title = "Every step", .tables = {sample_table(m)}});
    page.provenance.push_back({"device", m.device});
    page.provenance.push_back({"date", m.date});
    for (const std::string& version : m.versions) page.provenance.push_back({"version", version});
    return page;
}

void write_forecast(const std::string& folder, Page page, const Gantt& gantt, const std::optional<Explanation>& why) {
    write_with_plots(folder, page, [&] {
        plot_gantts(std::span(&gantt, 1), folder + "/gantt");
        page.sections[0].plots = {"gantt.png"};
        if (!why) return;
        plot_elasticities(*why, page.title, folder + "/elasticity");
        page.sections[2].plots = {"elasticity.png"};
    });
}

void write_columns(const std::string& folder, const std::vector<ForecastColumn>& columns, const std::vector<Gantt>& gantts,
                   const std::vector<Fact>& origin) {
    Page page = columns_page(columns);
    page.provenance = origin;
    write_with_plots(folder, page, [&] {
        plot_gantts(gantts, folder + "/gantt");
        page.sections[0].plots = {"gantt.png"};
    });
}

std::vector<Fact> origin_of(const Experiment& e, const std::string& program) {
    std::vector<Fact> facts = provenance_of(e.cluster);
    for (Fact& fact : provenance_of(e.framework)) facts.push_back(std::move(fact));
    facts.push_back(program_fact(program));
    return facts;
}

}  // namespace stepcast
