// The map: each verb is one function that walks the spine (README) by calling the folders' functions in order.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "calibrate/fit_moe.h"
#include "calibrate/host_sweep.h"
#include "calibrate/import.h"
#include "calibrate/whole_files.h"
#include "exec/execute.h"
#include "exec/host_device.h"
#include "exec/host_machine.h"
#include "model/cases.h"
#include "model/csv.h"
#include "model/errors.h"
#include "model/experiment.h"
#include "model/presets.h"
#include "model/run_folder.h"
#include "model/step.h"
#include "reports/chrome_trace.h"
#include "reports/json.h"
#include "reports/plots.h"
#include "reports/tables.h"
#include "sim/predict.h"

using namespace stepcast;

namespace {

struct Options {
    std::string experiment, device, cluster, out, trace, routing_out, format = "auto", what = "presets";
    std::vector<std::string> inputs, set, measurements;
    int ranks = 0, steps = 0, warmup = -1;
    bool json = false, strict = false;
};

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }
void say(const std::string& line) { std::fprintf(stderr, "stepcast: %s\n", line.c_str()); }
// One line that is overwritten on a terminal; nothing in a pipe.
void show_progress(std::string_view text) {
    if (isatty(STDERR_FILENO)) std::fprintf(stderr, "\r\033[K%.*s", static_cast<int>(text.size()), text.data());
}

std::vector<Override> overrides_of(const Options& options) {
    std::vector<Override> overrides;
    for (const std::string& text : options.set) overrides.push_back(parse_override(text));
    return overrides;
}

// Refuses a place that cannot be written before long work starts, not after it.
void make_folder(const std::filesystem::path& folder) {
    std::error_code error;
    if (!folder.empty()) std::filesystem::create_directories(folder, error);
    if (error) throw ConfigError(folder.string() + ": cannot be made (" + error.message() + ")");
}

void run_simulate(const Options& options) {
    const Experiment experiment = read_experiment(options.experiment, overrides_of(options));
    const Forecast forecast = predict(experiment);
    if (!options.trace.empty()) {
        const TaskGraph graph = build_step(experiment, routing_of(experiment));
        write_chrome_trace(graph, simulate(graph, price(graph, experiment.cluster)), options.trace);
    }
    print(options.json ? to_json(forecast) : forecast_table(forecast));
}

void require_host(const std::string& device) {
    if (device == "cuda") throw DeviceError("no CUDA device: this build has no CUDA plugin (libexec_cuda.so not found)");
    if (device != "host") throw ConfigError("--device: \"" + device + "\" is no device; expected host or cuda");
}

void run_execute(const Options& options) {
    const Experiment experiment = read_experiment(options.experiment, overrides_of(options));
    require_host(options.device);
    const TaskGraph graph = build_step(experiment, routing_of(experiment));
    if (options.ranks > 0 && options.ranks != graph.rank_count())
        throw ConfigError("--ranks " + std::to_string(options.ranks) + ": " + experiment.name + " is split over " +
                          std::to_string(graph.rank_count()) + " ranks; change parallelism and cluster with --set");
    const auto device = open_host_device(graph.rank_count());
    ExecuteOptions how;
    how.steps = options.steps > 0 ? options.steps : experiment.run.steps;
    how.warmup = options.warmup >= 0 ? options.warmup : experiment.run.warmup;
    how.timeout = experiment.run.timeout;
    how.progress = show_progress;
    RunRecord record{options.experiment, overrides_of(options), experiment.cluster, {}};
    if (!options.out.empty() && device->reports()) {
        make_folder(options.out);
        how.on_step = [&](const Measurement& sofar) {  // a run that is stopped keeps its finished samples
            record.measurement = sofar;
            write_run(options.out, record, experiment);
        };
    }
    const Measurement measurement = execute(graph, *device, how);
    show_progress("");
    if (!device->reports()) return;
    if (how.on_step) how.on_step(measurement);
    for (const std::string& warning : measurement.warnings) say(warning);
    if (!options.trace.empty()) write_chrome_trace(graph, measurement.traces.back(), options.trace);
    print(options.json ? to_json(experiment.name, measurement) : measurement_table(experiment.name, measurement));
}

void calibrate_host(const Options& options) {
    require_host(options.device);
    make_folder(std::filesystem::path(options.out).parent_path());
    const int ranks = options.ranks > 0 ? options.ranks : 2;
    const auto device = open_host_device(ranks);
    std::vector<SweepResult> results;
    int disturbed = 0;
    for (TaskGraph& graph : host_sweeps(ranks)) {
        show_progress("sweep " + std::to_string(results.size() + 1));
        const Measurement measurement = execute(graph, *device, {.steps = 10, .check_idle = results.empty()});
        disturbed += measurement.quiet ? 0 : 1;
        results.push_back({std::move(graph), measurement});
    }
    show_progress("");
    if (!device->reports()) return;
    if (disturbed > 0)
        say("busy: " + std::to_string(disturbed) + " of " + std::to_string(results.size()) + " sweeps were disturbed by other work");
    const Cluster cluster = fit_host(results, processor_name(), available_memory() / ranks);
    write_whole({{options.out, write_cluster(cluster)}});
    std::printf("%s: %d ranks, %d samples\n", options.out.c_str(), ranks, cluster.fitted->samples);
    for (const HeldOutError& error : cluster.fitted->errors)
        std::printf("  %-16s %3d points held out: mean error %5.1f %%, bias %+5.1f %%, worst %+6.1f %%\n", error.kind.c_str(),
                    error.samples, 100 * error.mape, 100 * error.bias, 100 * error.worst);
}

void run_calibrate(const Options& options) {
    if (options.device.empty() == options.measurements.empty())
        throw ConfigError("calibrate: expected --device host to measure this machine, or --measurements to fit recorded files");
    if (!options.device.empty()) return calibrate_host(options);
    if (options.cluster.empty()) throw ConfigError("calibrate: --measurements needs --cluster, the file or preset to start from");
    print(calibrate_from_measurements({.measurements = options.measurements, .cluster = options.cluster, .out = options.out,
                                       .date = current_date()}, show_progress));
}

Case case_of_run(const std::string& folder, const std::string& cluster) {
    const RunRecord record = read_run(folder);
    const StepTimes median = median_times(record.measurement);
    Case run;
    run.source = "executed";
    run.case_id = run.series = std::filesystem::path(record.experiment).stem().string();
    run.experiment = experiment_of(record);
    if (!cluster.empty()) run.experiment.cluster = read_cluster(cluster);
    check_experiment(run.experiment);
    run.measured_step = median.step;
    run.measured_forward = median.forward;
    run.measured_backward = median.backward;
    run.assumptions = record.measurement.warnings;
    return run;
}

// What a path holds, by its content: a run folder, measurements, or cases of which some may be refused.
std::vector<Comparison> cases_in(const std::string& path, const std::string& cluster) {
    std::vector<Comparison> found;
    if (std::filesystem::is_directory(path)) return {{case_of_run(path, cluster), {}, {}}};
    CsvReader csv(path);
    bool rows = csv.next();
    while (rows && csv.fields().front().starts_with("#")) rows = csv.next();
    if (rows && csv.fields().front() == "run_id") {
        const std::string routing = (std::filesystem::path(path).parent_path() / "routing").string();
        for (Case& known : cases_of_measurements(read_measurements(path), routing, cluster)) found.push_back({known, {}, {}});
        return found;
    }
    for (const CaseRow& row : read_cases(path)) {
        Comparison& comparison = found.emplace_back();
        comparison.what.source = row.cell("source");
        comparison.what.case_id = row.cell("case_id");
        try {
            comparison.what = case_of(row, cluster);
        } catch (const ConfigError& error) {
            comparison.refused_because = error.what();
        }
    }
    return found;
}

void run_compare(const Options& options) {
    std::vector<Comparison> comparisons;
    for (const std::string& path : options.inputs)
        for (Comparison& comparison : cases_in(path, options.cluster)) comparisons.push_back(std::move(comparison));
    for (Comparison& comparison : comparisons) try {
            if (!comparison.refused_because.empty()) continue;
            show_progress("predicting " + comparison.what.case_id);
            comparison.forecast = predict(comparison.what.experiment);
        } catch (const ConfigError& error) {
            comparison.refused_because = error.what();
        }
    show_progress("");
    const CompareSummary summary = summarise(comparisons);
    if (!options.out.empty()) {
        write_whole({{options.out + "/compare.csv", comparison_csv(comparisons)},
                     {options.out + "/summary.md", comparison_markdown(comparisons)}});
        if (summary.predicted > 0) {
            plot_scatter(comparisons, "Step time", options.out + "/scatter");
            plot_breakdown(comparisons, "Where the step goes", options.out + "/breakdown");
            plot_against_experts(comparisons, "Step time against experts", options.out + "/experts");
        }
    }
    print(options.json ? to_json(summary, comparisons) : comparison_table(comparisons));
    if (options.strict && summary.refused > 0)
        throw ConfigError("--strict: " + std::to_string(summary.refused) + " of " + std::to_string(summary.cases) + " cases refused");
}

void run_import(const Options& options) {
    ImportRequest request;
    request.logs = options.inputs;
    request.format = parse_log_format(options.format);
    request.out = options.out;
    request.routing_out = options.routing_out;
    for (const std::string& line : import_to_files(request)) say(line);
}

void run_list(const Options& options) {
    if (options.what == "keys") {
        for (const KeyDoc& key : key_docs())
            std::printf("%-40s %-10s %-12s %s\n", key.key.c_str(), key.kind.c_str(), key.default_value.c_str(),
                        key.meaning.c_str());
        return;
    }
    const std::pair<const char*, PresetKind> kinds[] = {{"experiments", PresetKind::experiment},
                                                        {"workloads", PresetKind::workload},
                                                        {"clusters", PresetKind::cluster}};
    for (const auto& [title, kind] : kinds) {
        std::printf("%s\n", title);
        for (const std::string& name : preset_names(kind)) std::printf("  %s\n", name.c_str());
    }
}

CLI::App* add_verb(CLI::App& app, const char* name, const char* purpose, void (*run)(const Options&), const Options& options) {
    CLI::App* verb = app.add_subcommand(name, purpose);
    verb->callback([run, &options] { run(options); });
    return verb;
}

void add_experiment(CLI::App* verb, Options& options) {
    verb->add_option("EXPERIMENT", options.experiment, "file or preset")->required();
    verb->add_option("--set", options.set, "KEY=VALUE, any key (stepcast list keys)")->allow_extra_args(false);
    verb->add_flag("--json", options.json, "one JSON object");
    verb->add_option("--trace", options.trace, "FILE.json for Perfetto");
}

CLI::Option* add_device(CLI::App* verb, Options& options) {
    verb->add_option("--ranks", options.ranks, "how many")->check(CLI::PositiveNumber);
    return verb->add_option("--device", options.device, "host or cuda");
}

void add_verbs(CLI::App& app, Options& options) {
    CLI::App* verb = add_verb(app, "simulate", "predict a step", run_simulate, options);
    add_experiment(verb, options);

    verb = add_verb(app, "execute", "run a step on this machine", run_execute, options);
    add_experiment(verb, options);
    verb->add_option("--out", options.out, "folder for the run: every sample and trace");
    add_device(verb, options)->required();
    verb->add_option("--steps", options.steps, "samples")->check(CLI::PositiveNumber);
    verb->add_option("--warmup", options.warmup, "steps before the first sample")->check(CLI::NonNegativeNumber);

    verb = add_verb(app, "calibrate", "measure this machine or fit recorded measurements; write a cluster file", run_calibrate, options);
    add_device(verb, options);
    verb->add_option("--measurements", options.measurements, "FILE.csv...");
    verb->add_option("--cluster", options.cluster, "file or preset to start from");
    verb->add_option("--out", options.out, "CLUSTER.toml")->required();

    verb = add_verb(app, "compare", "predicted against measured", run_compare, options);
    verb->add_option("INPUT", options.inputs, "CASES.csv, MEASUREMENTS.csv or RUN_DIR")->required();
    verb->add_option("--cluster", options.cluster, "file or preset to predict with");
    verb->add_option("--out", options.out, "folder for compare.csv, summary.md and plots");
    verb->add_flag("--json", options.json, "one JSON object");
    verb->add_flag("--strict", options.strict, "exit code 1 when a case is refused");

    verb = add_verb(app, "import", "training logs to measurements", run_import, options);
    verb->add_option("LOG", options.inputs)->required();
    verb->add_option("--format", options.format, "auto, moe-steps or moe-phases");
    verb->add_option("--out", options.out, "MEASUREMENTS.csv")->required();
    verb->add_option("--routing-out", options.routing_out, "folder for the routing a log records");

    verb = add_verb(app, "list", "presets or keys", run_list, options);
    verb->add_option("WHAT", options.what)->required()->check(CLI::IsMember({"presets", "keys"}));
}

// What CLI11 found wrong, in our words: the word that was not understood and the nearest valid one.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const auto rest = app.remaining(true);
    if (rest.empty()) return error.what();
    std::vector<std::string> valid;
    if (chosen.empty())
        for (const CLI::App* verb : app.get_subcommands({})) valid.push_back(verb->get_name());
    else
        for (const CLI::Option* option : chosen.front()->get_options())
            if (!option->get_lnames().empty()) valid.push_back("--" + option->get_lnames().front());
    return "\"" + rest.front() + "\" is no " + (chosen.empty() ? "verb" : "argument of " + chosen.front()->get_name()) +
           did_you_mean(rest.front(), valid);
}

int fail(int code, const std::string& message) {
    say(message);
    return code;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("Predicts the step time of distributed training, runs it, and shows predicted beside measured.", "stepcast");
    app.set_version_flag("--version", "stepcast " STEPCAST_VERSION);
    app.require_subcommand(1);
    add_verbs(app, options);
    try {
        app.parse(argc, argv);
        return 0;
    } catch (const CLI::Success& asked) {
        return app.exit(asked);
    } catch (const CLI::ParseError& error) {
        return fail(1, usage_error(app, error));
    } catch (const ConfigError& error) {
        return fail(1, error.what());
    } catch (const DeviceError& error) {
        return fail(2, error.what());
    } catch (const std::exception& error) {
        return fail(3, std::string("a bug of stepcast: ") + error.what());
    }
}
