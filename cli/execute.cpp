// stepcast execute: runs an experiment's step on this host or its GPUs.

#include <cstdlib>
#include <memory>
#include <optional>

#include "cli/calibrate.h"
#include "cli/experiment_inputs.h"
#include "cli/output_files.h"
#include "cli/verbs.h"
#include "exec/cuda_plugin.h"
#include "exec/execute.h"
#include "exec/host_device.h"
#include "exec/launcher.h"
#include "model/base/errors.h"
#include "model/base/launcher.h"
#include "model/records/run_folder.h"
#include "model/step.h"
#include "reports/chrome_trace.h"
#include "reports/forecast_tables.h"
#include "reports/json.h"
#include "reports/step_page.h"

namespace stepcast {
namespace {

void check_executed_files(const Options& options) {
    Paths outputs = named({}, {options.trace});
    const Paths inputs = files_asked(options, options.experiment, overrides_of(options));
    add_in(outputs, options.out,
           {"experiment.toml", "cluster.toml", "framework.toml", "routing.csv", "run.toml",
            "run.csv", "report.html"},
           inputs);
    check_outputs(outputs, inputs);
}

std::unique_ptr<Device> open_device(const std::string& name, int ranks, const Run& run) {
    if (name == "cuda")
        return open_cuda_device({.ranks = ranks, .graph = run.cuda_graph, .seed = run.seed}).device;
    return open_host_device(ranks);
}

// Ranks on the host are processes if MPI started them, else threads of this process. RANK does not
// count: pods and torchrun set it.
bool is_first_process(const std::string& device) {
    return (device == "host" ? mpi_process() : read_launch(std::getenv).rank) == 0;
}

int run_execute(const Options& options) {
    require_foreign(options, {options.experiment});
    const Experiment experiment =
        asked_experiment(options, options.experiment, overrides_of(options), true);
    require_device(options.device);
    check_executed_files(options);
    const TaskGraph graph = build_step(experiment, routing_of(experiment), Folding::never);
    if (options.ranks > 0 && options.ranks != graph.rank_count())
        throw ConfigError("--ranks " + std::to_string(options.ranks) + ": " + experiment.name +
                          " is split over " + std::to_string(graph.rank_count()) +
                          " ranks; change parallelism and cluster with --set");
    Run run = experiment.run;
    if (options.steps > 0) run.steps = options.steps;
    if (options.warmup >= 0) run.warmup = options.warmup;
    ExecuteOptions how = execute_options(run);
    // before the device is opened, so that nothing has started when this throws
    std::optional<RunFolder> folder;
    if (!options.out.empty() && is_first_process(options.device))
        folder.emplace(options.out, experiment, overrides_of(options), graph);
    const auto device = open_device(options.device, graph.rank_count(), run);
    how.progress = show_progress;
    how.stop_asked = stop_asked;
    if (folder && device->reports())  // so that a killed run keeps its finished samples
        how.on_step = [&](const Measurement& sofar) { folder->add(sofar); };
    const Measurement measurement = execute(graph, *device, how);
    show_progress("");
    if (!device->reports()) return 0;
    if (how.on_step) folder->finish(measurement);
    if (folder) {
        Page page = run_page(experiment, measurement);
        add_once(page.provenance, origin_of(experiment, {version_text(), options.command}));
        write_page(options.out, page);
    }
    if (!options.trace.empty())
        write_chrome_trace(graph, measurement.traces.back(), options.trace,
                           {.notes = trace_notes(experiment.name, measurement)});
    print(options.json ? to_json(experiment.name, measurement)
                       : measurement_table(experiment.name, measurement));
    return 0;
}

}  // namespace

Verb execute_verb() {
    const Arguments run{
        {"--device", &Options::device, "host|cuda", "where to run", ungrouped, {.required = true}},
        {"--ranks", &Options::ranks, "COUNT",
         "ranks that the parallel layout must have; one a GPU with --device cuda"},
        {"--steps", &Options::steps, "COUNT", "samples"},
        {"--warmup",
         &Options::warmup,
         "COUNT",
         "steps before the first sample",
         ungrouped,
         {.least = 0}}};
    const Arguments output{json_argument(),
                           out_argument("the run: every sample and trace, and a page"),
                           trace_argument()};
    return {"execute", "run a step on this machine",
            "stepcast execute host_moe --device host --out run",
            joined({experiment_argument(), run, override_arguments(), output, foreign_arguments()}),
            run_execute};
}

}  // namespace stepcast
