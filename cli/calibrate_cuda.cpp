#include "cli/calibrate.h"

#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "calibrate/gpu_fit.h"
#include "calibrate/gpu_sweep.h"
#include "exec/cuda_plugin.h"
#include "exec/execute.h"
#include "model/errors.h"
#include "model/experiment.h"
#include "model/presets.h"
#include "reports/plots.h"
#include "reports/tables.h"

namespace stepcast {
namespace {

// The preset that describes this GPU, or the cluster that was named.
std::optional<Cluster> datasheet_of(const std::string& asked, const std::string& gpu) {
    if (!asked.empty()) return read_cluster(asked);
    for (const std::string& name : preset_names(PresetKind::cluster))
        if (Cluster cluster = read_cluster(name); names_device(gpu, cluster.gpu)) return cluster;
    return {};
}

std::vector<SweepResult> measure(Device& device, const CudaGpu& gpu, int steps,
                                 const std::function<void(std::string_view)>& progress) {
    constexpr int ada = 89;
    std::vector<TaskGraph> graphs = gpu_sweeps(device.rank_count(), gpu.capability >= ada, gpu.memory_bandwidth);
    std::vector<SweepResult> results;
    for (TaskGraph& graph : graphs) {
        if (progress) progress(fmt::format("sweep {} of {}", results.size() + 1, graphs.size()));
        ExecuteOptions how = sweep_options(steps);
        how.warmup = 2;  // the first loads kernels, the second finds the clock where work puts it
        Measurement measurement = execute(graph, device, how);
        results.push_back({std::move(graph), std::move(measurement)});
    }
    return results;
}

// Of one kind, as curves over its size.
FitPlot plot_of(const FitResult& result) {
    FitPlot plot{result.cases.empty() ? "" : result.cases.front().kind, {}};
    for (const CaseResult& c : result.cases) plot.points.push_back({c.kind, c.measured, c.fitted});
    return plot;
}

// Names of the plots; where none can be drawn, why: everything else is written by then.
std::string plot_lines(const GpuFit& fit, const std::string& stem) {
    std::string text;
    for (const FitResult& result : fit.results) {
        const FitPlot plot = plot_of(result);
        if (plot.points.empty()) continue;
        const std::string path = stem + "-" + plot.kind;
        try {
            plot_fit(plot, fit.cluster.name, path);
            text += path + ".png\n";
        } catch (const ConfigError& error) {
            text += std::string("no plot: ") + error.what() + "\n";
        }
    }
    return text;
}

}  // namespace

std::string calibrate_cuda(const Options& options, const std::function<void(std::string_view)>& progress) {
    CudaDeviceAndGpu opened = open_cuda_device({.ranks = options.ranks});
    const std::vector<SweepResult> results = measure(*opened.device, opened.gpu, options.steps, progress);
    if (!opened.device->reports()) return "";
    const GpuPoints points = collect_gpu_points(results);
    const std::filesystem::path out(options.out);
    const std::string stem = (out.parent_path() / out.stem()).string();
    const std::vector<PlannedFile> tables = gpu_tables(points, opened.gpu.name, stem);
    write_whole(tables);  // first: where nothing can be fitted, they can be taken elsewhere
    const Nameplate plate{opened.gpu.name, opened.gpu.multiprocessors, opened.gpu.memory, opened.gpu.memory_bandwidth};
    const std::optional<Cluster> known = datasheet_of(options.cluster, plate.name);
    Start start = start_cluster(points, plate, known ? &*known : nullptr);
    start.cluster.name = out.stem().string();
    const GpuFit fit = fit_gpu(start, points, progress);
    write_whole({{options.out, write_cluster(fit.cluster)}});
    if (progress) progress("");
    std::string text = options.out + "\n";
    for (const PlannedFile& table : tables) text += table.path + "\n";
    text += plot_lines(fit, stem);
    for (const FitResult& result : fit.results) text += describe(result);
    return text + provenance_text(fit.cluster) + "\n";
}

}  // namespace stepcast
