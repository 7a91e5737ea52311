#include "cli/simulate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

#include "cli/experiment_inputs.h"
#include "cli/lever_flags.h"
#include "cli/output_files.h"
#include "cli/run_inputs.h"
#include "cli/verbs.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/refuse.h"
#include "model/base/whole_files.h"
#include "model/input/keys.h"
#include "model/step.h"
#include "reports/campaign_tables.h"
#include "reports/explain_tables.h"
#include "reports/graph_dot.h"
#include "reports/json.h"
#include "reports/lever_tables.h"
#include "reports/memory_tables.h"
#include "reports/step_page.h"
#include "sim/campaign.h"
#include "sim/drawn_experts.h"
#include "sim/explain/explain.h"
#include "sim/gantt.h"
#include "sim/levers.h"
#include "sim/memory/allocator_forecast.h"
#include "sim/memory/memory_points.h"

namespace stepcast {
namespace {

constexpr const char* why_so = "Why";

// The columns of `simulate`: every experiment that is named, with every value of a key that --set
// gives several times.
struct Variant {
    std::string label, experiment;
    std::vector<Override> overrides;
};

// "seq = 512" without the table, which --set may leave out too. A preset's label is its name.
std::string label_of(const Override& one) {
    if (const Key* const key = find_key(one.key); key && is_preset(*key)) return one.value;
    return one.key.substr(one.key.starts_with("framework.") ? 0 : one.key.find('.') + 1) + " = " +
           one.value;
}

std::vector<Variant> variants_of(const Options& options) {
    constexpr std::size_t most_columns = 12;
    std::vector<Variant> variants;
    for (const std::string& experiment : options.inputs)
        variants.push_back({options.inputs.size() > 1 ? experiment : "", experiment, {}});
    const std::vector<Override> overrides = overrides_of(options);
    std::vector<std::string> done;
    for (const Override& o : overrides) {
        if (contains(done, o.key)) continue;
        done.push_back(o.key);
        const std::vector<Override> values =
            where(overrides, [&](const Override& v) { return v.key == o.key; });
        std::vector<Variant> more;
        for (const Variant& v : variants)
            for (const Override& value : values) {
                Variant& next = more.emplace_back(v);
                next.overrides.push_back(value);
                if (values.size() > 1)
                    next.label += (next.label.empty() ? "" : ", ") + label_of(value);
            }
        variants = std::move(more);
        if (variants.size() > most_columns)
            throw ConfigError("simulate: " + std::to_string(variants.size()) +
                              " forecasts are asked for; expected at most " +
                              std::to_string(most_columns) + " side by side, or sweep --vary");
    }
    return variants;
}

void check_simulated_files(const Options& options, const std::vector<Variant>& variants) {
    Paths outputs = named({}, {options.trace, options.graph}), inputs = named({}, {options.market});
    for (const Variant& variant : variants)
        for (std::string& file : files_asked(options, variant.experiment, variant.overrides))
            inputs.push_back(std::move(file));
    add_in(outputs, options.out, {}, inputs);
    if (!options.out.empty()) outputs.push_back(options.out + "/report.html");
    check_outputs(outputs, inputs);
}

void read_measured(const Options& options, SimulateQuestion& question) {
    for (const std::string& text : options.measured) {
        if (text.ends_with(".csv") || text.ends_with(".toml")) {
            add(question.own, own_steps_of_file(text, options, true));
            continue;
        }
        question.measured.push_back(text == "-" ? std::optional<Seconds>()
                                                : positive("--measured", text, parse_seconds));
    }
    if (question.measured.size() > question.columns.size())
        refuse(
            "--measured: found {} times for {} forecasts; expected one of "
            "each, - where it is not known",
            question.measured.size(), question.columns.size());
    question.save = options.save;
    if (!options.save.empty() && options.measured.empty())
        throw ConfigError("--save: keeps measured steps; expected --measured as well");
}

// What steps took whose source was left out.
std::string note_of_others(const ClassScatter& others, const Forecast& f) {
    const auto of = [&](double log) { return std::exp(log) * f.step.p50.si(); };
    return fmt::format(
        "steps of sources that nothing had read (benchmark setup): {:.4g} .. {:.4g} s ({} steps of "
        "{} sources); p50 is a recipe's, --tuned also its p10 .. p90; --measured narrows most",
        of(-others.scatter.faster), of(others.scatter.slower), others.rows, others.sources);
}

AsRun run_of(const SimulateQuestion& question, const Experiment& e) {
    return {e, {.by = question.tuned ? RunBy::recipe : RunBy::own}};
}

Prediction predict_as(const SimulateQuestion& question, const Experiment& e) {
    Prediction found = predict_step(run_of(question, e));
    if (question.tuned) return found;
    if (e.workload.kind != Workload::Kind::transformer) return found;
    if (const auto others = class_of(shipped_scatter(), e, {.by = RunBy::stranger}))
        found.forecast.notes.push_back(remark(note_of_others(*others, found.forecast)));
    return found;
}

// Those of files and those of the columns, each beside its forecast.
OwnSteps all_own_steps(const SimulateQuestion& question) {
    OwnSteps own = question.own;
    for (const std::size_t i : indices_of(question.measured))
        if (question.measured[i]) {
            const Experiment& e = question.columns[i].experiment;
            own.steps.push_back(own_step(e, predict(e), *question.measured[i]));
        }
    return own;
}

int run_simulate(const Options& options) {
    const SimulateQuestion question = simulate_question(options);
    const SimulateAnswer found = answer(question, !options.out.empty());
    const Experiment& experiment = question.columns.front().experiment;
    const Forecast& forecast = found.columns.front().forecast;
    if (!options.trace.empty()) {
        const auto [trace, extras] = predicted_trace(experiment, *found.prediction);
        write_chrome_trace(found.prediction->graph, trace, options.trace, extras);
    }
    if (!options.graph.empty()) write_dot(found.prediction->graph, experiment.name, options.graph);
    if (options.emit.empty()) {
        print(options.json ? json_of(found) : text_of(found));
    } else {
        if (question.explained || question.training || question.replayed)
            std::fputs(text_of(found).c_str(), stderr);
        print(emitted(
            experiment, options,
            headline(forecast.experiment, forecast.cluster, experiment, forecast.step.p50)));
    }
    if (!options.out.empty())
        write_simulated(options.out, {version_text(), options.command}, question, found);
    return 0;
}

}  // namespace

SimulateQuestion simulate_question(const Options& options) {
    const std::vector<Variant> variants = variants_of(options);
    if (variants.size() > 1 &&
        (options.explain || options.memory || options.levers || !options.trace.empty() ||
         !options.graph.empty() || !options.emit.empty()))
        throw ConfigError(
            "simulate: --trace, --graph, --emit, --explain, --memory and --levers are of one "
            "forecast; expected one experiment and every key set once");
    require_one_answer(options);
    require_foreign(options, options.inputs);
    check_simulated_files(options, variants);
    SimulateQuestion question{.columns = {},
                              .training = training_of(options),
                              .explained = options.explain,
                              .replayed = options.memory,
                              .levers = options.levers};
    for (const Variant& v : variants)
        question.columns.push_back(
            {v.label, asked_experiment(options, v.experiment, v.overrides, true)});
    question.tuned = options.tuned;
    read_measured(options, question);
    return question;
}

namespace {

// What is answered of a single forecast only.
void answer_alone(const SimulateQuestion& question, const Experiment& experiment,
                  Prediction&& prediction, SimulateAnswer& found) {
    found.prediction = std::move(prediction);
    if (question.explained) found.why = explain(experiment);
    if (question.levers) {
        found.levers = levers(experiment);
        name_flags(experiment, *found.levers);
    }
    if (question.replayed) found.memory = allocator_forecast(experiment);
}

}  // namespace

SimulateAnswer answer(const SimulateQuestion& question, bool pictures) {
    const bool lone = question.columns.size() == 1;
    SimulateAnswer found;
    const OwnSteps own = all_own_steps(question);
    if (!question.save.empty()) write_whole({{question.save, write_own_steps(own)}});
    for (const auto& [label, experiment] : question.columns) {
        Prediction prediction = predict_as(question, experiment);
        narrow(own, experiment, prediction);
        if (lone && prediction.forecast.unequal)
            add_stage_lever(run_of(question, experiment), *prediction.forecast.unequal);
        if (prediction.forecast.drawn) add_drawn_memory(experiment, *prediction.forecast.drawn);
        found.columns.push_back({label, prediction.forecast, {}});
        if (question.training)
            found.columns.back().campaign =
                campaign_of(*question.training, experiment, prediction.forecast);
        if (pictures) found.pictures.push_back(gantt_of(experiment, prediction));
        if (pictures && !lone) found.pictures.back().title = label;
        if (lone) answer_alone(question, experiment, std::move(prediction), found);
    }
    return found;
}

std::string json_of(const SimulateAnswer& answer) {
    if (answer.columns.size() > 1) return columns_json(answer.columns);
    const auto& [label, forecast, campaign] = answer.columns.front();
    return to_json(forecast, answer.why, campaign, answer.memory, answer.levers);
}

std::string text_of(const SimulateAnswer& answer) {
    if (answer.columns.size() > 1) return columns_table(answer.columns);
    const auto& [label, forecast, campaign] = answer.columns.front();
    std::string text = forecast_table(forecast, answer.why.has_value());
    if (campaign) text += "\n" + campaign_table(*campaign);
    if (answer.memory) text += "\n" + allocator_table(*answer.memory);
    if (answer.levers) text += "\n" + lever_table(*answer.levers, forecast);
    if (answer.why) text += "\n" + explanation_table(*answer.why) + "\n" + kernel_table(forecast);
    return text;
}

PredictedTrace predicted_trace(const Experiment& e, const Prediction& p) {
    const Routing routing = routing_of(e, p.forecast.median_draw);
    Trace trace = to_trace(p.graph, p.timeline);
    TraceExtras extras{.notes = trace_notes(p.forecast),
                       .memory = memory_points(e, routing, p.graph, trace)};
    return {std::move(trace), std::move(extras)};
}

void write_simulated(const std::string& folder, const Invocation& program,
                     const SimulateQuestion& question, const SimulateAnswer& answer) {
    std::vector<Fact> origin;
    for (const auto& [label, experiment] : question.columns)
        add_once(origin, origin_of(experiment, program));
    if (answer.columns.size() > 1)
        return write_columns(folder, answer.columns, answer.pictures, origin);
    const auto& [label, forecast, campaign] = answer.columns.front();
    Page page = forecast_page(question.columns.front().experiment, forecast, answer.why, campaign,
                              answer.levers);
    page.provenance = origin;
    write_forecast(folder, std::move(page), answer.pictures.front(), answer.why, answer.memory);
}

Verb simulate_verb() {
    const Arguments why{
        {"--explain", &Options::explain, "",
         "critical path, idle time, what 10 % more of anything buys, every kernel", why_so},
        {"--levers", &Options::levers, "",
         "what each switch and each neighbour of the parallel layout, changed alone, would "
         "make of the step and its memory",
         why_so},
        {"--memory", &Options::memory, "",
         "memory as PyTorch's allocator sees it: allocated, reserved, what is allocated at "
         "the peak, the tensor that fails",
         why_so}};
    const Arguments own{
        {"--measured",
         &Options::measured,
         "TIME|FILE",
         "steps that you measured, which narrow the forecast: of one column after the "
         "other (4.31s, - where it is not known), CASES.csv or what --save wrote",
         of_own_steps,
         {.comma = true}},
        {"--save", &Options::save, "FILE.toml", "keep these steps for the next command",
         of_own_steps},
        {"--tuned", &Options::tuned, "",
         "p10 .. p90 of software set up as in its published recipe (benchmark), not as by "
         "any user",
         of_own_steps}};
    const Arguments output{
        json_argument(),
        emit_argument(),
        out_argument("a page with a picture of the step (Gantt chart) and the plot of --explain"),
        trace_argument(),
        {"--graph", &Options::graph, "FILE.dot",
         "the tasks of a small step and what they wait for, for Graphviz", of_output}};
    return {"simulate", "predict a step",
            "stepcast simulate llama3-70b --cluster H100 --gpus 256 --framework megatron-core "
            "--set tp=8",
            joined({{{"EXPERIMENT",
                      &Options::inputs,
                      "",
                      "files, presets, workloads or config.json; several stand side by "
                      "side, as do the values of a key that --set gives twice",
                      ungrouped,
                      {.required = true}}},
                    override_arguments_of_several(),
                    why,
                    output,
                    own,
                    campaign_arguments(),
                    foreign_arguments()}),
            run_simulate};
}

}  // namespace stepcast
