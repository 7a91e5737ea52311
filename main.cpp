// The map: each verb is one function that walks the spine (README) by calling the folders' functions in order.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "arguments.h"
#include "calibrate/few_shot.h"
#include "calibrate/from_measurements.h"
#include "calibrate_cuda.h"
#include "calibrate_host.h"
#include "early_checks.h"
#include "exec/cuda_plugin.h"
#include "exec/execute.h"
#include "exec/host_device.h"
#include "exec/host_machine.h"
#include "model/cases/cases.h"
#include "model/errors.h"
#include "model/experiment.h"
#include "model/presets.h"
#include "model/run_folder.h"
#include "model/step.h"
#include "model/whole_files.h"
#include "reports/chrome_trace.h"
#include "reports/elasticity_plot.h"
#include "reports/explain_tables.h"
#include "reports/json.h"
#include "reports/summary.h"
#include "reports/sweep_plots.h"
#include "reports/sweep_tables.h"
#include "reports/tables.h"
#include "sim/explain/explain.h"
#include "sim/predict.h"
#include "sim/sweep/sweep.h"
#include "startup.h"

using namespace stepcast;

namespace {

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }
void say(const std::string& line) { std::fprintf(stderr, "stepcast: %s\n", line.c_str()); }
// One line that is overwritten on a terminal; nothing in a pipe.
void show_progress(std::string_view text) {
    if (isatty(STDERR_FILENO)) std::fprintf(stderr, "\r\033[K%.*s", static_cast<int>(text.size()), text.data());
}

Experiment experiment_of(const Options& options) { return read_experiment(options.experiment, overrides_of(options)); }

std::unique_ptr<Device> open_device(const std::string& name, int ranks, const Run& run) {
    if (name == "cuda") return open_cuda_device({.ranks = ranks, .graph = run.cuda_graph, .seed = run.seed}).device;
    return open_host_device(ranks);
}

void run_simulate(const Options& options) {
    const Experiment experiment = experiment_of(options);
    require_other_file(options.trace, options.experiment);
    const Forecast forecast = predict(experiment);
    if (!options.trace.empty()) {
        const TaskGraph graph = build_step(experiment, routing_of(experiment));
        write_chrome_trace(graph, simulate(graph, price(graph, experiment.cluster)), options.trace);
    }
    const std::optional<Explanation> why = options.explain ? std::optional(explain(experiment)) : std::nullopt;
    print(options.json ? to_json(forecast, why) : forecast_table(forecast));
    if (why && !options.json) print("\n" + explanation_table(*why) + "\n" + kernel_table(forecast));
    if (why && !options.out.empty()) {
        make_folder(options.out);
        plot_elasticities(*why, forecast.experiment + " on " + forecast.cluster, options.out + "/elasticity");
    }
}

// Beside the first process of an MPI launcher, which alone answers and complains.
void help_with_sweep(const Options& options) {
    try {
        help_sweep(question_of(options));
    } catch (const ConfigError&) {
        return;
    }
}

void run_sweep(const Options& options) {
    if (is_sweep_helper()) return help_with_sweep(options);
    const SweepQuestion question = question_of(options);
    const SweepAnswer result = sweep(question, {.threads = options.threads,
                                                .out = options.out,
                                                .resume = options.resume,
                                                .progress = show_progress,
                                                .announce = [](std::string_view text) { say(std::string(text)); }});
    show_progress("");
    print(options.json ? to_json(result) : sweep_table(result));
    if (!options.out.empty()) write_sweep(options.out, result);
}

void run_execute(const Options& options) {
    const Experiment experiment = experiment_of(options);
    require_other_file(options.trace, options.experiment);
    require_device(options.device);
    const TaskGraph graph = build_step(experiment, routing_of(experiment), Folding::never);
    if (options.ranks > 0 && options.ranks != graph.rank_count())
        throw ConfigError("--ranks " + std::to_string(options.ranks) + ": " + experiment.name + " is split over " +
                          std::to_string(graph.rank_count()) + " ranks; change parallelism and cluster with --set");
    Run run = experiment.run;
    if (options.steps > 0) run.steps = options.steps;
    if (options.warmup >= 0) run.warmup = options.warmup;
    ExecuteOptions how = execute_options(run);
    const auto device = open_device(options.device, graph.rank_count(), run);
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
    if (!options.trace.empty()) write_chrome_trace(graph, measurement.traces.back(), options.trace);
    print(options.json ? to_json(experiment.name, measurement) : measurement_table(experiment.name, measurement));
}

std::string calibrate_steps(const Options& options) {
    const FewShotRequest request{
        .measurements = options.measurements,
        .cluster = options.cluster,
        .framework = options.framework,
        .out = options.out,
        .date = current_date(),
        .target = options.fit.empty() ? FitTarget::hardware : parse_fit_target(options.fit)};
    const std::string text = options.cross_validate.empty()
                                 ? calibrate_few_shot(request, show_progress)
                                 : cross_validate(request, parse_block(options.cross_validate), show_progress);
    show_progress("");
    return text;
}

void run_calibrate(const Options& options) {
    if (options.out.empty() && options.cross_validate.empty())
        throw ConfigError("calibrate: expected --out, the file to write");
    if (options.device.empty() == options.measurements.empty())
        throw ConfigError(
            "calibrate: expected --device host or cuda to measure this machine, or --measurements to fit recorded "
            "files");
    if (!options.device.empty()) {
        require_device(options.device);
        make_folder_of(options.out);
        return print(options.device == "cuda" ? calibrate_cuda(options, show_progress)
                                              : calibrate_host(options, show_progress));
    }
    if (options.cluster.empty())
        throw ConfigError("calibrate: --measurements needs --cluster, the file or preset to start from");
    if (!options.fit.empty() || !options.framework.empty() || !options.cross_validate.empty())
        return print(calibrate_steps(options));
    print(calibrate_from_measurements(
        {.measurements = options.measurements, .cluster = options.cluster, .out = options.out, .date = current_date()},
        show_progress));
}

void run_compare(const Options& options) {
    if (!options.cluster.empty()) (void)read_cluster(options.cluster);  // a wrong name is no reason of single cases
    if (!options.framework.empty()) (void)read_framework(options.framework);
    std::vector<Comparison> comparisons;
    for (const std::string& path : options.inputs)
        for (Comparison& c : read_comparisons(path, options.cluster, options.framework)) comparisons.push_back(std::move(c));
    if (!options.out.empty()) make_folder(options.out);
    predict_all(comparisons, show_progress);
    show_progress("");
    const CompareSummary summary = summarise(comparisons);
    print(options.json ? to_json(summary, comparisons) : comparison_table(comparisons));
    if (!options.out.empty()) write_comparison(options.out, "Predicted against measured", comparisons);
    if (options.strict && summary.refused > 0)
        throw ConfigError("--strict: " + std::to_string(summary.refused) + " of " + std::to_string(summary.cases) +
                          " cases refused");
}

void run_import(const Options& options) {
    for (const std::string& line : import_to_files(import_request_of(options))) say(line);
}

void run_list(const Options& options) {
    if (options.what == "keys") return print(keys_table(key_docs()));
    std::vector<Experiment> experiments;
    std::vector<Cluster> clusters;
    for (const std::string& name : preset_names(PresetKind::experiment)) experiments.push_back(read_experiment(name));
    for (const std::string& name : preset_names(PresetKind::cluster)) clusters.push_back(read_cluster(name));
    std::vector<Framework> frameworks;
    for (const std::string& name : preset_names(PresetKind::framework)) frameworks.push_back(read_framework(name));
    print(presets_table(experiments, preset_names(PresetKind::workload), preset_names(PresetKind::family), frameworks,
                        clusters));
}

int fail(int code, const std::string& message) {
    say(message);
    return code;
}

}  // namespace

int main(int argc, char** argv) {
    close_blas_threads();
    keep_freed_memory();
    try {
        return run_command_line(argc, argv,
                                {.simulate = run_simulate,
                                 .sweep = run_sweep,
                                 .execute = run_execute,
                                 .calibrate = run_calibrate,
                                 .compare = run_compare,
                                 .import = run_import,
                                 .list = run_list});
    } catch (const ConfigError& error) {
        return fail(1, error.what());
    } catch (const DeviceError& error) {
        return fail(2, error.what());
    } catch (const std::exception& error) {
        return fail(3, std::string("a bug of stepcast: ") + error.what());
    }
}
