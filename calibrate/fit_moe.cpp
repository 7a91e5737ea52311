#include "calibrate/fit_moe.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <optional>

#include "calibrate/import.h"
#include "calibrate/moe_run_model.h"
#include "calibrate/whole_files.h"
#include "model/errors.h"
#include "model/experiment.h"

namespace stepcast {
namespace {

// Expected scatter: a recorded routing leaves the noise of a run (about 2 %), an unknown one that of the gate (6-8 %).
constexpr double spread_known = 1, spread_unknown = 3.5;

struct RecordedRun {
    std::string id;
    std::vector<Sample> rows;
};

std::vector<RecordedRun> runs_of(const std::vector<Sample>& rows) {
    std::vector<RecordedRun> runs;
    std::map<std::string, std::size_t> index;
    for (const Sample& row : rows) {
        const auto [at, fresh] = index.emplace(row.run_id, runs.size());
        if (fresh) runs.push_back({row.run_id, {}});
        runs[at->second].rows.push_back(row);
    }
    return runs;
}

std::vector<Sample> medians_of(const RecordedRun& run) {
    std::vector<Sample> medians;
    for (const Sample& row : run.rows) {
        if (row.step == -1) medians.push_back(row);
    }
    if (!medians.empty()) return medians;
    Summaries computed = summaries(run.rows);
    if (!computed.refused.empty()) throw ConfigError(computed.refused.front());
    return std::move(computed.rows);
}

Experiment experiment_of(const RecordedRun& run, const Cluster& cluster) {
    const Sample& row = run.rows.front();
    const auto refuse = [&](const std::string& what) { throw ConfigError(fmt::format("{}: {}", run.id, what)); };
    const std::optional<LayerShape> shape = parse_model_name(row.model);
    if (!shape) refuse(fmt::format("model \"{}\" is not a layer this fit knows; expected, for example, moe_layer-1024x4096-fp16-8192-top2", row.model));
    if (row.ranks != rank_count(cluster)) refuse(fmt::format("measured on {} ranks, but cluster {} has {}", row.ranks, cluster.name, rank_count(cluster)));
    Experiment e;
    e.name = run.id;
    e.cluster = cluster;
    e.workload.name = "moe_layer";
    e.workload.hidden = shape->hidden;
    e.workload.ffn = shape->ffn;
    e.workload.seq = shape->tokens;
    e.workload.dtype = parse_dtype(shape->dtype);
    e.workload.moe = {.experts = row.experts, .top_k = shape->top_k, .capacity_factor = 0, .shared_experts = 0};
    e.parallelism.dp = e.parallelism.ep = row.ranks;
    try {
        e.parallelism.moe_system = parse_moe_system(row.system);
        check_experiment(e);
    } catch (const ConfigError& error) {
        refuse(error.what());
    }
    return e;
}

void add_cases(const RecordedRun& run, const Cluster& cluster, std::vector<FitCase>& cases) {
    const std::vector<Sample> medians = medians_of(run);
    const std::optional<Routing> routing = recorded_routing(medians);
    const auto model = std::make_shared<MoeRunModel>(experiment_of(run, cluster), routing);
    const double spread = routing ? spread_known : spread_unknown;
    const auto add = [&](const Sample& row, const std::string& kind, std::function<Seconds(const MoeRunTimes&)> part) {
        const std::string who = row.rank < 0 ? row.phase : fmt::format("{} rank {}", row.phase, row.rank);
        cases.push_back({fmt::format("{} {}", run.id, who), kind, run.id, Seconds(row.value),
                         [model, part = std::move(part)](const Cluster& c) { return part(model->times(c)); }, spread});
    };
    for (const Sample& row : medians) {
        if (row.unit != "s") continue;
        if (row.phase == "step") add(row, "step", [](const MoeRunTimes& t) { return t.step; });
        if (row.phase == "forward") add(row, "forward", [](const MoeRunTimes& t) { return t.forward; });
        if (row.phase == "backward") add(row, "backward", [](const MoeRunTimes& t) { return t.backward; });
        if (!routing || row.rank < 0) continue;
        for (const char* kernel : {"AG", "GA"}) {
            for (const auto& [name, phase] : {std::pair("forward", Phase::forward), std::pair("backward", Phase::backward)}) {
                if (row.phase != fmt::format("{}.{}", kernel, name)) continue;
                add(row, kernel, [key = MoeKernel{kernel, phase, row.rank}](const MoeRunTimes& t) { return t.kernel(key); });
            }
        }
    }
}

// Building blocks have headers of their own; say so rather than call the file broken.
void refuse_building_blocks(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    int number = 1;
    while (std::getline(file, line) && line.starts_with('#')) ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const auto refuse = [&](const char* what, const char* needs) {
        throw ConfigError(fmt::format("{}:{}: {} (header \"{}\") cannot be fitted yet: needs {}; expected an imported measurements file", path, number, what, line.substr(0, 80), needs));
    };
    if (line.starts_with("m,n,k,")) refuse("GEMM building blocks", "the fit of the GEMM law to measured shapes");
    if (line.starts_with("op,ranks,nodes,bytes")) refuse("collective building blocks", "the fit of latency and bandwidth per collective");
}

}  // namespace

// Host and kernel priors: orders of magnitude from MODELS section 1. The two bandwidths were measured apart from the
// runs; step times alone cannot tell them (condition 276 to 1e8), so their priors are tight and win unless the data
// know better than 3 %.
std::vector<FitParameter> moe_parameters() {
    return {
        {"host.module_forward", "0.5 ms", 0.7, "10 us", "10 ms"},
        {"host.module_backward", "0.5 ms", 0.7, "10 us", "10 ms"},
        {"host.exchange_setup", "0.1 ms", 0.7, "1 us", "10 ms"},
        {"host.assignment", "2 ms", 0.7, "50 us", "50 ms"},
        {"host.schedule", "3 ms", 0.7, "50 us", "50 ms"},
        {"host.framework", "50 us", 0.7, "1 us", "5 ms"},
        {"kernel.fused_ramp", "0.39 ms", 0.7, "10 us", "5 ms"},
        {"kernel.fused_efficiency", "0.52", 0.3, "0.05", "1"},
        {"kernel.fused_tail", "1.01 ms", 0.7, "10 us", "10 ms"},
        {"kernel.fused_scatter_exposed", "0.44", 0.7, "0.01", "1"},
        {"kernel.wgrad_efficiency", "0.26", 0.5, "0.02", "1"},
        {"kernel.transpose_efficiency", "0.25", 0.5, "0.02", "1"},
        {"link.intra.bandwidth", "7.2 GB/s", 0.03, "1 GB/s", "50 GB/s"},
        {"link.intra.peer_bandwidth", "11 GB/s", 0.03, "1 GB/s", "50 GB/s"},
    };
}

std::vector<FitCase> moe_cases(const std::vector<Sample>& rows, const Cluster& cluster) {
    std::vector<FitCase> cases;
    for (const RecordedRun& run : runs_of(rows)) add_cases(run, cluster, cases);
    return cases;
}

std::string calibrate_from_measurements(const CalibrationRequest& request, const std::function<void(std::string_view)>& progress) {
    const Cluster start = read_cluster(request.cluster);
    std::vector<Sample> rows;
    for (const std::string& path : request.measurements) {
        refuse_building_blocks(path);
        const std::vector<Sample> more = read_measurements(path);
        rows.insert(rows.end(), more.begin(), more.end());
    }
    const std::vector<FitCase> cases = moe_cases(rows, start);
    FitResult result = fit(start, moe_parameters(), cases, progress);
    result.cluster.fitted->date = request.date;
    result.cluster.fitted->sources = request.measurements;
    write_whole({{request.out, write_cluster(result.cluster)}});
    return fmt::format("{} cases of {} runs, start {}, written to {}\n{}", cases.size(), runs_of(rows).size(), start.name, request.out, describe(result));
}

}  // namespace stepcast
