#include "reports/step_page.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "measured/medians.h"
#include "measured/priors.h"
#include "model/base/joined.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/records/measurements.h"
#include "reports/campaign_tables.h"
#include "reports/comparison_words.h"
#include "reports/explain_tables.h"
#include "reports/forecast_tables.h"
#include "reports/lever_tables.h"
#include "reports/memory_plots.h"
#include "reports/memory_tables.h"
#include "reports/page.h"
#include "reports/step_plots.h"
#include "sim/calibration.h"

namespace stepcast {
namespace {

// Adds what would shorten the step most, and what is known least.
void add_advice(Page& page, const Explanation& x) {
    const auto gain = std::ranges::min_element(x.elasticities, {}, &Elasticity::simulated);
    if (gain != x.elasticities.end() && gain->simulated < Seconds(0))
        page.facts.push_back(
            {"What would help most",
             fmt::format("{:.0f} % more {} shortens the step by {}", 100 * x.change, gain->key,
                         percent_text(-gain->simulated / x.step))});
    if (!x.uncertainties.empty())
        page.facts.push_back(
            {"Measure this next", fmt::format("{}: its uncertainty alone moves the step by +- {}",
                                              x.uncertainties.front().key,
                                              time_text(x.uncertainties.front().widening))});
}

Table phase_table(const Forecast& f) {
    Table table{"Phases", {{.name = "phase", .is_text = true}, {"time"}, {"p10 .. p90"}}, {}};
    table.rows = {{{"forward"}, time_cell(f.phases.forward), range_cell(f.forward)},
                  {{"backward"}, time_cell(f.phases.backward), range_cell(f.backward)},
                  {{"gradient sync"}, time_cell(f.phases.gradient_sync), {"-"}},
                  {{"optimizer"}, time_cell(f.phases.optimizer), {"-"}}};
    return table;
}

Table sample_table(const Measurement& m) {
    Table table{"",
                {{"step"},
                 {"whole"},
                 {"forward"},
                 {"backward"},
                 {"gradient sync"},
                 {"optimizer"},
                 {.name = "counts", .is_text = true}},
                {}};
    for (const MeasuredStep& s : m.steps)
        table.rows.push_back({count_cell(real(table.rows.size() + 1)),
                              time_cell(s.times.step),
                              time_cell(s.times.forward),
                              time_cell(s.times.backward),
                              time_cell(s.times.gradient_sync),
                              time_cell(s.times.optimizer),
                              {s.accepted ? "yes" : "no: the machine was busy"}});
    return table;
}

// "attention, 24 tasks: own fused kernel" in two columns.
Table kernels_table(const Measurement& m) {
    Table table{
        "", {{.name = "kind of task", .is_text = true}, {.name = "ran by", .is_text = true}}, {}};
    for (const std::string& line : m.kernels) {
        const std::size_t end = line.find(": ");
        table.rows.push_back(
            {{line.substr(0, end)}, {end == line.npos ? "" : line.substr(end + 2)}});
    }
    return table;
}

double tokens_of_step(const ForecastColumn& c) {
    return c.forecast.tokens_per_second * c.forecast.step.p50.si();
}

// Whether steps have different numbers of tokens; then a shorter step is not faster training.
bool tokens_differ(const std::vector<ForecastColumn>& columns) {
    const double first = tokens_of_step(columns.front());
    return std::ranges::any_of(columns, [&](const ForecastColumn& c) {
        return std::abs(tokens_of_step(c) / first - 1) > 1e-6;
    });
}

}  // namespace

Page forecast_page(const Experiment& e, const Forecast& f, const std::optional<Explanation>& why,
                   const std::optional<Campaign>& training,
                   const std::optional<std::vector<Lever>>& levers) {
    Page page{.title = fmt::format("{} on {}", f.experiment, f.cluster),
              .question = fmt::format("How long does a training step of {} take on {} ranks of {}?",
                                      f.experiment, rank_count(e.cluster), f.cluster),
              .answer = time_text(f.step.p50),
              .answer_note = "a step; " + interval_text(f)};
    if (training) page.facts.push_back(training_fact(*training));
    for (Fact& fact : facts_of(f)) page.facts.push_back(std::move(fact));
    if (why) add_advice(page, *why);
    page.warnings = plain_warnings(f.notes);
    page.sections.push_back({.title = "The step over time"});
    page.sections.push_back({.title = "Where the step goes",
                             .tables = {breakdown_table(f), phase_table(f), memory_table(f)}});
    if (why)
        page.sections.push_back(
            {.title = "Why, and what would change it", .tables = explanation_tables(*why)});
    if (levers && !levers->empty())
        page.sections.push_back({.title = "Levers", .tables = {levers_of(*levers, f)}});
    if (training)
        page.sections.push_back(
            {.title = "The whole training", .listing = campaign_table(*training)});
    page.sections.push_back({.title = "Kernels", .tables = {kernel_times(f)}, .is_folded = true});
    return page;
}

Page columns_page(const std::vector<ForecastColumn>& columns) {
    const bool by_tokens = tokens_differ(columns);
    const auto time = [by_tokens](const ForecastColumn& c, Seconds of_step) {
        return of_step / (by_tokens ? tokens_of_step(c) : 1);
    };
    // what does not fit is no answer
    const auto best = std::ranges::min_element(columns, {}, [&](const ForecastColumn& c) {
        return std::pair(!c.forecast.memory.fits, time(c, c.forecast.step.p50));
    });
    const Forecast& f = best->forecast;
    const auto rate = [](const ForecastColumn& c) {
        return count_text(c.forecast.tokens_per_second) + " tokens/s";
    };
    Page page{.title = fmt::format("{} steps side by side", columns.size()),
              .question = fmt::format("Which of {}{}?",
                                      columns.size() == 2
                                          ? "the two is faster"
                                          : fmt::format("the {} is fastest", columns.size()),
                                      by_tokens ? ", token for token" : ""),
              .answer = by_tokens ? rate(*best) : time_text(f.step.p50),
              .answer_note =
                  by_tokens ? fmt::format("with {}, {} a step; {}", best->label,
                                          time_text(f.step.p50), interval_text(f))
                            : fmt::format("a step with {}; {}", best->label, interval_text(f))};
    page.facts = facts_of(f);
    for (const ForecastColumn& c : columns) {
        if (&c == &*best) continue;
        if (!c.forecast.memory.fits) {
            page.facts.push_back({c.label, "does not fit into memory", Tone::bad});
            page.warnings.push_back(c.label + " does not fit into memory.");
            continue;
        }
        const bool overlap =
            has_spread(c.forecast.step) && time(c, c.forecast.step.p10) <= time(*best, f.step.p90);
        const double ratio = time(c, c.forecast.step.p50) / time(*best, f.step.p50);
        page.facts.push_back(
            {c.label,
             (by_tokens ? fmt::format("{}: {} fewer", rate(c), percent_text(1 - 1 / ratio))
                        : fmt::format("{}: {} longer", time_text(c.forecast.step.p50),
                                      percent_text(ratio - 1))) +
                 (overlap ? "; the intervals overlap: not distinguishable" : ""),
             overlap ? Tone::doubt : Tone::plain});
    }
    for (const ForecastColumn& c : columns)
        for (const std::string& warning : plain_warnings(c.forecast.notes))
            page.warnings.push_back(c.label + ": " + warning);
    page.sections.push_back({.title = "The steps over time, on one axis"});
    page.sections.push_back({.title = "Side by side", .tables = {columns_of(columns)}});
    return page;
}

Page run_page(const Experiment& e, const Measurement& m) {
    Page page{.title = fmt::format("{} executed on {}", e.name, m.device),
              .question = fmt::format("How long does a step of {} take here?", e.name)};
    const auto accepted = std::ranges::count_if(m.steps, &MeasuredStep::accepted);
    if (m.steps.empty()) {
        page.answer = "no step was finished";
    } else {
        page.answer = time_text(median_times(m).step);
        std::vector<double> steps;
        for (const MeasuredStep& s : m.steps)
            if (s.accepted || accepted == 0) steps.push_back(s.times.step.si());
        const Seconds low(quantile(steps, 0.1)), high(quantile(steps, 0.9));
        page.answer_note = fmt::format("measured: median of {} steps, p10 .. p90 {}", steps.size(),
                                       range_text({high, low, high, high}));
    }
    page.facts.push_back({"Machine",
                          fmt::format("{}, {} idle before the run", m.quiet ? "quiet" : "BUSY",
                                      percent_text(m.idle_share)),
                          m.quiet ? Tone::good : Tone::bad});
    page.facts.push_back(
        {"Samples",
         fmt::format("{} accepted of {}, after {} to warm up", accepted, m.steps.size(), m.warmup),
         accepted == 0 ? Tone::bad : Tone::plain});
    page.facts.push_back(
        work_fact(sequences_of_step(e.parallelism), e.workload.seq, e.parallelism.micro_batch));
    page.facts.push_back(
        {"Its prediction", "stepcast compare FOLDER predicts this run and says how far it is off"});
    page.warnings = m.warnings;
    page.sections.push_back({.title = "Every step", .tables = {sample_table(m)}});
    if (!m.kernels.empty())
        page.sections.push_back(
            {.title = "What ran each kind of task", .tables = {kernels_table(m)}});
    page.provenance.push_back({"device", m.device});
    page.provenance.push_back({"date", m.date});
    for (const std::string& version : m.versions) page.provenance.push_back({"version", version});
    return page;
}

void write_forecast(const std::string& folder, Page page, const Gantt& gantt,
                    const std::optional<Explanation>& why,
                    const std::optional<AllocatorForecast>& memory) {
    if (memory)
        page.sections.push_back({.title = "Memory as its allocator sees it",
                                 .paragraphs = {allocator_words(*memory)},
                                 .tables = allocator_tables(*memory)});
    write_with_plots(folder, page, [&] {
        if (memory) {
            plot_memory(*memory, page.title, folder + "/memory");
            page.sections.back().plots = {"memory.png"};
        }
        plot_gantts(std::span(&gantt, 1), folder + "/gantt");
        page.sections[0].plots = {"gantt.png"};
        if (!why) return;
        plot_elasticities(*why, page.title, folder + "/elasticity");
        page.sections[2].plots = {"elasticity.png"};
    });
}

void write_columns(const std::string& folder, const std::vector<ForecastColumn>& columns,
                   const std::vector<Gantt>& gantts, const std::vector<Fact>& origin) {
    Page page = columns_page(columns);
    page.provenance = origin;
    write_with_plots(folder, page, [&] {
        plot_gantts(gantts, folder + "/gantt");
        page.sections[0].plots = {"gantt.png"};
    });
}

std::vector<Fact> origin_of(const Experiment& e, const Invocation& program) {
    std::vector<Fact> facts = provenance_of(e.cluster);
    for (Fact& fact : provenance_of(e.framework)) facts.push_back(std::move(fact));
    add_once(facts, facts_of(program));
    return facts;
}

// ---- what pages of several verbs state

namespace {

Fact memory_fact(const MemoryUse& m) {
    const Bytes needed = m.peak + m.overheads;
    if (m.capacity <= Bytes(0))
        return {"Highest peak memory of a GPU",
                bytes_text(m.peak) + "; how much the device has is not known"};
    const Bytes gap = m.fits ? m.capacity - needed : needed - m.capacity;
    const bool tight = m.fits && gap < 0.05 * m.capacity;
    const std::string overheads =
        m.overheads > Bytes(0) ? ", with context and allocator " + bytes_text(needed) : "";
    return {
        "Highest peak memory of a GPU",
        fmt::format("{}: {}{} of {}, {} {}, P(out of memory) {}", m.fits ? "fits" : "DOES NOT FIT",
                    bytes_text(m.peak), overheads, bytes_text(m.capacity), bytes_text(gap),
                    m.fits ? "free" : "too much", chance_text(m.out_of_memory)),
        !m.fits ? Tone::bad
        : tight ? Tone::doubt
                : Tone::good};
}

// The parts that are at least a twentieth of the step, largest first.
std::string bound_by(const Forecast& f) {
    std::vector<StepPart> parts = parts_of(f.breakdown);
    std::ranges::stable_sort(parts, std::greater<>(), &StepPart::time);
    const Seconds sum = total(f.breakdown);
    std::string text;
    for (const auto& [name, key, time] : parts)
        if (sum > Seconds(0) && time / sum >= 0.05)
            text +=
                fmt::format("{}{} {}", text.empty() ? "" : ", ", name, percent_text(time / sum));
    return text;
}

// "all_reduce.bytes up to 1.00 GiB, fitted on 512 B to 512.0 MiB".
std::string with_units(const Note& n) {
    if (n.most == 0) return n.text;
    const auto text = [&](double value) {
        return n.key.ends_with(".bytes") ? bytes_text(Bytes(value)) : count_text(value);
    };
    return fmt::format("{} {} to {}, fitted on {} to {}", n.key, n.value > n.most ? "up" : "down",
                       text(n.value), text(n.least), text(n.most));
}

}  // namespace

Fact work_fact(int sequences, int seq, int micro_batch) {
    return {"What a step trains on",
            fmt::format("{} sequence{} of {} tokens, {} at a time on each replica",
                        count_text(sequences), sequences == 1 ? "" : "s", count_text(seq),
                        count_text(micro_batch))};
}

std::vector<Fact> facts_of(const Forecast& f) {
    std::vector<Fact> facts;
    if (f.sequences > 0) facts.push_back(work_fact(f.sequences, f.seq, f.micro_batch));
    facts.push_back(memory_fact(f.memory));
    if (const std::string parts = bound_by(f); !parts.empty())
        facts.push_back({"What the step goes to", parts});
    if (f.tokens_per_second > 0 && f.gpus > 0)
        facts.push_back(
            {"Throughput", fmt::format("{} tokens/s, {} a GPU", count_text(f.tokens_per_second),
                                       count_text(f.tokens_per_second / f.gpus))});
    if (f.model_flops_utilization > 0)
        facts.push_back({"Model FLOP utilization", percent_text(f.model_flops_utilization) +
                                                       " (causal mask not counted" +
                                                       masked_text(f) + ")"});
    if (f.drawn)
        facts.push_back({"Experts", drawn_text(f),
                         f.memory.fits && !f.drawn->stops.empty() ? Tone::doubt : Tone::plain});
    if (f.unequal)
        facts.push_back({"Unequal stages", unequal_text(*f.unequal, f.step.p50), Tone::doubt});
    facts.push_back({"Costs", calibrated_text(f),
                     !f.calibrated           ? Tone::bad
                     : prior_share(f) < 0.05 ? Tone::good
                                             : Tone::doubt});
    return facts;
}

Fact training_fact(const Campaign& c) {
    return {
        fmt::format("Training on {} tokens", spoken_count(c.tokens)),
        fmt::format("{}, money {}{}, energy at most {}", days_text(c), money_text(c),
                    c.money[1] > 0 && !c.currency.empty() ? " " + c.currency : "", energy_text(c))};
}

std::string interval_text(const Forecast& f) {
    if (has_spread(f.step))
        return fmt::format("p10 .. p90 {}", range_text(f.step)) +
               (f.draws > 1 ? fmt::format(" over {} draws", f.draws) : "");
    return "one draw without noise: no interval";
}

std::vector<std::string> plain_warnings(const std::vector<Note>& notes) {
    std::vector<std::string> beyond, undetermined, others;
    for (const Note& n : notes) {
        if (n.kind == Note::Kind::extrapolated)
            beyond.push_back(with_units(n));
        else if (n.kind == Note::Kind::undetermined)
            undetermined.push_back("cluster." + n.key);
        else
            others.push_back(n.text);
    }
    std::vector<std::string> warnings;
    if (!beyond.empty())
        warnings.push_back("Outside what was measured (the cost models are extrapolated): " +
                           joined(beyond, "; ") + ".");
    if (!undetermined.empty())
        add_line(warnings,
                 "The measurements do not determine {} of the parameters, which stay at "
                 "assumed values: {}.",
                 undetermined.size(), joined(undetermined, ", "));
    append(warnings, others);
    return warnings;
}

namespace {

Table error_table(const std::string& name, const Fitted& fitted) {
    Table table{fmt::format("Errors of {} by the program of {}", name, fitted.date.substr(0, 10)),
                {{.name = "kind", .is_text = true},
                 {.name = "method", .is_text = true},
                 {"rows"},
                 {"median"},
                 {"mean"},
                 {"bias"},
                 {"worst"}},
                {}};
    for (const HeldOutError& e : fitted.errors)
        table.rows.push_back({{e.kind},
                              {e.method},
                              count_cell(e.samples),
                              e.median > 0 ? percent_cell(e.median) : Cell{"-"},
                              percent_cell(e.mape),
                              signed_percent_cell(e.bias),
                              signed_percent_cell(e.worst)});
    table.below = fmt::format("fitted to {}", joined(source_names(fitted), ", "));
    return table;
}

Fact fit_fact(const std::string& name, const Fitted& fitted, const std::string& unmeasured) {
    Fact fact{.name = name, .text = "", .row = fit_row(name, fitted, unmeasured)};
    if (!fitted.errors.empty()) fact.tables = {error_table(name, fitted)};
    return fact;
}

}  // namespace

std::vector<Fact> provenance_of(const Cluster& cluster) {
    std::vector<Fact> facts;
    if (cluster.fitted)
        facts.push_back(
            fit_fact("cluster " + cluster.name, *cluster.fitted, unmeasured_kinds(cluster)));
    else
        facts.push_back(
            {"cluster " + cluster.name, uncalibrated_text(unmeasured_maker(cluster.gpu))});
    if (!cluster.source.empty())
        facts.push_back({"datasheet values of " + cluster.name, cluster.source});
    return facts;
}

std::vector<Fact> provenance_of(const Framework& framework) {
    if (framework.name.empty()) return {};
    const std::string name = "framework " + framework.name;
    std::vector<Fact> facts{{name, framework.about}};
    if (framework.fitted) facts.push_back(fit_fact(name, *framework.fitted, ""));
    return facts;
}

std::vector<Fact> facts_of(const Invocation& program) {
    std::vector<Fact> facts{{"program", replaced(program.version, "\n", ", ")}};
    if (!program.command.empty()) facts.insert(facts.begin(), {"command", program.command});
    return facts;
}

Table breakdown_table(const Forecast& f) {
    const Seconds sum = total(f.breakdown);
    Table table{"Where the step of the slowest rank goes",
                {{.name = "part", .is_text = true}, {"time"}, {"share"}},
                {}};
    for (const auto& [name, key, time] : parts_of(f.breakdown))
        table.rows.push_back(
            {{name}, time_cell(time), percent_cell(sum > Seconds(0) ? time / sum : 0)});
    return table;
}

Table memory_table(const Forecast& f) {
    const MemoryUse& m = f.memory;
    Table table{"Highest peak memory of a GPU", {{.name = "what", .is_text = true}, {"size"}}, {}};
    for (const auto& [name, bytes] : {std::pair{"weights", m.weights},
                                      {"gradients", m.gradients},
                                      {"optimizer", m.optimizer},
                                      {"activations", m.activations},
                                      {"buffers", m.buffers},
                                      {"context and allocator", m.overheads}})
        table.rows.push_back({{name}, bytes_cell(bytes)});
    table.rows.push_back({{"all"}, bytes_cell(m.peak + m.overheads)});
    return table;
}

}  // namespace stepcast
