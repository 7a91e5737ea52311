#include "import/tables/case_files.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "import/tables/case_of.h"
#include "import/tables/cases.h"
#include "import/tables/pytorch.h"
#include "import/tables/recorded.h"
#include "import/tables/row_parts.h"
#include "measured/medians.h"
#include "measured/read.h"
#include "model/base/csv.h"
#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/base/lists.h"
#include "model/base/stamp.h"
#include "model/input/check_experiment.h"
#include "model/input/presets.h"
#include "model/input/toml_reader.h"
#include "model/records/provenance.h"
#include "model/records/run_folder.h"
#include "model/step.h"
#include "sim/results/comparison.h"

namespace stepcast {
namespace {

namespace fs = std::filesystem;

// Takes the measured duration of every task, provided that the predicted step has the same task
// graph as the executed one.
void attribute_tasks(Case& run, const RunRecord& record, const std::string& folder) {
    const TaskGraph graph = build_step(run.experiment, routing_of(run.experiment), Folding::never);
    if (!record.graph_stamp.empty() && stamp_of(graph) != record.graph_stamp) {
        run.assumptions.push_back(
            run.case_id +
            ": compared as a whole: its step has other tasks here than when it was executed");
        return;
    }
    require_traces_of(graph, record, folder);
    run.measured_durations = median_durations(graph, record.measurement);
}

Case case_of_run(const std::string& folder, const std::string& cluster) {
    const RunRecord record = read_run(folder);
    Case run;
    run.source = "executed";
    run.experiment = record.experiment;
    run.case_id = run.series = run.experiment.name;
    for (const Override& one : record.overrides)
        run.case_id += fmt::format(" {}={}", one.key.substr(one.key.rfind('.') + 1), one.value);
    if (record.measurement.steps.empty())
        throw ConfigError(folder +
                          "/run.csv: no sample; expected a run that finished at least one step");
    if (!cluster.empty()) run.experiment.cluster = read_cluster(cluster);
    check_experiment(run.experiment);
    const StepTimes median = median_times(record.measurement);
    run.measured_step = median.step;
    run.measured_forward = median.forward;
    run.measured_backward = median.backward;
    attribute_tasks(run, record, folder);
    for (const std::string& warning : record.measurement.warnings)
        run.assumptions.push_back(
            fmt::format("{}: the measured steps hold although {}", run.case_id, warning));
    return run;
}

// The first row that is not a comment; empty for an empty file.
std::vector<std::string> header_of(const std::string& path) {
    CsvReader csv(path);
    return csv.next_after_comments() ? csv.fields() : std::vector<std::string>{};
}

Comparison comparison_of(const CaseRow& row, const std::string& cluster, Shelf& shelf) {
    Comparison comparison;
    Case& what = comparison.what;
    name_after(row, what);
    try {
        what = case_of(row, cluster, shelf);
        what.rows = {row_hash(what.experiment, row.cell("gpu"), what.measured_step)};
        what.cells =
            row_hash([&](std::string_view column) { return row.cell(std::string(column)); });
    } catch (const std::exception& error) {  // one bad row must not lose the others
        const bool ours = dynamic_cast<const ConfigError*>(&error) == nullptr;
        comparison.refused_because =
            (ours ? "a bug of stepcast: " : "") + std::string(error.what());
        try {
            what.measured_step = seconds_in(row, "step_s");
        } catch (const ConfigError&) {  // the measured step stays unknown; the first error is the
                                        // reason that counts
        }
    }
    return comparison;
}

// "CAUSE: what was found; what the row states": the first part goes.
void leave_out_cause(CaseRow& row) {
    const auto notes = row.cells.find("notes");
    constexpr std::string_view begin = "CAUSE:";
    if (notes == row.cells.end() || !notes->second.starts_with(begin)) return;
    const std::size_t end = std::min(notes->second.find(';'), notes->second.size());
    notes->second.replace(begin.size(), end - begin.size(), " left out");
}

// Rows with the same source and case id repeat one case: only the first counts.
std::vector<Comparison> comparisons_of(const std::vector<CaseRow>& rows, const std::string& cluster,
                                       Shelf shelf) {
    std::vector<Comparison> found;
    std::map<std::pair<std::string, std::string>, int> lines;
    for (const CaseRow& row : rows) {
        found.push_back(comparison_of(row, cluster, shelf));
        if (row.cell("case_id").empty()) continue;
        const auto [first, fresh] =
            lines.emplace(std::pair{row.cell("source"), row.cell("case_id")}, row.line);
        if (!fresh && found.back().refused_because.empty())
            found.back().refused_because =
                row.file + ":" + std::to_string(row.line) + ": case_id: \"" + row.cell("case_id") +
                "\" is also in line " + std::to_string(first->second) + "; expected each case once";
    }
    return found;
}

// Gathers the rows of each fit (one per cluster and framework) once, not once per comparison.
void add_evidence(std::vector<Comparison>& comparisons) {
    std::map<std::string, std::vector<RowHash>> fitted;
    for (Comparison& c : comparisons) {
        if (!c.refused_because.empty()) continue;
        const Cluster& cluster = c.what.experiment.cluster;
        const Framework& framework = c.what.experiment.framework;
        const auto [at, fresh] = fitted.try_emplace(cluster.name + " " + framework.name);
        if (fresh) at->second = fitted_rows(cluster);
        if (fresh && framework.fitted)
            at->second = joined(std::move(at->second), framework.fitted->rows);
        c.what.evidence = evidence_of(joined({c.what.cells}, c.what.rows), at->second, seen_rows());
    }
}

std::vector<Comparison> comparisons_of_samples(const std::vector<Sample>& samples,
                                               const std::string& routing,
                                               const std::string& cluster,
                                               const std::optional<ExperimentSource>& own) {
    std::vector<Comparison> found = comparisons_of_layers(samples, routing, cluster);
    append(found, comparisons_of_recorded(samples, cluster, own));
    return found;
}

// With what holds for comparisons of any kind. `framework`: what --framework names, unless rows
// have read it.
std::vector<Comparison> finished(std::vector<Comparison> found, const std::string& framework) {
    for (Comparison& c : found) {
        if (!framework.empty() && c.refused_because.empty())
            set_key(c.what.experiment, {"framework.preset", framework});
        for (std::string* text :
             {&c.what.source, &c.what.case_id, &c.what.series, &c.refused_because})
            *text = plain_text(*text);
        for (std::string& assumption : c.what.assumptions) assumption = plain_text(assumption);
    }
    add_evidence(found);
    return found;
}

}  // namespace

std::vector<RecordedExperiment> recorded_experiments() {
    std::vector<RecordedExperiment> found;
    for (const std::string& preset : preset_names(PresetKind::experiment)) {
        RecordedExperiment one{preset, {}, {}};
        for (const TomlEntry& entry :
             read_toml(preset_path(PresetKind::experiment, preset)).entries) {
            const auto* text = std::get_if<std::string>(&entry.value.value);
            if (text && entry.path == "recorded.system") one.systems = words_of(*text);
            if (text && entry.path == "recorded.model") one.model = *text;
        }
        if (!one.model.empty()) found.push_back(std::move(one));
    }
    return found;
}

std::string experiment_of_recorded(const std::string& system, const std::string& model,
                                   const std::vector<RecordedExperiment>& known) {
    if (model.ends_with(".toml") || has_preset(PresetKind::experiment, model)) return model;
    std::string all;
    for (const RecordedExperiment& one : known) {
        const auto& systems = one.systems;
        if (one.model == model && contains(systems, system)) return one.preset;
        all += fmt::format("{}{} of {}", all.empty() ? "" : "; ", joined(systems, ", "), one.model);
    }
    throw ConfigError(
        fmt::format("no experiment is recorded for system \"{}\" and model \"{}\"; expected an "
                    "experiment's name or "
                    "file as model, or "
                    "a preset whose [recorded] table names both (there are: {})",
                    system, model, all.empty() ? "none" : all));
}

std::vector<Comparison> comparisons_of(const std::vector<Sample>& samples,
                                       const std::string& cluster, const std::string& framework,
                                       const std::optional<ExperimentSource>& own) {
    return finished(comparisons_of_samples(samples, "", cluster, own), framework);
}

std::vector<Comparison> read_comparisons(const std::string& path, const std::string& cluster,
                                         const std::string& framework,
                                         const std::set<std::string>& forgotten, bool causes) {
    if (fs::is_directory(path))
        return finished({{case_of_run(path, cluster), {}, {}, {}}}, framework);
    const std::vector<std::string> header = header_of(path);
    if (holds_pytorch_steps(header))
        return finished(comparisons_of_pytorch(path, cluster), framework);
    if (!header.empty() && header.front() == "run_id") {
        const std::string routing = (fs::path(path).parent_path() / "routing").string();
        return finished(comparisons_of_samples(read_measurements(path), routing, cluster, {}),
                        framework);
    }
    std::vector<CaseRow> rows = read_cases(path);
    if (!causes)
        for (CaseRow& row : rows) leave_out_cause(row);
    return finished(comparisons_of(rows, cluster, Shelf(framework, forgotten)), "");
}

}  // namespace stepcast
