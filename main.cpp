// Each verb is one function, which calls the functions of the folders in the order of the flow in
// docs/developing.md.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "cli/startup.h"
#include "cli/verbs.h"
#include "exec/cuda_plugin.h"
#include "exec/execute.h"
#include "exec/host_device.h"
#include "exec/launcher.h"
#include "import/tables/row_hashes.h"
#include "model/base/errors.h"
#include "model/base/launcher.h"
#include "model/experiment.h"
#include "model/input/presets.h"
#include "model/input/remarks.h"
#include "model/records/run_folder.h"
#include "model/step.h"
#include "reports/gate.h"
#include "reports/graph_dot.h"
#include "reports/json.h"
#include "reports/pages.h"
#include "sim/sweep/sweep.h"

using namespace stepcast;

namespace {

// On a terminal one line that is overwritten, which an empty text clears; in a log a line after 10
// s, then every 30 s.
void show_progress(std::string_view text) {
    using Clock = std::chrono::steady_clock;
    static Clock::time_point next_line = Clock::now() + std::chrono::seconds(10), shown;
    const auto now = Clock::now();
    if (isatty(STDERR_FILENO)) {
        if (!text.empty() && now - shown < std::chrono::milliseconds(50)) return;
        shown = text.empty() ? Clock::time_point() : now;
        std::fprintf(stderr, "\r\033[K%.*s", static_cast<int>(text.size()), text.data());
    } else if (!text.empty() && now >= next_line) {
        next_line = now + std::chrono::seconds(30);
        say_on_stderr(std::string(text));
    }
}

Experiment experiment_of(const Options& options) {
    require_foreign(options, {options.experiment});
    return asked_experiment(options, options.experiment, overrides_of(options), true);
}

std::unique_ptr<Device> open_device(const std::string& name, int ranks, const Run& run) {
    if (name == "cuda")
        return open_cuda_device({.ranks = ranks, .graph = run.cuda_graph, .seed = run.seed}).device;
    return open_host_device(ranks);
}

std::string headline(const std::string& experiment, const std::string& cluster, const Experiment& e,
                     Seconds step) {
    return experiment + " on " + std::to_string(rank_count(e.cluster)) + " ranks of " + cluster +
           ": step " + time_text(step);
}

void run_simulate(const Options& options) {
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
}

// For every process of an MPI launcher but the first, which alone prints answers and errors.
void help_with_sweep(const Options& options) {
    try {
        help_sweep(question_of(options));
    } catch (const ConfigError&) {
        return;
    }
}

// The flags of the best split that the framework can run; with --within, of the least machines. The
// table goes to stderr.
void print_best(const Options& options, const SweepQuestion& question, const SweepAnswer& answer) {
    std::fputs(sweep_table(answer).c_str(), stderr);
    std::vector<SweepRow> rows = where(answer.of_each, &SweepRow::least_within);
    if (rows.empty()) rows = answer.best;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        Experiment split = question.experiment;
        set_varied(split, rows[i].settings, question.stated);
        try {
            return print(
                emitted(split, options,
                        headline(answer.experiment, split.cluster.name, split, rows[i].step)));
        } catch (const ConfigError& error) {
            options.say("row " + std::to_string(i + 1) + ": " + error.what());
        }
    }
    throw ConfigError("--emit " + options.emit +
                      ": none of the rows can be written; more of them with --top");
}

void run_sweep(const Options& options) {
    if (is_sweep_helper()) return help_with_sweep(options);
    const SweepQuestion question = question_of(options);
    check_files_of_sweep(options);
    const auto is_of_machine = [](const std::string& remark) {
        return remark.starts_with("cluster.");
    };
    for (const std::string& remark : remarks_on(question.experiment))  // it may be why nothing fits
        if (is_of_machine(remark)) options.say("note: " + remark);
    const SweepAnswer result = sweep(
        question, {.threads = options.threads,
                   .out = options.out,
                   .map = !options.out.empty(),
                   .progress = show_progress,
                   .announce = [&](std::string_view text) { options.say(std::string(text)); }});
    show_progress("");
    if (!options.emit.empty())
        print_best(options, question, result);
    else
        print(options.json ? to_json(result) : sweep_table(result));
    if (!result.best.empty()) {
        Experiment best = question.experiment;
        set_varied(best, result.best.front().settings, question.stated);
        for (const std::string& remark : remarks_on(best))
            if (!is_of_machine(remark)) options.say("note: " + remark);
    }
    if (!options.out.empty())
        write_sweep(options.out, result,
                    origin_of(question.experiment, {version_text(), options.command}));
}

// Ranks on the host are processes if MPI started them, else threads of this process. RANK does not
// count: pods and torchrun set it.
bool is_first_process(const std::string& device) {
    return (device == "host" ? mpi_process() : read_launch(std::getenv).rank) == 0;
}

void run_execute(const Options& options) {
    const Experiment experiment = experiment_of(options);
    require_device(options.device);
    check_files_of_execute(options);
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
    if (!device->reports()) return;
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
}

void run_calibrate(const Options& options) { print(calibrate(options, show_progress)); }

// Ends the program with a code that is no error.
struct EndsWith {
    int code;
};

void run_gate(const Options& options) {
    const GateAnswer found = gate_answer(options);
    print(options.json ? to_json(found) : gate_text(found));
    if (found.verdict == GateAnswer::Verdict::fail) throw EndsWith{4};
    if (found.verdict == GateAnswer::Verdict::cannot_tell) throw EndsWith{5};
}

void run_compare(const Options& options) {
    if (options.gate) return run_gate(options);
    if (options.waterfall) return print(waterfall_text(options));
    if (compare_traces(options)) return;
    const Compared compared = compare_inputs(options, show_progress);
    show_progress("");
    const auto& [comparisons, kernels, summary, steps] = compared;
    if (options.json) print(to_json(summary, comparisons, kernels));
    if (!options.json && steps) print(comparison_table(comparisons));
    if (!options.json) print(kernel_table(kernels));
    if (!options.out.empty() && (steps || !kernels.rows.empty()))
        write_comparison(options.out, options.inputs, comparisons, kernels,
                         {version_text(), options.command});
    require_predicted(compared, options.strict);
}

void run_diagnose(const Options& options) { print(diagnosis_text(options)); }

void run_import(const Options& options) {
    keep_freed_memory(1 << 17);  // traces are large and are read once
    check_files_of_import(options);
    if (import_foreign(options)) return;
    const bool told = options.format == "profile" || options.format == "nccl-tests";
    const bool profiles = told || (options.format == "auto" && are_profiles(options.inputs));
    check_options_of_import(options, profiles ? ImportKind::profile : ImportKind::log);
    for (const std::string& line :
         profiles ? import_profiles(profile_import_of(options)) : import_logs(options))
        options.say(line);
}

void run_list(const Options& options) {
    if (options.what != "rows" && options.inputs.size() > 1)
        throw ConfigError("list " + options.what + ": found several words; expected one");
    if (options.what == "rows") return print(rows_text(options.inputs));
    const std::string word = options.inputs.empty() ? "" : options.inputs.front();
    const auto print_found = [&](const std::string& found) {
        if (found.empty()) options.say("list " + options.what + ": no line has \"" + word + "\"");
        print(found);
    };
    if (options.what == "keys") return print_found(keys_table(key_docs(), word));
    std::vector<Experiment> experiments;
    std::vector<Cluster> clusters;
    for (const std::string& name : preset_names(PresetKind::experiment))
        experiments.push_back(read_experiment(name));
    for (const std::string& name : preset_names(PresetKind::cluster))
        clusters.push_back(read_cluster(name));
    std::vector<Framework> frameworks;
    for (const std::string& name : preset_names(PresetKind::framework))
        frameworks.push_back(read_framework(name));
    const std::string table = presets_table(experiments, preset_names(PresetKind::workload),
                                            preset_names(PresetKind::family), frameworks, clusters,
                                            preset_names(PresetKind::nameplate));
    print_found(word.empty() ? table : entries_with(table, word));
}

void run_show(const Options& options) { print(shown(options)); }

int fail(int code, const std::string& message) {
    say_on_stderr(message);
    return code;
}

}  // namespace

int main(int argc, char** argv) {
    open_standard_files();
    end_on_signals();
    close_blas_threads();
    keep_freed_memory();
    try {
        const int code = run_command_line(argc, argv,
                                          {{"simulate", run_simulate},
                                           {"sweep", run_sweep},
                                           {"execute", run_execute},
                                           {"calibrate", run_calibrate},
                                           {"compare", run_compare},
                                           {"diagnose", run_diagnose},
                                           {"import", run_import},
                                           {"list", run_list},
                                           {"show", run_show}});
        finish_output();
        return code != 0 ? code : exit_code_of_stop();
    } catch (const EndsWith& end) {
        finish_output();
        return end.code;
    } catch (const ConfigError& error) {
        return fail(1, error.what());
    } catch (const DeviceError& error) {
        return fail(2, error.what());
    } catch (const std::bad_alloc&) {
        return fail(1, "out of memory; expected a machine with more of it, or a smaller question");
    } catch (const std::exception& error) {
        return fail(3, std::string("a bug of stepcast: ") + error.what());
    }
}
