#include "cli/compare.h"

#include <algorithm>
#include <utility>

#include "calibrate/kernel_comparisons.h"
#include "calibrate/replay.h"
#include "calibrate/trace_forecast.h"
#include "cli/experiment_inputs.h"
#include "cli/gate.h"
#include "cli/output_files.h"
#include "cli/run_inputs.h"
#include "cli/simulate.h"
#include "cli/verbs.h"
#include "cli/waterfall.h"
#include "import/launch/translation.h"
#include "import/profiles/import_profiles.h"
#include "import/tables/case_files.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "reports/compare_page.h"
#include "reports/comparison_json.h"
#include "reports/comparison_tables.h"
#include "reports/explain_tables.h"
#include "reports/forecast_tables.h"
#include "reports/json.h"
#include "reports/kernel_tables.h"
#include "sim/predict_all.h"

namespace stepcast {
namespace {

constexpr const char *of_gate = "Slower than its history? (--gate)",
                     *of_traces = "Traces of a profiler, and logs";

void check_compared_files(const Options& options) {
    Paths outputs = named({}, {options.trace});
    const Paths inputs = named(options.inputs, {options.cluster, options.framework, options.model});
    add_in(outputs, options.out,
           {"compare.csv", "kernels.csv", "summary.md", "kernels.md", "report.html"}, inputs);
    check_outputs(outputs, inputs);
}

// The traced work gets processes of its own, because the replay uses the same lanes.
TracedSlices slices_of(const Replay& r, const std::vector<Profile>& job) {
    constexpr int first_process = 1000;
    TracedSlices all;
    for (const std::size_t i : indices_of(job))
        all.processes.emplace_back(first_process + as_int(i),
                                   "traced rank " + std::to_string(job[i].rank));
    for (const Span& s : r.traced.spans)
        all.slices.push_back(
            {first_process + s.place.rank(), as_int(s.place.lane()),
             std::string(r.graph.name(s.task)), std::string(kind_name(r.graph.op(s.task))),
             std::string(to_string(r.graph.phase(s.task))), s.start, s.finish - s.start});
    return all;
}

void compare_with_itself(const Options& options, const std::vector<Profile>& job) {
    const Replay r = replay(job);
    print(options.json ? to_json(r.step) : traced_table(r.step));
    if (!options.trace.empty())
        write_chrome_trace(r.graph, r.predicted, options.trace,
                           {.notes = {{"predicted", "from the trace's own kernel tables"},
                                      {"traced", r.step.name}},
                            .traced = slices_of(r, job),
                            .prefix = "predicted "});
}

void compare_with_forecast(const Options& options, const std::vector<Profile>& job) {
    Options of_experiment = options;
    of_experiment.model.clear();  // the experiment itself, not what its file leaves open
    const Experiment experiment =
        asked_experiment(of_experiment, options.model, overrides_of(options), true);
    const TraceForecast found = forecast_of_trace(job, experiment);
    const std::vector<Comparison> comparisons{found.comparison};
    print(options.json ? to_json(summarise(comparisons), comparisons, {})
                       : comparison_table(comparisons));
    for (const std::string& note : found.notes) say_on_stderr("note: " + note);
    if (!options.out.empty())
        write_comparison(options.out, options.inputs, comparisons, {},
                         {version_text(), options.command});
    if (options.trace.empty()) return;
    auto [trace, extras] = predicted_trace(experiment, found.prediction);
    extras.notes.emplace_back("traced", found.comparison.what.case_id);
    extras.traced = found.traced;
    extras.prefix = "predicted ";
    write_chrome_trace(found.prediction.graph, trace, options.trace, extras);
}

// Whether the inputs are a profiler's traces. Throws ConfigError for options that other inputs do
// not have.
bool are_traces(const Options& options) {
    if (are_profiles(options.inputs)) return true;
    const bool logs = !options.inputs.empty() && std::ranges::all_of(options.inputs, is_log);
    if ((!options.model.empty() && !logs) || !options.trace.empty() || !options.set.empty() ||
        options.gpus > 0)
        throw ConfigError(
            "compare: --trace, --set and --gpus are of traces of a profiler, --model of these "
            "and of logs; " +
            options.inputs.front() +
            " is none; expected --cluster or --framework, or cases that say it");
    return false;
}

// Compares traces with the forecast of --model, or with a prediction from their own kernel tables.
int compare_traces(const Options& options) {
    if (options.model.empty() && (!overrides_of(options).empty() || !options.out.empty()))
        throw ConfigError(
            "compare: traces without --model are predicted by their own kernel tables, without a "
            "page; --cluster, "
            "--framework, --gpus, --set and --out need --model, the experiment that ran");
    if (!options.cluster.empty()) (void)read_cluster(options.cluster);
    check_compared_files(options);
    std::vector<std::string> report;
    const std::vector<Profile> job = read_job(options.inputs, report);
    for (const std::string& line : report) say_on_stderr(line);
    options.model.empty() ? compare_with_itself(options, job) : compare_with_forecast(options, job);
    if (!options.trace.empty())
        say_on_stderr(options.trace + ": predicted and traced step, aligned; opens in Perfetto");
    return 0;
}

// Throws ConfigError if nothing could be predicted, or with --strict if not everything could.
void require_predicted(const Compared& compared, bool strict) {
    const CompareSummary& summary = compared.summary;
    if (!compared.steps && compared.kernels.rows.empty())
        throw ConfigError("no kernel can be predicted: the reasons are above");
    if (summary.cases > 0 && summary.predicted == 0)
        throw ConfigError("none of " + std::to_string(summary.cases) +
                          " cases can be predicted: the reasons are above");
    if (strict && summary.refused > 0)
        throw ConfigError("--strict: " + std::to_string(summary.refused) + " of " +
                          std::to_string(summary.cases) + " cases refused");
}

int run_compare(const Options& options) {
    if (options.gate) return run_gate(options);
    if (options.waterfall) return run_waterfall(options);
    if (are_traces(options)) return compare_traces(options);
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
    return 0;
}

}  // namespace

Compared compare_inputs(const Options& options, const Progress& progress) {
    // a wrong name would otherwise be a reason to refuse each case
    if (!options.cluster.empty()) (void)read_cluster(options.cluster);
    check_compared_files(options);
    if (!options.framework.empty()) (void)read_framework(options.framework);
    Compared compared{};
    for (const std::string& path : options.inputs) {
        if (is_log(path))
            append(compared.comparisons, comparisons_of_log(options, path));
        else if (holds_kernels(path))
            add(compared.kernels, read_kernel_comparisons(path, options.cluster));
        else
            for (Comparison& c : read_comparisons(path, options.cluster, options.framework))
                compared.comparisons.push_back(std::move(c));
    }
    compared.steps = !compared.comparisons.empty() ||
                     (compared.kernels.rows.empty() && compared.kernels.refused.empty());
    predict_all(compared.comparisons, progress);
    OwnSteps own;
    for (const std::string& path : options.measured)
        add(own, own_steps_of_file(path, options, false));
    for (Comparison& c : compared.comparisons)
        if (c.forecast) narrow(own, c.what.experiment, *c.forecast);
    compared.summary = summarise(compared.comparisons);
    return compared;
}

Verb compare_verb() {
    const Arguments machine{{"--cluster", &Options::cluster, "CLUSTER",
                             "the machine to predict with: file or preset", of_machine},
                            {"--framework", &Options::framework, "FRAMEWORK",
                             "the framework that all cases ran in: file or preset", of_machine}};
    const Arguments traces{
        {"--model", &Options::model, "EXPERIMENT",
         "the experiment that ran; without it a trace's own kernel tables predict it, a "
         "log's own arguments",
         of_traces},
        {"--gpus", &Options::gpus, "COUNT", "ranks of --model", of_traces, {.most = 1 << 20}},
        {"--set", &Options::set, "KEY=VALUE", "any key of --model", of_traces},
        {"--trace", &Options::trace, "FILE.json",
         "for Perfetto: the predicted step next to the traced one", of_traces}};
    const Arguments output{
        json_argument(),
        out_argument("tables, summary.md, plots and a page"),
        {"--strict", &Options::strict, "", "exit code 1 when a case is refused", of_output}};
    const Arguments own{
        {"--measured",
         &Options::measured,
         "FILE|TIME,TIME",
         "your own steps, which narrow the forecasts: CASES.csv or what simulate --save "
         "wrote; of --waterfall the measured steps of both, - for one that is not known",
         of_own_steps,
         {.comma = true}},
        {"--waterfall", &Options::waterfall, "",
         "of two experiments, launch scripts, logs or rows (TABLE.csv:CASE): what each "
         "difference costs",
         of_own_steps}};
    const Arguments gate{
        {"--gate", &Options::gate, "",
         "is one run slower than its history? exit code 4 if so, 5 if unknown", of_gate},
        {"--history", &Options::history, "DIR", "folder of earlier runs", of_gate},
        {"--false-alarms", &Options::false_alarms, "SHARE",
         "rate of false alarms: share of healthy runs that may fail (1%)", of_gate},
        {"--allow", &Options::allow, "", "take a history of other configurations too", of_gate},
        {"--junit", &Options::junit, "FILE.xml", "the verdict as JUnit XML", of_gate}};
    return {"compare", "predicted against measured",
            "stepcast compare mine.csv --framework torchtitan --out page",
            joined({{{"INPUT",
                      &Options::inputs,
                      "",
                      "CASES.csv, MEASUREMENTS.csv, a training log, a table of kernels, "
                      "RUN_DIR, or a profiler's traces, one a rank",
                      ungrouped,
                      {.required = true}}},
                    machine,
                    traces,
                    own,
                    gate,
                    output}),
            run_compare};
}

}  // namespace stepcast
