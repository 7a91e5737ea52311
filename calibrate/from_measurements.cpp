#include "calibrate/from_measurements.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "calibrate/building_blocks.h"
#include "calibrate/fit_moe.h"
#include "calibrate/fit_noise.h"
#include "calibrate/fit_tables.h"
#include "calibrate/step_fit_files.h"
#include "calibrate/step_model.h"
#include "calibrate/table_cases.h"
#include "calibrate/table_record.h"
#include "calibrate/traced_tables.h"
#include "import/tables/case_files.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/base/refuse.h"
#include "model/base/whole_files.h"
#include "model/experiment.h"
#include "model/machine/cluster_file.h"
#include "model/records/provenance.h"
#include "sim/calibration.h"
#include "sim/results/comparison.h"

namespace stepcast {
namespace {

enum class Family { tables, samples, cases };  // in the order of their fits

Family family_of(const std::string& path) {
    const TableKind kind = kind_of_table(path);
    return kind == TableKind::samples ? Family::samples
           : kind == TableKind::cases ? Family::cases
                                      : Family::tables;
}

// The files by family. Tables come first, because they say what kernels and links do alone, and
// steps what is left.
std::map<Family, std::vector<std::string>> by_family(const std::vector<std::string>& paths) {
    if (paths.empty()) throw ConfigError("calibrate: no measurements; expected at least one file");
    std::map<Family, std::vector<std::string>> families;
    for (const std::string& path : paths) families[family_of(path)].push_back(path);
    return families;
}

// Whether the file has the steps and phases of a profile, which are for `compare` only.
bool is_of_profile(const std::string& path) {
    if (family_of(path) != Family::samples) return false;
    const std::vector<Sample> samples = read_measurements(path);
    return std::ranges::any_of(samples, [](const Sample& s) { return s.phase == "busy"; }) &&
           std::ranges::any_of(samples, [](const Sample& s) { return s.phase == "idle"; });
}

std::vector<std::string> file_names(const CalibrationRequest& request) {
    std::vector<std::string> names;
    for (const std::string& path : request.measurements)
        names.push_back(std::filesystem::path(path).filename().string());
    return names;
}

// Writes the cluster. Its record includes the rows that the start was fitted to, since they
// influence the result too.
std::string written(Cluster cluster, const Cluster& start, const CalibrationRequest& request) {
    Fitted& fitted = *cluster.fitted;
    fitted.date = request.date;
    if (start.fitted) fitted.rows = joined(std::move(fitted.rows), start.fitted->rows);
    for (const std::string& name : file_names(request)) put(fitted.sources, name);
    fitted.constants = other_constants(cluster, start, joined(file_names(request), ", "));
    write_whole({{request.out, write_cluster(cluster)}});
    return fmt::format("{}\nconstants that these and earlier data determined: {}", request.out,
                       calibration_text(cluster));
}

// Whether the samples are of whole models, which tell the noise; samples of an MoE layer tell its
// kernels and links.
bool of_whole_models(const std::vector<Sample>& samples) {
    return std::ranges::none_of(samples,
                                [](const Sample& s) { return s.model.starts_with("moe_layer"); });
}

// A hint about steps that are far from their forecast: the spread does not tell this, a fit with
// --fit would.
std::string off_forecast(const CalibrationRequest& request) {
    std::string text;
    for (const std::string& path : request.measurements)
        for (const Comparison& run : read_comparisons(path, request.cluster, request.framework)) {
            if (!run.refused_because.empty() || !(run.what.measured_step.si() > 0)) continue;
            const Seconds forecast = step_with_slopes(run.what, {}, {}).step;
            text += fmt::format(
                "{}: measured {}, forecast {} ({:+.0f} % off); --fit fits constants to such "
                "steps\n",
                run.what.case_id, to_string(run.what.measured_step), to_string(forecast),
                100 * (forecast / run.what.measured_step - 1));
        }
    return text;
}

std::string fit_recorded(const Cluster& start, const CalibrationRequest& request,
                         const std::vector<Sample>& samples) {
    const StepSeries series = longest_series(samples);
    NoiseFit fit = fit_noise(start, series);
    fit.cluster.fitted->rows = joined(std::move(fit.cluster.fitted->rows), step_rows(samples));
    return fmt::format("noise of run {}, {} steps; start {}, written to {}\n{}", series.run_id,
                       series.step.size(), start.name, written(fit.cluster, start, request),
                       describe(fit)) +
           off_forecast(request);
}

std::string fit_samples(const Cluster& start, const CalibrationRequest& request,
                        const Progress& progress) {
    std::vector<Sample> samples;
    for (const std::string& path : request.measurements)
        for (Sample& s : read_measurements(path)) samples.push_back(std::move(s));
    if (of_whole_models(samples)) return fit_recorded(start, request, samples);
    FitResult result = fit_moe(start, samples, progress);
    result.cluster.fitted->rows =
        joined(std::move(result.cluster.fitted->rows), step_rows(samples));
    return fmt::format("{} cases, start {}, written to {}\n{}", result.cases.size(), start.name,
                       written(result.cluster, start, request), describe(result));
}

// Whether any constant was determined. Fits of kernels by name report no constants, so they count.
bool determines_anything(const TablesFit& fit) {
    return std::ranges::any_of(fit.results, [](const FitResult& r) {
        return r.parameters.empty() ||
               std::ranges::any_of(r.parameters,
                                   [](const ParameterReport& p) { return p.parameter.determined; });
    });
}

std::string text_of(const TablesFit& fit, const Cluster& start) {
    std::string text;
    for (const KeptKind& kept : fit.kept) text += describe(kept, start.name);
    for (const FitResult& result : fit.results) text += describe(result);
    return text;
}

// Reads the tables and removes from `paths` the files of which every row is left out: they are no
// source of the fit.
BuildingBlocks read_used(std::vector<std::string>& paths, const Cluster& start) {
    const auto left_out = [](const BuildingBlocks& b) {
        return b.other_device_rows + b.other_op_rows + b.upper_bound_rows + b.unstated_rows +
               b.part_nodes_rows;
    };
    const auto kept = [](const BuildingBlocks& b) {
        return b.gemms.size() + b.traced.size() + b.kernels.size() + b.launches.size() +
               b.collectives.size() + b.exchanges.size() + b.moe_layers.size() +
               b.attentions.size() + b.casts.size();
    };
    BuildingBlocks blocks;
    std::erase_if(paths, [&](const std::string& path) {
        const auto before = std::pair(kept(blocks), left_out(blocks));
        read_building_blocks(path, start.gpu, blocks);
        leave_out_part_nodes(blocks, start);
        return kept(blocks) == before.first && left_out(blocks) > before.second;
    });
    return blocks;
}

std::string fit_blocks(const Cluster& start, CalibrationRequest request, const Progress& progress) {
    const BuildingBlocks blocks = read_used(request.measurements, start);
    const TablesFit fit =
        fit_tables(start, blocks, progress, {.sisters = read_sisters(request.measurements, start)});
    if (request.framework.empty() && !determines_anything(fit))
        refuse("calibrate: these rows determine no constant: nothing is written\n{}",
               text_of(fit, start));
    Framework framework;
    std::vector<std::string> of_framework;
    if (!request.framework.empty()) {
        framework = read_framework(request.framework);
        of_framework = take_framework(framework, blocks.launches);
        framework.name = std::filesystem::path(request.out).stem().string();
        framework.about =
            fmt::format("{}; host and memory-bound kernels as traced",
                        framework.about.empty() ? request.framework : framework.about);
        if (of_framework.empty())
            throw ConfigError(
                "--framework: no table of launches among the files; expected X.launches.csv too");
        write_whole({{framework_file(request.out), write_framework(framework)}});
    }
    std::string text = fmt::format(
        "{} kernels and collectives of traced steps, {} GEMMs, {} other kernels, {} attentions, {} "
        "casts, {} collectives, {} dispatches, {} MoE layers of {}; passed over: {} rows of other "
        "devices{}, {} of operations without a cost model, {} without size or time; start {}, "
        "written to {}\n",
        blocks.traced.size(), blocks.gemms.size(), blocks.kernels.size(), blocks.attentions.size(),
        blocks.casts.size(), blocks.collectives.size(), blocks.exchanges.size(),
        blocks.moe_layers.size(), start.gpu.name, blocks.other_device_rows,
        blocks.devices.empty() ? "" : fmt::format(" ({})", joined(blocks.devices, ", ")),
        blocks.other_op_rows, blocks.unstated_rows, start.name,
        written(fit.cluster, start, request));
    if (blocks.part_nodes_rows > 0)
        text += fmt::format("{} collectives are not fitted: {}\n", blocks.part_nodes_rows,
                            part_nodes_text(start));
    if (blocks.upper_bound_rows > 0)
        text += fmt::format(
            "{} collectives of which one rank was traced are not fitted: their times hold waiting "
            "for the others\n",
            blocks.upper_bound_rows);
    if (!of_framework.empty())
        text += fmt::format("{}: from {}, {}\n", framework_file(request.out), request.framework,
                            joined(of_framework, "; "));
    return text + text_of(fit, start);
}

std::string fit_family(Family family, CalibrationRequest request, const Progress& progress) {
    const Cluster start = read_cluster(request.cluster);
    switch (family) {
        case Family::samples: return fit_samples(start, request, progress);
        case Family::tables: return fit_blocks(start, std::move(request), progress);
        case Family::cases:
            request.framework.clear();
            request.target = FitTarget::cluster;
            return calibrate_few_shot(request, progress);
    }
    throw std::logic_error("calibrate: unknown family of tables");
}

}  // namespace

bool are_tables(const std::vector<std::string>& paths) {
    bool any = false;
    for (const std::string& path : paths) {
        const bool table = family_of(path) == Family::tables;
        if (!table && !is_of_profile(path)) return false;
        any = any || table;
    }
    return any;
}

std::string calibrate_from_measurements(const CalibrationRequest& asked, const Progress& progress) {
    CalibrationRequest request = asked;
    if (are_tables(request.measurements)) std::erase_if(request.measurements, is_of_profile);
    const std::map<Family, std::vector<std::string>> families = by_family(request.measurements);
    std::vector<std::string> inputs = request.measurements;
    for (const std::string& start_file : {request.cluster, request.framework})
        if (!start_file.empty()) inputs.push_back(start_file);
    keep_apart(request.framework.empty() ? std::vector{request.out}
                                         : std::vector{request.out, framework_file(request.out)},
               inputs);
    std::string text;
    for (const auto& [family, files] : families) {
        request.measurements = files;
        try {
            text += fit_family(family, request, progress);
        } catch (const ConfigError& error) {
            if (text.empty()) throw;
            refuse("{}; {} holds what was fitted to the other files", error.what(), request.out);
        }
        request.cluster = request.out;
    }
    return text;
}

}  // namespace stepcast
