#include "cli/verbs.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "calibrate/kernel_comparisons.h"
#include "calibrate/replay.h"
#include "calibrate/trace_forecast.h"
#include "cli/startup.h"
#include "import/tables/cases.h"
#include "model/base/errors.h"
#include "reports/json.h"
#include "reports/pages.h"
#include "reports/tables.h"
#include "sim/predict_all.h"

namespace stepcast {
namespace {

// The traced work gets processes of its own, because the replay uses the same lanes.
TracedSlices slices_of(const Replay& r, const std::vector<Profile>& job) {
    constexpr int first_process = 1000;
    TracedSlices all;
    for (std::size_t i = 0; i < job.size(); ++i)
        all.processes.emplace_back(first_process + static_cast<int>(i),
                                   "traced rank " + std::to_string(job[i].rank));
    for (const Span& s : r.traced.spans)
        all.slices.push_back(
            {first_process + s.place.rank(), static_cast<int>(s.place.lane()),
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

}  // namespace

bool compare_traces(const Options& options) {
    if (!are_profiles(options.inputs)) {
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
    if (options.model.empty() && (!overrides_of(options).empty() || !options.out.empty()))
        throw ConfigError(
            "compare: traces without --model are predicted by their own kernel tables, without a "
            "page; --cluster, "
            "--framework, --gpus, --set and --out need --model, the experiment that ran");
    if (!options.cluster.empty()) (void)read_cluster(options.cluster);
    check_files_of_compare(options);
    std::vector<std::string> report;
    const std::vector<Profile> job = read_job(options.inputs, report);
    for (const std::string& line : report) say_on_stderr(line);
    options.model.empty() ? compare_with_itself(options, job) : compare_with_forecast(options, job);
    if (!options.trace.empty())
        say_on_stderr(options.trace + ": predicted and traced step, aligned; opens in Perfetto");
    return true;
}

Compared compare_inputs(const Options& options, const Progress& progress) {
    // a wrong name would otherwise be a reason to refuse each case
    if (!options.cluster.empty()) (void)read_cluster(options.cluster);
    check_files_of_compare(options);
    if (!options.framework.empty()) (void)read_framework(options.framework);
    Compared compared{};
    for (const std::string& path : options.inputs) {
        if (is_log(path))
            std::ranges::move(comparisons_of_log(options, path),
                              std::back_inserter(compared.comparisons));
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

}  // namespace stepcast
