#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "cases/cases.h"
#include "cases/cluster.h"
#include "model/errors.h"
#include "model/records/provenance.h"

namespace stepcast {
namespace {

struct Run {
    const Sample* first = nullptr;
    std::map<std::string, double> summary;               // phase -> value, rank -1
    std::map<std::string, std::vector<double>> samples;  // phase -> values over steps, rank -1
    bool has_ranks = false;
    std::vector<RowHash> rows;
};

// Runs in order of appearance.
std::vector<Run> runs_of(const std::vector<Sample>& samples) {
    std::vector<Run> runs;
    std::map<std::string, std::size_t> index;
    for (const auto& s : samples) {
        if (!s.model.starts_with("moe_layer")) continue;
        const auto [at, fresh] = index.emplace(s.run_id, runs.size());
        if (fresh) runs.emplace_back().first = &s;
        auto& run = runs[at->second];
        if (s.phase == "step" && s.rank == -1) run.rows.push_back(row_hash(s));
        if (s.rank >= 0)
            run.has_ranks = true;
        else if (s.phase != "step" && s.phase != "forward" && s.phase != "backward")
            continue;
        else if (s.step == -1)
            run.summary[s.phase] = s.value;
        else
            run.samples[s.phase].push_back(s.value);
    }
    return runs;
}

std::optional<Seconds> measured(const Run& run, const std::string& phase) {
    if (const auto found = run.summary.find(phase); found != run.summary.end()) return Seconds(found->second);
    if (const auto found = run.samples.find(phase); found != run.samples.end()) return Seconds(median(found->second));
    return std::nullopt;
}

// "moe_layer-1024x4096-fp16-8192-top2" states the shape: hidden x ffn, dtype, tokens of a rank, top-k.
std::vector<Override> shape_of(const std::string& model) {
    if (model == "moe_layer" || model.starts_with("moe_layer_")) return {};  // as the preset says
    int hidden = 0, ffn = 0, tokens = 0, top_k = 0, end = 0;
    char dtype[16] = {};
    const int read = std::sscanf(model.c_str(), "moe_layer-%9dx%9d-%15[a-z0-9]-%9d-top%9d%n", &hidden, &ffn, dtype,
                                 &tokens, &top_k, &end);
    if (read != 5 || static_cast<std::size_t>(end) != model.size())
        throw ConfigError("model \"" + model +
                          "\" states no shape; expected moe_layer or moe_layer-HIDDENxFFN-DTYPE-TOKENS-topK");
    return {{"workload.hidden", std::to_string(hidden)},
            {"workload.ffn", std::to_string(ffn)},
            {"workload.dtype", dtype},
            {"workload.seq", std::to_string(tokens)},
            {"parallelism.micro_batch", "1"},
            {"workload.moe.top_k", std::to_string(top_k)}};
}

// The routing file of a run that recorded its routing, or "".
std::string recorded_routing(const Run& run, const std::string& folder) {
    if (folder.empty() || !run.has_ranks) return "";
    for (const auto& name : {run.first->run_id, fmt::format("{}_{}", run.first->system, run.first->experts)}) {
        const auto path = std::filesystem::path(folder) / (name + ".csv");
        if (std::filesystem::is_regular_file(path)) return path.string();
    }
    return "";
}

Case case_of_run(const Run& run, const std::string& folder, const std::string& cluster) {
    const auto& first = *run.first;
    const auto step = measured(run, "step");
    if (!step) throw ConfigError("has no rows of phase step and rank -1");
    Case result;
    result.source = "measurements";
    result.case_id = first.run_id;
    result.series = first.system;
    result.x = first.experts;
    result.measured_step = *step;
    result.rows = run.rows;
    result.measured_forward = measured(run, "forward");
    result.measured_backward = measured(run, "backward");

    auto overrides = shape_of(first.model);
    overrides.push_back({"workload.moe.experts", std::to_string(first.experts)});
    const std::string preset = "moe_layer_" + first.system;
    add_machine(cluster, read_experiment(preset).cluster, first.ranks, overrides, result.assumptions);
    const std::string ranks = std::to_string(std::max(1, first.ranks));
    for (const char* key : {"parallelism.dp", "parallelism.ep"})
        if (first.ranks > 0) overrides.push_back({key, ranks});
    if (const auto file = recorded_routing(run, folder); !file.empty()) {
        overrides.push_back({"routing.file", file});
    } else {
        overrides.push_back({"routing.kind", "random-gate"});
        overrides.push_back({"routing.draws", "200"});
        result.assumptions.push_back("routing not recorded: random-gate, 200 draws");
    }
    result.experiment = read_experiment(preset, overrides);
    return result;
}

}  // namespace

std::vector<Comparison> comparisons_of_layers(const std::vector<Sample>& samples, const std::string& routing_folder,
                                              const std::string& cluster) {
    std::vector<Comparison> found;
    for (const auto& run : runs_of(samples)) {
        Comparison& one = found.emplace_back();
        try {
            one.what = case_of_run(run, routing_folder, cluster);
        } catch (const ConfigError& e) {
            one.what.source = "measurements";
            one.what.case_id = run.first->run_id;
            one.what.series = run.first->system;
            one.what.measured_step = measured(run, "step").value_or(Seconds(0));
            one.refused_because = "run " + run.first->run_id + ": " + e.what();
        }
    }
    return found;
}

}  // namespace stepcast
