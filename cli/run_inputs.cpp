#include "cli/run_inputs.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cli/experiment_inputs.h"
#include "cli/output_files.h"
#include "import/launch/document.h"
#include "import/launch/translation.h"
#include "import/logs/import.h"
#include "import/tables/case_files.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"
#include "model/base/whole_files.h"
#include "model/input/presets.h"
#include "sim/predict_all.h"
#include "sim/why/diagnose.h"

namespace stepcast {
namespace {

ImportRequest import_request_of(const Options& options) {
    return {.logs = options.inputs,
            .format = parse_name<LogFormat>(options.format),
            .out = options.out,
            .routing_out = options.routing_out,
            .medians_only = options.medians,
            .kept_phases = options.phases,
            .steps = options.step_range,
            .pattern = options.pattern,
            .system = options.system,
            .model = options.model,
            .inputs = options.step_inputs};
}

// A log that begins with the dump of its arguments; a launch script is none.
bool is_experiment_log(const std::string& path) {
    std::error_code none;
    return std::filesystem::is_regular_file(path, none) && is_argument_dump(dump_in_log(path));
}

// Nobody named this output: a file that import did not write, as its first line says, stays.
void keep_by_hand(const std::string& path) {
    std::ifstream there(path);
    std::string first;
    if (std::getline(there, first) && !first.ends_with(", translated"))
        throw ConfigError(path +
                          ": is there and was not written by import, which would replace it by the "
                          "experiment of the log's arguments; expected another --out");
}

// Not a log beside an experiment.
bool asks_log_itself(const Options& options, const std::string& log) {
    return options.experiment.empty() || named_row(options.experiment).path == log;
}

// Logs to import, and the experiment that the arguments of the only one describe, where --model
// names none.
struct LogImport {
    ImportRequest request;
    std::optional<Translation> own;
};
LogImport log_import(const Options& options) {
    LogImport log{import_request_of(options), {}};
    if (!options.model.empty() || options.inputs.size() != 1 ||
        !is_experiment_log(options.inputs.front()))
        return log;
    log.own = translate(options.inputs.front(), translate_options(options));
    log.request.ranks = as_int(log.own->ranks_of_split() * log.own->count("parallelism.dp", 1));
    return log;
}

// How far one gets with steps alone.
std::string steps_alone(const Case& c) {
    const StepPattern p = pattern_of(c.recorded_steps);
    if (p.steps == 0) return "";
    return fmt::format(
        " The steps alone say: {} of them, the quiet ones take {}, {:.0f} % are slow{} and lose "
        "{:.1f} % in the mean.",
        p.steps, to_string(p.quiet), 100 * p.slow_share,
        p.regular ? fmt::format(" (every {:.0f}th)", p.every) : "", 100 * p.lost);
}

// Those of the name, or all.
std::vector<Comparison> runs_of(const Options& options, const NamedRow& named,
                                CausesOfRows causes = CausesOfRows::read) {
    const auto& [path, row] = named;
    std::vector<Comparison> found = is_log(path)
                                        ? comparisons_of_log(options, path)
                                        : read_comparisons(path, options.cluster, options.framework,
                                                           {}, causes == CausesOfRows::read);
    if (!row.empty())
        std::erase_if(found,
                      [&wanted = row](const Comparison& c) { return c.what.case_id != wanted; });
    if (found.empty()) throw ConfigError(path + ": has no run" + (row.empty() ? "" : " " + row));
    return found;
}

Case accepted(const Options& options, const Comparison& c, const std::string& input) {
    if (c.refused_because.empty()) return c.what;
    throw ConfigError(
        c.refused_because +
        (options.model.empty() && asks_log_itself(options, named_row(input).path) &&
                 is_log(named_row(input).path)
             ? ". What is missing is the configuration: --model EXPERIMENT (and --cluster)." +
                   steps_alone(c.what)
             : ""));
}

}  // namespace

bool is_log(const std::string& path) {
    std::error_code none;
    return (std::filesystem::is_regular_file(path, none) && has_name_of_log(path)) ||
           is_experiment_log(path);
}

std::vector<std::string> import_logs(const Options& options) {
    LogImport log = log_import(options);
    ImportRequest& request = log.request;
    if (!log.own) return import_to_files(request);
    request.model =
        std::filesystem::path(options.out).replace_extension("experiment.toml").string();
    keep_apart({request.model}, options.inputs);
    keep_by_hand(request.model);
    require_writable(request.model);
    std::vector<std::string> lines = import_to_files(request);
    write_whole({{request.model, experiment_text(*log.own)}});
    std::vector<std::string> told = report(*log.own);
    told.push_back(request.model +
                   ": the experiment of the log's own arguments, which predicts its runs; compare "
                   "with --cluster, where it names no machine");
    append(told, lines);
    return told;
}

namespace {

// The experiment of a log's runs, as --model says it: "" = none. `text` where it is no file or
// preset of its own, or is asked with other values.
struct AskedModel {
    std::string name;
    std::optional<std::string> text;
};
AskedModel model_of_log(const Options& options, const std::string& log) {
    Options asked = options;
    if (asks_log_itself(options, log))
        asked.experiment = std::exchange(asked.model, "");
    else
        asked.say = [](const std::string&) {};  // who asks has said it
    const std::string& name = asked.experiment;
    const bool own = name.ends_with(".toml") || has_preset(PresetKind::experiment, name);
    if (name.empty() || (own && options.set.empty())) return {own ? name : options.model, {}};
    return {std::filesystem::path(name).stem().string(), shown(asked)};
}

}  // namespace

std::vector<Comparison> comparisons_of_log(const Options& options, const std::string& path) {
    const AskedModel asked = model_of_log(options, path);
    Options import = options;
    import.inputs = {path};
    import.format = "auto";
    import.model = asked.name;
    LogImport log = log_import(import);
    const std::string stem = std::filesystem::path(path).stem().string();
    std::optional<ExperimentSource> own;
    if (log.own)
        own.emplace(log.request.model = stem + ".experiment.toml", experiment_text(*log.own));
    if (asked.text)  // with the machine
        own.emplace(log.request.model = asked.name + ".experiment.toml", *asked.text);
    const ImportedSamples samples = import_samples(log.request);
    if (log.own)
        for (const std::string& line : report(*log.own)) options.say(line);
    for (const std::string& line : samples.report) options.say(line);
    std::vector<Comparison> found =
        comparisons_of(samples.rows, asked.text ? "" : options.cluster, options.framework, own);
    for (Comparison& c : found) {
        c.what.source = path;
        if (asked.text) c.what.series = asked.name;
        if (asked.name.empty()) c.what.series = stem;
    }
    return found;
}

NamedRow named_row(const std::string& input) {
    if (const auto at = input.find(".csv:"); at != std::string::npos)
        return {input.substr(0, at + 4), input.substr(at + 5)};
    std::error_code none;
    for (auto at = input.find(':'); at != std::string::npos; at = input.find(':', at + 1))
        if (std::filesystem::is_regular_file(input.substr(0, at), none))
            return {input.substr(0, at), input.substr(at + 1)};
    return {input, ""};
}

std::vector<Case> all_cases(const Options& options, const std::string& input) {
    std::vector<Case> cases;
    for (const Comparison& c : runs_of(options, named_row(input)))
        cases.push_back(accepted(options, c, input));
    return cases;
}

Case one_case(const Options& options, const std::string& input, CausesOfRows causes) {
    const NamedRow named = named_row(input);
    const std::vector<Comparison> found = runs_of(options, named, causes);
    if (found.size() > 1)
        refuse("{}: has {} runs; expected one, as {}:{}", named.path, found.size(), named.path,
               found.front().what.case_id);
    return accepted(options, found.front(), input);
}

OwnSteps own_steps_of_file(const std::string& path, const Options& options, bool plain) {
    if (path.ends_with(".toml")) return read_own_steps(path);
    if (!path.ends_with(".csv"))
        throw ConfigError("--measured " + path +
                          ": expected CASES.csv or a .toml that simulate --save wrote");
    std::vector<Comparison> rows = read_comparisons(path, options.cluster, options.framework);
    if (plain)
        for (Comparison& c : rows) c.what.circumstances = {};
    predict_all(rows);
    OwnSteps own;
    for (const Comparison& c : rows)
        if (c.forecast)
            own.steps.push_back(own_step(c.what.experiment, *c.forecast, c.what.measured_step));
    if (own.steps.empty())
        throw ConfigError("--measured " + path + ": no step of it can be predicted" +
                          (rows.empty() ? "" : ": " + rows.front().refused_because));
    return own;
}

void add(OwnSteps& all, OwnSteps more) {
    for (OwnStep& step : more.steps) all.steps.push_back(std::move(step));
}

}  // namespace stepcast
