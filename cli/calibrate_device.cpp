#include "cli/calibrate_device.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "calibrate/gpu_fit.h"
#include "calibrate/gpu_sweep.h"
#include "calibrate/host_fit.h"
#include "calibrate/host_sweep.h"
#include "exec/cuda_plugin.h"
#include "exec/execute.h"
#include "exec/host_device.h"
#include "exec/host_machine.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/numbers.h"
#include "model/base/whole_files.h"
#include "model/experiment.h"
#include "model/input/presets.h"
#include "model/machine/cluster_file.h"
#include "reports/comparison_words.h"
#include "reports/plots.h"

namespace stepcast {
namespace {

std::vector<SweepResult> measure(Device& device, std::vector<TaskGraph> graphs,
                                 const std::function<ExecuteOptions(std::size_t sweep)>& how,
                                 const Progress& progress) {
    std::vector<SweepResult> results;
    for (TaskGraph& graph : graphs) {
        if (progress) progress(fmt::format("sweep {} of {}", results.size() + 1, graphs.size()));
        Measurement measurement = execute(graph, device, how(results.size()));
        results.push_back({std::move(graph), std::move(measurement)});
    }
    return results;
}

void require_cores(int ranks) {
    if (const std::size_t cores = allowed_cores().size();
        as_index(ranks) > std::max<std::size_t>(cores, 2))
        throw ConfigError(
            "--ranks " + std::to_string(ranks) + ": this machine has " + std::to_string(cores) +
            " cores; ranks that share a core measure each other, expected at most one a core");
}

// Without gnuplot, the text says why there is no plot: the cluster file is already written.
std::string host_plots(const Cluster& cluster, const std::string& stem) {
    const auto plot = [](const std::vector<FittedCurve>& curves, const std::string& x,
                         const std::string& y, const std::string& title, const std::string& path) {
        plot_curves(curves, title, x, y, path);
        return path + ".png\n";
    };
    try {
        return plot(fitted_curves(cluster), "bytes", "time [s]",
                    "Host: memory-bound kernels and collectives, latency and rate fitted",
                    stem + "-curves") +
               plot(fitted_rates(cluster), "k of C[m,n] = A[m,k] B[k,n]", "rate [FLOP/s]",
                    "Host: GEMMs, efficiency and loss at short k fitted", stem + "-gemm");
    } catch (const ConfigError& error) {
        return std::string("no plot: ") + error.what() + "\n";
    }
}

// The cluster that was named, or the preset that describes this GPU.
std::optional<Cluster> datasheet_of(const std::string& asked, const std::string& gpu) {
    if (!asked.empty()) return read_cluster(asked);
    for (const PresetKind kind : {PresetKind::cluster, PresetKind::nameplate})
        for (const std::string& name : preset_names(kind))
            if (Cluster cluster = read_cluster(name); names_device(gpu, cluster.gpu))
                return cluster;
    return {};
}

// Names of the plots. If none can be drawn, the text says why: everything else is already written.
std::string gpu_plots(const TablesFit& fit, const std::string& stem) {
    std::string text;
    for (const FitResult& result : fit.results) {
        if (result.cases.empty()) continue;
        const std::string &kind = result.cases.front().kind, path = stem + "-" + kind;
        try {
            plot_fit(kind, result.cases, fit.cluster.name, path);
            text += path + ".png\n";
        } catch (const ConfigError& error) {
            text += std::string("no plot: ") + error.what() + "\n";
        }
    }
    return text;
}

}  // namespace

std::string calibrate_host(const Options& options, const Progress& progress) {
    const int ranks = options.ranks > 0 ? options.ranks : 2;
    require_cores(ranks);
    const auto device = open_host_device(ranks);
    const std::vector<SweepResult> results = measure(
        *device, host_sweeps(ranks),
        [&](std::size_t sweep) {
            ExecuteOptions how = sweep_options(options.steps);
            how.check_idle = sweep == 0;
            return how;
        },
        progress);
    if (progress) progress("");
    if (!device->reports()) return "";
    const Cluster cluster = fit_host(results, processor_name(), available_memory() / ranks);
    write_whole({{options.out, write_cluster(cluster)}});
    const std::filesystem::path out(options.out);
    std::string text =
        options.out + "\n" + host_plots(cluster, (out.parent_path() / out.stem()).string());
    if (const std::string doubt = busy_warning(results); !doubt.empty()) text += doubt + "\n";
    return text + provenance_text(cluster) + "\n";
}

std::string calibrate_cuda(const Options& options, const Progress& progress) {
    CudaDeviceAndGpu opened = open_cuda_device({.ranks = options.ranks});
    constexpr int ada = 89;
    const std::vector<SweepResult> results = measure(
        *opened.device,
        gpu_sweeps(opened.device->rank_count(), opened.gpu.capability >= ada,
                   opened.gpu.memory_bandwidth),
        [&](std::size_t) {
            ExecuteOptions how = sweep_options(options.steps);
            // the first loads kernels; after the second the clock is at its level under load
            how.warmup = 2;
            return how;
        },
        progress);
    if (!opened.device->reports()) return "";
    const GpuPoints points = collect_gpu_points(results);
    const std::filesystem::path out(options.out);
    const std::string stem = (out.parent_path() / out.stem()).string();
    const std::vector<PlannedFile> tables = gpu_tables(points, opened.gpu.name, stem);
    write_whole(tables);  // first, because they can be used elsewhere if nothing can be fitted here
    const Nameplate plate{opened.gpu.name, opened.gpu.multiprocessors, opened.gpu.memory,
                          opened.gpu.memory_bandwidth};
    const std::optional<Cluster> known = datasheet_of(options.cluster, plate.name);
    Start start = start_cluster(points, plate, known ? &*known : nullptr);
    start.cluster.name = out.stem().string();
    const TablesFit fit = fit_gpu(start, points, progress);
    write_whole({{options.out, write_cluster(fit.cluster)}});
    if (progress) progress("");
    std::string text = options.out + "\n";
    for (const PlannedFile& table : tables) text += table.path + "\n";
    text += gpu_plots(fit, stem);
    for (const FitResult& result : fit.results) text += describe(result);
    return text + provenance_text(fit.cluster) + "\n";
}

}  // namespace stepcast
