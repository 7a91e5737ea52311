#include "cli/calibrate.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "calibrate/host_sweep.h"
#include "exec/execute.h"
#include "exec/host_device.h"
#include "exec/host_machine.h"
#include "model/errors.h"
#include "model/files/whole_files.h"
#include "reports/plots.h"
#include "reports/tables.h"

namespace stepcast {
namespace {

void require_cores(int ranks) {
    if (const std::size_t cores = allowed_cores().size();
        static_cast<std::size_t>(ranks) > std::max<std::size_t>(cores, 2))
        throw ConfigError("--ranks " + std::to_string(ranks) + ": this machine has " + std::to_string(cores) +
                          " cores; ranks that share a core measure each other, expected at most one a core");
}

std::vector<SweepResult> measure(Device& device, int ranks, int steps,
                                 const std::function<void(std::string_view)>& progress) {
    std::vector<SweepResult> results;
    for (TaskGraph& graph : host_sweeps(ranks)) {
        progress("sweep " + std::to_string(results.size() + 1));
        ExecuteOptions how = sweep_options(steps);
        how.check_idle = results.empty();
        const Measurement measurement = execute(graph, device, how);
        results.push_back({std::move(graph), measurement});
    }
    progress("");
    return results;
}

// Where gnuplot is missing, why there is no plot: the cluster file is written by then.
std::string plot_lines(const Cluster& cluster, const std::string& stem) {
    const auto plot = [](const std::vector<FittedCurve>& curves, const std::string& x, const std::string& y,
                         const std::string& title, const std::string& path) {
        std::vector<CurvePlot> plots;
        for (const FittedCurve& curve : curves) plots.push_back({curve.name, curve.measured, curve.fitted});
        plot_curves(plots, title, x, y, path);
        return path + ".png\n";
    };
    try {
        return plot(fitted_curves(cluster), "bytes", "time [s]",
                    "Host: memory passes and collectives, latency and rate fitted", stem + "-curves") +
               plot(fitted_rates(cluster), "k of C[m,n] = A[m,k] B[k,n]", "rate [FLOP/s]",
                    "Host: matrix products, efficiency and fill of k fitted", stem + "-gemm");
    } catch (const ConfigError& error) {
        return std::string("no plot: ") + error.what() + "\n";
    }
}

}  // namespace

std::string calibrate_host(const Options& options, const std::function<void(std::string_view)>& progress) {
    const int ranks = options.ranks > 0 ? options.ranks : 2;
    require_cores(ranks);
    const auto device = open_host_device(ranks);
    const std::vector<SweepResult> results = measure(*device, ranks, options.steps, progress);
    if (!device->reports()) return "";
    const Cluster cluster = fit_host(results, processor_name(), available_memory() / ranks);
    write_whole({{options.out, write_cluster(cluster)}});
    const std::filesystem::path out(options.out);
    std::string text = options.out + "\n" + plot_lines(cluster, (out.parent_path() / out.stem()).string());
    if (const std::string doubt = busy_warning(results); !doubt.empty()) text += doubt + "\n";
    return text + provenance_text(cluster) + "\n";
}

}  // namespace stepcast
