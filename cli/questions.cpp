// The questions of simulate and sweep, and the answers of simulate.
#include "cli/verbs.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/startup.h"
#include "model/base/errors.h"
#include "model/base/whole_files.h"
#include "model/input/keys.h"
#include "model/step.h"
#include "reports/json.h"
#include "reports/pages.h"
#include "sim/campaign.h"
#include "sim/gantt.h"
#include "sim/levers.h"
#include "sim/memory/allocator_forecast.h"
#include "sim/memory/memory_points.h"

namespace stepcast {
namespace {

// Reads "step", or "step,cost" for a Pareto front.
void read_objectives(SweepQuestion& question, const Options& options) {
    const auto comma = options.objective.find(',');
    at_place("--objective " + options.objective, [&] {
        question.objective = parse_name<Objective>(options.objective.substr(0, comma));
        if (comma != std::string::npos)
            question.second = parse_name<Objective>(options.objective.substr(comma + 1));
    });
    if (options.pareto && !question.second) question.second = Objective::memory;
    if (question.second == question.objective)
        throw ConfigError("--objective " + options.objective +
                          ": twice the same; expected two different ones");
}

// Reads a positive value with `parse`, and names the option in errors.
auto positive(const std::string& option, const std::string& text, auto parse) {
    try {
        if (const auto value = parse(text); value > decltype(value){}) return value;
    } catch (const ConfigError& error) {
        throw ConfigError(option + " " + error.what());
    }
    throw ConfigError(option + " " + text + ": expected more than 0");
}

// "seq = 512" without the table, which --set may leave out too. A preset's label is its name.
std::string label_of(const Override& one) {
    if (const Key* const key = find_key(one.key); key && is_preset(*key)) return one.value;
    return one.key.substr(one.key.starts_with("framework.") ? 0 : one.key.find('.') + 1) + " = " +
           one.value;
}

}  // namespace

std::vector<Override> overrides_of(const Options& options) {
    std::vector<Override> overrides;
    if (!options.framework.empty()) overrides.push_back({"framework.preset", options.framework});
    if (!options.cluster.empty()) overrides.push_back({"cluster.preset", options.cluster});
    if (options.gpus > 0)
        overrides.push_back({std::string(ranks_key), std::to_string(options.gpus)});
    for (const std::string& text : options.set) overrides.push_back(parse_override(text));
    return overrides;
}

std::vector<Variant> variants_of(const Options& options) {
    constexpr std::size_t most_columns = 12;
    std::vector<Variant> variants;
    for (const std::string& experiment : options.inputs)
        variants.push_back({options.inputs.size() > 1 ? experiment : "", experiment, {}});
    const std::vector<Override> overrides = overrides_of(options);
    std::vector<std::string> done;
    for (const Override& o : overrides) {
        if (std::ranges::find(done, o.key) != done.end()) continue;
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

std::optional<Training> training_of(const Options& options) {
    if (!options.tokens.empty() && !options.training_steps.empty())
        throw ConfigError("--tokens and --steps: both say how long the training is; expected one");
    if (options.tokens.empty() && options.training_steps.empty()) {
        if (options.market.empty()) return std::nullopt;
        throw ConfigError(
            "--market: of which training? expected --tokens 15T or --steps 100k as well");
    }
    Training training{.tokens = 0, .steps = 0, .market = read_market(options.market)};
    if (!options.tokens.empty())
        training.tokens = positive("--tokens", options.tokens, parse_count);
    if (!options.training_steps.empty())
        training.steps = positive("--steps", options.training_steps, parse_count);
    return training;
}

SweepQuestion question_of(const Options& options) {
    require_one_answer(options);
    require_foreign(options, {options.experiment});
    SweepQuestion question;
    question.experiment =
        asked_experiment(options, options.experiment, overrides_of(options), false);
    question.stated = stated_keys_asked(options, options.experiment, overrides_of(options));
    for (const std::string& text : options.vary) question.axes.push_back(parse_axis(text));
    question.where = parse_constraints(options.where);
    question.top = options.top;
    read_objectives(question, options);
    question.training = training_of(options);
    if (!options.within.empty())
        question.within = positive("--within", options.within, parse_seconds);
    add_node_counts(question);
    return question;
}

namespace {

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
        throw ConfigError(
            fmt::format("--measured: found {} times for {} forecasts; expected one of "
                        "each, - where it is not known",
                        question.measured.size(), question.columns.size()));
    question.save = options.save;
    if (!options.save.empty() && options.measured.empty())
        throw ConfigError("--save: keeps measured steps; expected --measured as well");
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
    check_files_of_simulate(options, variants);
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

// What those took who followed no recipe.
std::string note_of_others(const ClassScatter& others, const Forecast& f) {
    const auto of = [&](double log) { return std::exp(log) * f.step.p50.si(); };
    return fmt::format(
        "steps of those who follow no recipe: {:.4g} s in the median, {:.4g} .. {:.4g} s ({} steps "
        "of {} sources); p50 is the recipe's, --tuned also its p10 .. p90; --measured narrows most",
        of(others.middle), of(others.middle - others.scatter.faster),
        of(others.middle + others.scatter.slower), others.rows, others.sources);
}

Prediction predict_as(const SimulateQuestion& question, const Experiment& e) {
    if (question.tuned) return predict_step(AsRun{e, {.by = RunBy::recipe}});
    Prediction found = predict_step(e);
    if (e.workload.kind != Workload::Kind::transformer) return found;
    if (const ClassScatter* const others = class_of(shipped_scatter(), e, {}))
        found.forecast.notes.push_back(note_of_others(*others, found.forecast));
    return found;
}

// Those of files and those of the columns, each beside its forecast.
OwnSteps all_own_steps(const SimulateQuestion& question) {
    OwnSteps own = question.own;
    for (std::size_t i = 0; i < question.measured.size(); ++i)
        if (question.measured[i]) {
            const Experiment& e = question.columns[i].experiment;
            own.steps.push_back(own_step(e, predict(e), *question.measured[i]));
        }
    return own;
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
        found.columns.push_back({label, prediction.forecast, {}});
        if (question.training)
            found.columns.back().campaign =
                campaign_of(*question.training, experiment, prediction.forecast);
        if (pictures) found.pictures.push_back(gantt_of(experiment, prediction));
        if (pictures && !lone) found.pictures.back().title = label;
        if (lone) found.prediction = std::move(prediction);
        if (lone && question.explained) found.why = explain(experiment);
        if (lone && question.levers) found.levers = levers(experiment);
        if (lone && question.replayed) found.memory = allocator_forecast(experiment);
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
    Page page = forecast_page(question.columns.front().experiment, forecast, answer.why, campaign);
    page.provenance = origin;
    write_forecast(folder, std::move(page), answer.pictures.front(), answer.why);
}

}  // namespace stepcast
